"""Counters of an operator: rows, bytes, batches and times.

The driver that runs the operator writes them. Any thread reads them at any time. They are 64-bit words, so a reader
sees each counter whole, but not all of them at the same instant.
"""

from libc.stdint cimport int64_t


cpdef enum BlockReason:
    NOT_BLOCKED = 0
    WAIT_FOR_SPLIT = 1
    WAIT_FOR_JOIN_BUILD = 2
    WAIT_FOR_PRODUCER = 3       # local exchange is empty
    WAIT_FOR_CONSUMER = 4       # local exchange, output buffer or callback is full
    WAIT_FOR_MEMORY = 5
    WAIT_FOR_PEERS = 6          # a barrier, where the other drivers of the pipeline are awaited
    YIELD = 7                   # the time slice is over, or the operator answered YIELDED
    WAIT_FOR_USER = 8           # a future of an operator written in Python

cdef enum:
    N_BLOCK_REASONS = 9


ctypedef struct Timing:
    int64_t calls
    int64_t wall_nanos
    int64_t cpu_nanos


ctypedef struct OperatorStats:
    Timing add_input            # bind included
    Timing get_output
    Timing finish               # finish, abandon and close
    Timing is_blocked           # get_output calls that answered BLOCKED
    int64_t blocked_wall_nanos[N_BLOCK_REASONS]
    int64_t blocked_times[N_BLOCK_REASONS]
    int64_t input_rows
    int64_t input_bytes
    int64_t input_batches
    int64_t output_rows
    int64_t output_bytes
    int64_t output_batches
    int64_t splits              # taken by a source
    int64_t arrow_calls         # of functions computed by pyarrow: calls, rows, time
    int64_t arrow_rows
    int64_t arrow_wall_nanos

cdef extern from "native/ticks.h" nogil:
    int64_t qc_ticks()
    int64_t qc_ticks_nanos(int64_t ticks, int64_t scale)

# The factor with which qc_ticks_nanos turns ticks into nanoseconds of wall_nanos. 0: the counter is not steady, or was
# not compared with the clock for long enough yet. Once known it does not change.
cdef int64_t tick_scale() noexcept nogil
cdef int64_t wall_nanos() noexcept nogil    # monotonic
cdef int64_t cpu_nanos() noexcept nogil     # of the calling thread
# {'add_input': {'calls', 'wall_nanos', 'cpu_nanos'}, …, 'blocked_wall_nanos': {reason name: nanos}, 'input_rows', …}
cdef dict stats_to_dict(const OperatorStats* stats)
