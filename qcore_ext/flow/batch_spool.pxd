"""Batches that are made once and read several times.

A spool has no bound. A reader may have to wait until another one is done (the probe side of a join whose build side
reads the same spool), and must not stop the producers meanwhile. A batch is dropped when every reader has read it.
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
    cdef int32_t* left_of       # for each batch, readers that have not read it
    cdef int64_t n_batches
    cdef int64_t capacity
    cdef int64_t n_producers    # not yet done
    cdef int64_t n_readers
    cdef int64_t n_reading      # readers that are not gone
    cdef int64_t* next_of       # by reader: position of its next batch
    cdef int64_t* drivers_of    # by reader: its drivers that are not gone
    cdef WaitList waiting

    # The spool takes over the caller's reference, unless it raises. A batch without readers is dropped.
    cdef int push(self, Batch* batch) except -1 nogil
    # QUEUE_DONE: *out is owned by the caller; QUEUE_WAIT: the token was registered; QUEUE_CLOSED: no more will come.
    cdef QueueAnswer next(self, int64_t reader, Batch** out, WaitToken* token) except <QueueAnswer> -1 nogil
    # One producer pushes no more. Called exactly once for each producer.
    cdef void producer_done(self) noexcept nogil
    # One driver of a reader takes no more. Called exactly once for each driver. With the reader's last driver, the
    # batches it has not read are dropped.
    cdef void reader_gone(self, int64_t reader) noexcept nogil
    cdef bint has_readers(self) noexcept nogil
    # Called under the lock. Returns the message to raise after unlocking, or NULL.
    cdef const char* reserve(self) noexcept nogil
    cdef Batch* hand_out(self, int64_t position) noexcept nogil
