"""A task's output pages by partition, kept until their consumers acknowledge them.

The pages of a partition are numbered from 0. A consumer fetches pages from a number on. It may fetch the same pages
again until it acknowledges them, so a lost answer does no harm. All partitions share one limit in bytes; producers that
reach it are blocked. The lock is taken once for each page.
"""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.wait_token cimport WaitList, WaitToken
from qcore_ext.flow.barrier cimport Barrier, Membership


ctypedef struct Page:
    Batch* batch                # owned
    int64_t n_bytes
    int64_t n_holders           # partitions that hold it; under the buffer's lock
    Page* next_dropped


ctypedef struct PagePartition:
    Page** ring
    int64_t capacity
    int64_t head
    int64_t n_pages
    int64_t first               # number of the page at the head; all pages before it are acknowledged
    bint is_gone                # its consumer called drop
    WaitList consumers
    int64_t pages_total
    int64_t rows_total
    int64_t bytes_total


cdef class OutputBuffer:
    """Shared by the drivers of a task's last pipeline and its consumers, from any thread."""
    cdef Mutex mutex
    cdef readonly int64_t n_partitions
    cdef int kind
    cdef PagePartition* partitions      # owned; the last one, after the consumers', holds pages for any consumer
    cdef Barrier barrier                # of the producers
    cdef int64_t n_wanting              # partitions whose consumer is not gone
    cdef bint is_broken                 # a producer left before its end
    cdef int64_t bytes_held
    cdef int64_t bytes_max
    cdef WaitList producers

    # Takes the reference to batch. False: the batch was dropped, because no consumer is left or this partition's is
    # gone.
    cdef bint put(self, int64_t partition, Batch* batch, int64_t n_bytes) except -1 nogil
    # True: the buffer is full, and the token was registered.
    cdef bint is_full(self, WaitToken* token) except -1 nogil
    cdef bint has_consumers(self) noexcept nogil
    # Each is called exactly once for each producer. `finished`: the producer has put all its pages.
    cdef void join(self, Membership* member) noexcept nogil     # before it runs
    cdef void producer_done(self, bint finished, Membership* member) noexcept nogil

    # Called under the lock. A `const char*` result is the message to raise after unlocking, or NULL.
    cdef const char* put_locked(self, int64_t partition, Page* page) noexcept nogil
    cdef void drop_pages(self, PagePartition* of, int64_t n, Page** dropped) noexcept nogil
    cdef bint is_over(self) noexcept nogil
    cdef void wake_consumers(self, int64_t partition) noexcept nogil
    cdef void wake_all(self) noexcept nogil
    cdef void take_producers(self, WaitList* taken) noexcept nogil
    cdef int acknowledge_to(self, PagePartition* of, int64_t sequence, Page** dropped) noexcept nogil
    cdef int look(
        self, int64_t partition, int64_t sequence, int64_t bytes_wanted, WaitToken* token, Page** dropped,
        Batch*** batches, int64_t* n, bint* complete, const char** failed,
    ) noexcept nogil
    cdef int try_fetch(
        self, int64_t partition, int64_t sequence, int64_t bytes_wanted, WaitToken* token, Batch*** batches,
        int64_t* n, bint* complete,
    ) except -1 nogil
    cdef void forget_token(self, int64_t partition, WaitToken* token) noexcept nogil
    cdef void read_partition(self, int64_t partition, PagePartition* counters) noexcept nogil
