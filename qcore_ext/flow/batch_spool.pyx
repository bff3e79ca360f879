"""Batches that are made once and read several times."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from qcore_ext.data.batch cimport Batch, batch_ref, batch_unref
from qcore_ext.ground.atomic cimport qc_add, qc_load
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.fault cimport FAULT_STRUCT, fault_here
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport struct_free, struct_new
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add,
)
from qcore_ext.flow.batch_queue cimport QUEUE_CLOSED, QUEUE_DONE, QUEUE_WAIT, QueueAnswer


cdef class BatchSpool:
    """Batches for several readers, each of which reads all of them.

    Parameters
    ----------
    n_producers : int
        Operators that push. Each calls producer_done once.
    drivers : list of int
        For each reader, the number of drivers that share its batches. Each driver calls reader_gone once.
    """

    def __init__(self, int64_t n_producers, list drivers):
        cdef int64_t i
        if n_producers < 1 or not drivers or min(drivers) < 1:
            raise ValueError("a spool needs at least one producer and one reader, and a driver for each reader")
        self.n_producers = n_producers
        self.n_readers = len(drivers)
        self.n_reading = self.n_readers
        self.next_of = <int64_t*> struct_new(self.n_readers * sizeof(int64_t))
        self.drivers_of = <int64_t*> struct_new(self.n_readers * sizeof(int64_t))
        for i in range(self.n_readers):
            self.drivers_of[i] = drivers[i]

    def __cinit__(self):
        mutex_init(&self.mutex, LOCK_STRUCTURE)

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.n_batches):
            batch_unref(self.batches[i])
        free(self.batches)
        free(self.left_of)
        struct_free(self.next_of)
        struct_free(self.drivers_of)
        wait_list_clear(&self.waiting)
        mutex_destroy(&self.mutex)

    cdef const char* reserve(self) noexcept nogil:
        """Reserve space for one more batch."""
        cdef int64_t capacity = max(<int64_t> 16, self.capacity * 2)
        cdef Batch** batches
        cdef int32_t* left_of
        if self.n_batches < self.capacity:
            return NULL
        if fault_here(FAULT_STRUCT):
            return b"injected fault: struct"
        # If the second allocation fails, the first array is merely longer than necessary.
        left_of = <int32_t*> realloc(self.left_of, capacity * sizeof(int32_t))
        if left_of == NULL:
            return b"the machine has no memory left"
        self.left_of = left_of
        batches = <Batch**> realloc(self.batches, capacity * sizeof(Batch*))
        if batches == NULL:
            return b"the machine has no memory left"
        self.batches = batches
        self.capacity = capacity
        return NULL

    cdef int push(self, Batch* batch) except -1 nogil:
        cdef WaitList taken
        cdef const char* failed = NULL
        cdef bint wanted
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        wanted = self.n_reading > 0
        if wanted:
            failed = self.reserve()
        if wanted and failed == NULL:
            self.batches[self.n_batches] = batch
            self.left_of[self.n_batches] = <int32_t> self.n_reading
            self.n_batches += 1
            if self.waiting.n_tokens > 0:
                wait_list_take(&self.waiting, &taken)
        mutex_unlock(&self.mutex)
        if failed != NULL:
            return raise_memory_limit(failed)
        if not wanted:
            batch_unref(batch)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)
        return 0

    cdef Batch* hand_out(self, int64_t position) noexcept nogil:
        """Give the batch to a reader: a new reference, or the spool's own for the last reader."""
        cdef Batch* batch = self.batches[position]
        qc_check(position < self.n_batches, b"a reader's position is that of a batch")
        qc_check(batch != NULL and self.left_of[position] > 0, b"a batch is kept until every reader has read it")
        self.left_of[position] -= 1
        if self.left_of[position] > 0:
            return batch_ref(batch)
        self.batches[position] = NULL
        return batch

    cdef QueueAnswer next(self, int64_t reader, Batch** out, WaitToken* token) except <QueueAnswer> -1 nogil:
        cdef QueueAnswer answer = QUEUE_DONE
        cdef const char* failed = NULL
        mutex_lock(&self.mutex)
        if self.next_of[reader] < self.n_batches:
            out[0] = self.hand_out(self.next_of[reader])
            self.next_of[reader] += 1
        elif self.n_producers == 0:
            answer = QUEUE_CLOSED
        else:
            failed = wait_list_try_add(&self.waiting, token)
            answer = QUEUE_WAIT
        mutex_unlock(&self.mutex)
        if failed != NULL:
            raise_memory_limit(failed)
        return answer

    cdef void producer_done(self) noexcept nogil:
        cdef WaitList taken
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        self.n_producers -= 1
        if self.n_producers == 0:
            wait_list_take(&self.waiting, &taken)
        mutex_unlock(&self.mutex)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)

    cdef void reader_gone(self, int64_t reader) noexcept nogil:
        cdef Batch* batch
        cdef int64_t position, end
        mutex_lock(&self.mutex)
        self.drivers_of[reader] -= 1
        position = self.next_of[reader]
        end = position
        if self.drivers_of[reader] == 0:
            # This reader gets no batch that is pushed from now on.
            qc_add(&self.n_reading, -1)
            end = self.n_batches
        mutex_unlock(&self.mutex)
        # Batches are never dropped under the lock.
        while position < end:
            mutex_lock(&self.mutex)
            batch = self.hand_out(position)
            mutex_unlock(&self.mutex)
            batch_unref(batch)
            position += 1

    cdef bint has_readers(self) noexcept nogil:
        return qc_load(&self.n_reading) > 0
