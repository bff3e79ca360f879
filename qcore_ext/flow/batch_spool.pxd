"""Batches made once and read several times.

Unbounded: a reader that cannot go on until another one is done (the probe side of a join whose build side reads the
same spool) must not stop the producers. Batches that every reader has had are dropped.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.wait_token cimport WaitList, WaitToken
from qcore_ext.flow.batch_queue cimport QueueAnswer


cdef class BatchSpool:
    """Shared by drivers, from any thread. A reader is a pipeline: each of its drivers takes the next batch."""
    cdef Mutex mutex
    cdef Batch** batches        # each owned until `left_of` it is 0; NULL then
    cdef int32_t* left_of       # readers that have not had the batch
    cdef int64_t n_batches
    cdef int64_t capacity
    cdef int64_t n_producers    # not yet done
    cdef int64_t n_readers
    cdef int64_t n_reading      # readers that are not gone
    cdef int64_t* next_of       # each reader's next batch
    cdef int64_t* drivers_of    # each reader's drivers that are not gone
    cdef WaitList waiting

    # The spool takes the reference over, unless it raises; a batch that nobody will read is dropped.
    cdef int push(self, Batch* batch) except -1 nogil
    # QUEUE_DONE: *out is owned by the caller; QUEUE_WAIT: the token was registered; QUEUE_CLOSED: no more will come.
    cdef QueueAnswer next(self, int64_t reader, Batch** out, WaitToken* token) except <QueueAnswer> -1 nogil
    # One producer pushes no more. Exactly once each.
    cdef void producer_done(self) noexcept nogil
    # One driver of a reader takes no more; with its last, what the reader has not had is dropped. Once each.
    cdef void reader_gone(self, int64_t reader) noexcept nogil
    cdef bint has_readers(self) noexcept nogil
    # Under the lock. What to raise after it, or NULL.
    cdef const char* reserve(self) noexcept nogil
    cdef Batch* had(self, int64_t position) noexcept nogil
