"""A bounded queue of batches between pipelines, or between the engine and its reader.

Many producers and consumers share it without a lock. Each cell of the ring has a turn number, which says which push or
pop uses the cell next. Cells are claimed by compare-and-swap. A driver that has to wait registers its token, checks the
queue again, and leaves its thread. Each queue has its own bound, so that a slow consumer stalls only its producers.
"""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.ground.thread_token cimport ThreadToken
from qcore_ext.ground.wait_token cimport WaitSet, WaitToken
from qcore_ext.flow.barrier cimport Barrier, Membership


cdef enum QueueAnswer:
    QUEUE_DONE = 1              # pushed; popped
    QUEUE_WAIT = 2              # full; empty: the token was registered
    QUEUE_CLOSED = 3            # no consumer is left; no producer is left and the queue is empty


ctypedef struct QueueCell:
    int64_t turn                # atomic; 2p: free for batch number p; 2p + 1: holds it
    int64_t n_bytes
    Batch* batch                # owned


cdef class BatchQueue:
    """Shared by drivers, from any thread."""
    cdef QueueCell* cells
    cdef int64_t capacity
    cdef int64_t bytes_max
    cdef int64_t head           # atomic; number of the next batch to pop
    cdef int64_t tail           # atomic; number of the next batch to push
    cdef int64_t n_queued       # atomic, as is bytes_queued; batches on their way out no longer count
    cdef int64_t bytes_queued
    cdef Barrier producers
    cdef Barrier consumers
    cdef WaitSet waiting_producers
    cdef WaitSet waiting_consumers
    cdef MemoryAccount* payer   # owned; charged for long rows that readers in Python lay out as Arrow; or NULL

    # Called once, before the query runs. `payer` is charged for the rows that readers lay out as Arrow.
    cdef void set_payer(self, MemoryAccount* payer) noexcept nogil
    # Called before the query runs, once for each operator at either end.
    cdef void join(self, Membership* member) noexcept nogil
    # QUEUE_DONE: the queue owns the caller's reference. A batch larger than the bound goes into an empty queue.
    cdef QueueAnswer push(self, Batch* batch, WaitToken* token) except <QueueAnswer> -1 nogil
    # QUEUE_DONE: *out is owned by the caller.
    cdef QueueAnswer pop(self, Batch** out, WaitToken* token) except <QueueAnswer> -1 nogil
    # One producer pushes no more. Called exactly once for each producer.
    cdef void producer_done(self, Membership* member) noexcept nogil
    # One consumer pops no more. Called exactly once for each consumer. With the last one, queued batches are dropped
    # and pushes answer QUEUE_CLOSED.
    cdef void consumer_gone(self, Membership* member) noexcept nogil
    cdef bint has_consumers(self) noexcept nogil
    cdef QueueAnswer try_push(self, Batch* batch, int64_t n_bytes) noexcept nogil
    cdef QueueAnswer try_pop(self, Batch** out) noexcept nogil
    cdef void drop_all(self) noexcept nogil
    cdef bint reserve(self, int64_t n_bytes) noexcept nogil
    cdef void unreserve(self, int64_t n_bytes) noexcept nogil
    cdef bint is_full(self) noexcept nogil
    cdef bint enter(self, Batch* batch, int64_t n_bytes) noexcept nogil
    cdef Batch* leave(self) noexcept nogil


cdef class QueueReader:
    """The queue's consumer on the Python side, for one thread at a time. It leaves the queue when closed or freed."""
    cdef readonly BatchQueue queue
    cdef ThreadToken* token     # owned
    cdef bint left
    cdef int64_t process        # fork_number() of the process that made it
    cdef int64_t n_popped       # batches so far

    cdef PyBatch wrap_batch(self, Batch* batch)
