"""A bounded queue of batches between pipelines, or between the engine and its reader. Floor E3.

Many producers, many consumers. Whoever has to wait leaves a wait token and its thread; locks are held for a few
instructions, and wake-ups are fired after unlocking. The bound is the queue's own, so that a slow consumer stalls only
who has something for it.
"""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.thread_token cimport ThreadToken
from qcore_ext.ground.wait_token cimport WaitList, WaitToken


cdef enum QueueAnswer:
    QUEUE_DONE = 1              # pushed; popped
    QUEUE_WAIT = 2              # full; empty: the token was registered
    QUEUE_CLOSED = 3            # no consumer is left; no producer is left and the queue is empty


cdef class BatchQueue:
    """Shared by drivers, from any thread."""
    cdef Mutex mutex
    cdef Batch** ring           # each owned
    cdef int64_t capacity
    cdef int64_t head
    cdef int64_t n_queued
    cdef int64_t* ring_bytes
    cdef int64_t bytes_queued
    cdef int64_t bytes_max
    cdef int64_t n_producers    # not yet done
    cdef int64_t n_consumers    # not yet gone
    cdef int64_t batches_total
    cdef int64_t rows_total
    cdef WaitList producers
    cdef WaitList consumers

    # QUEUE_DONE: the queue owns the caller's reference. A batch larger than the bound goes into an empty queue.
    cdef QueueAnswer push(self, Batch* batch, WaitToken* token) except <QueueAnswer> -1 nogil
    # QUEUE_DONE: *out is owned by the caller.
    cdef QueueAnswer pop(self, Batch** out, WaitToken* token) except <QueueAnswer> -1 nogil
    # One producer pushes no more. Exactly once each.
    cdef void producer_done(self) noexcept nogil
    # One consumer pops no more; with the last, what is queued is dropped and pushes answer QUEUE_CLOSED. Once each.
    cdef void consumer_gone(self) noexcept nogil
    cdef bint has_consumers(self) noexcept nogil
    cdef Batch* take_head(self) noexcept nogil


cdef class QueueReader:
    """The queue's consumer on the Python side: one thread at a time. Leaves the queue when closed or forgotten."""
    cdef readonly BatchQueue queue
    cdef ThreadToken* token     # owned
    cdef bint left
