"""A bounded queue of batches between pipelines, or between the engine and its reader. Floor E3."""

cimport cython
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_bytes, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.lock cimport mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Owner, owner_unref, struct_free, struct_new
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.thread_token cimport thread_token_new, thread_token_wait
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_add, wait_list_clear, wait_list_fire, wait_list_take,
)

from qcore_ext.ground.status import Timeout


cdef class BatchQueue:
    """A bounded queue of batches.

    Parameters
    ----------
    n_producers : int
        Operators that push; each says once that it is done.
    n_consumers : int
        Operators or readers that pop; each says once that it is gone.
    batches_max, bytes_max : int
        Bound on what waits in the queue.
    """

    def __init__(
        self, int64_t n_producers, int64_t n_consumers=1, int64_t batches_max=64, int64_t bytes_max=1 << 25,
    ):
        if n_producers < 1 or n_consumers < 1 or batches_max < 1 or bytes_max < 1:
            raise ValueError("a batch queue needs at least one producer, one consumer and room for one batch")
        self.n_producers = n_producers
        self.n_consumers = n_consumers
        self.capacity = batches_max
        self.bytes_max = bytes_max
        self.ring = <Batch**> struct_new(batches_max * sizeof(Batch*))
        self.ring_bytes = <int64_t*> struct_new(batches_max * sizeof(int64_t))

    def __cinit__(self):
        mutex_init(&self.mutex)

    def __dealloc__(self):
        while self.n_queued > 0:
            batch_unref(self.take_head())
        struct_free(self.ring)
        struct_free(self.ring_bytes)
        wait_list_clear(&self.producers)
        wait_list_clear(&self.consumers)
        mutex_destroy(&self.mutex)

    @property
    def n_batches(self):
        """Batches waiting now."""
        return qc_load(&self.n_queued)

    @property
    def n_bytes(self):
        """Bytes waiting now."""
        return qc_load(&self.bytes_queued)

    @property
    def lock_acquisitions(self):
        """How often the queue's lock was taken."""
        return self.mutex.acquisitions

    cdef Batch* take_head(self) noexcept nogil:
        """Under the lock; the queue is not empty."""
        cdef Batch* batch = self.ring[self.head]
        self.bytes_queued -= self.ring_bytes[self.head]
        self.head = self.head + 1 if self.head + 1 < self.capacity else 0
        self.n_queued -= 1
        return batch

    cdef QueueAnswer push(self, Batch* batch, WaitToken* token) except <QueueAnswer> -1 nogil:
        cdef WaitList taken
        cdef int64_t n_bytes = batch_bytes(batch)
        cdef int64_t tail
        cdef QueueAnswer answer = QUEUE_DONE
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        try:
            if self.n_consumers == 0:
                answer = QUEUE_CLOSED
            elif self.n_queued == self.capacity or (
                self.n_queued > 0 and self.bytes_queued + n_bytes > self.bytes_max
            ):
                wait_list_add(&self.producers, token)
                answer = QUEUE_WAIT
            else:
                tail = self.head + self.n_queued
                if tail >= self.capacity:
                    tail -= self.capacity
                self.ring[tail] = batch
                self.ring_bytes[tail] = n_bytes
                self.n_queued += 1
                self.bytes_queued += n_bytes
                self.batches_total += 1
                self.rows_total += batch.n_selected
                if self.consumers.n_tokens > 0:
                    wait_list_take(&self.consumers, &taken)
        finally:
            mutex_unlock(&self.mutex)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)
        return answer

    cdef QueueAnswer pop(self, Batch** out, WaitToken* token) except <QueueAnswer> -1 nogil:
        cdef WaitList taken
        cdef QueueAnswer answer = QUEUE_DONE
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        try:
            if self.n_queued > 0:
                out[0] = self.take_head()
                # Half empty: a producer woken for one free place would block again right away.
                if self.producers.n_tokens > 0 and (
                    self.n_queued * 2 <= self.capacity and self.bytes_queued * 2 <= self.bytes_max
                ):
                    wait_list_take(&self.producers, &taken)
            elif self.n_producers == 0:
                answer = QUEUE_CLOSED
            else:
                wait_list_add(&self.consumers, token)
                answer = QUEUE_WAIT
        finally:
            mutex_unlock(&self.mutex)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)
        return answer

    cdef void producer_done(self) noexcept nogil:
        cdef WaitList taken
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        self.n_producers -= 1
        if self.n_producers == 0:
            wait_list_take(&self.consumers, &taken)
        mutex_unlock(&self.mutex)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)

    cdef void consumer_gone(self) noexcept nogil:
        cdef WaitList taken
        cdef Batch* batch
        taken.n_tokens = 0
        mutex_lock(&self.mutex)
        self.n_consumers -= 1
        if self.n_consumers == 0:
            wait_list_take(&self.producers, &taken)
        mutex_unlock(&self.mutex)
        # Nobody pushes or pops any more: what is left can be dropped a batch at a time, never under the lock.
        while qc_load(&self.n_consumers) == 0:
            batch = NULL
            mutex_lock(&self.mutex)
            if self.n_queued > 0:
                batch = self.take_head()
            mutex_unlock(&self.mutex)
            if batch == NULL:
                break
            batch_unref(batch)
        if taken.n_tokens > 0:
            wait_list_fire(&taken)

    cdef bint has_consumers(self) noexcept nogil:
        return qc_load(&self.n_consumers) > 0


@cython.no_gc_clear
cdef class QueueReader:
    """Takes batches out of a queue from Python.

    Parameters
    ----------
    queue : BatchQueue
        The reader is one of its consumers.
    """

    def __cinit__(self, BatchQueue queue):
        self.queue = queue
        self.token = thread_token_new()

    def __dealloc__(self):
        if self.token != NULL:
            self.close()
            owner_unref(<Owner*> self.token)

    def next_batch(self, timeout=None):
        """The next batch, an object with __arrow_c_array__, or None at the end.

        Waits without the GIL; Ctrl-C is heard. Timeout after `timeout` seconds (None: never).
        """
        cdef Batch* batch = NULL
        cdef QueueAnswer answer
        cdef int64_t until = -1
        cdef int64_t nanos = -1
        if timeout is not None:
            nanos = max(<int64_t> 0, <int64_t> (timeout * 1e9))
            until = wall_nanos() + nanos
        if self.left:
            return None
        while True:
            with nogil:
                answer = self.queue.pop(&batch, &self.token.token)
            if answer == QUEUE_DONE:
                result = PyBatch.wrap(batch)
                batch_unref(batch)
                return result
            if answer == QUEUE_CLOSED:
                return None
            if until >= 0:
                nanos = max(<int64_t> 0, until - wall_nanos())
            if not thread_token_wait(self.token, nanos):
                raise Timeout(f"no batch came within {timeout} s")

    @property
    def ready(self):
        """Whether next_batch would return at once."""
        return qc_load(&self.queue.n_queued) > 0 or qc_load(&self.queue.n_producers) == 0

    def close(self):
        """Take no more: producers stop."""
        if not self.left:
            self.left = True
            with nogil:
                self.queue.consumer_gone()
