"""What an operator did and how long it took (SPEC V14). Floor E0."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "<time.h>" nogil:
    enum:
        CLOCK_THREAD_CPUTIME_ID

REASON_NAMES = (
    "not_blocked", "split", "join_build", "producer", "consumer", "memory", "peers", "yield", "user",
)


cdef int64_t wall_nanos() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec


cdef int64_t cpu_nanos() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec


cdef dict timing_to_dict(const Timing* timing):
    return {"calls": timing.calls, "wall_nanos": timing.wall_nanos, "cpu_nanos": timing.cpu_nanos}


cdef dict stats_to_dict(const OperatorStats* stats):
    cdef int reason
    blocked_nanos = {}
    blocked_times = {}
    for reason in range(1, N_BLOCK_REASONS):
        if stats.blocked_times[reason]:
            blocked_nanos[REASON_NAMES[reason]] = stats.blocked_wall_nanos[reason]
            blocked_times[REASON_NAMES[reason]] = stats.blocked_times[reason]
    return {
        "add_input": timing_to_dict(&stats.add_input),
        "get_output": timing_to_dict(&stats.get_output),
        "finish": timing_to_dict(&stats.finish),
        "is_blocked": timing_to_dict(&stats.is_blocked),
        "blocked_wall_nanos": blocked_nanos,
        "blocked_times": blocked_times,
        "input_rows": stats.input_rows,
        "input_bytes": stats.input_bytes,
        "input_batches": stats.input_batches,
        "output_rows": stats.output_rows,
        "output_bytes": stats.output_bytes,
        "output_batches": stats.output_batches,
        "splits": stats.splits,
    }
