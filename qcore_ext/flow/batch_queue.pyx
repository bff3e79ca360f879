"""A bounded queue of batches between pipelines, or between the engine and its reader."""

cimport cython
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_bytes, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.row_bytes cimport laid_out_bytes
from qcore_ext.ground.atomic cimport qc_cas, qc_fetch_add, qc_load, qc_swap
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport MemoryAccount, Owner, owner_ref, owner_unref, struct_free, struct_new
from qcore_ext.ground.process cimport check_process, fork_number
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.thread_token cimport thread_token_new, thread_token_wait
from qcore_ext.ground.wait_token cimport (
    WaitToken, wait_set_add, wait_set_clear, wait_set_fire, wait_set_fire_all, wait_set_remove,
)
from qcore_ext.flow.barrier cimport Membership, barrier_is_empty, barrier_join, barrier_leave

from qcore_ext.ground.status import Timeout

cdef enum:
    # The reader of a long result sleeps this long before it registers its token. It then finds several batches. Waking
    # it for each batch would take a driver's processor away for longer than the reader needs for a batch.
    NAP_NANOS = 1000000
    NAP_BATCHES = 8             # read before the first nap: a short result comes without a delay


cdef class BatchQueue:
    """A bounded queue of batches.

    Parameters
    ----------
    n_producers : int
        Operators that push. Each calls producer_done once.
    n_consumers : int
        Operators or readers that pop. Each calls consumer_gone once.
    batches_max, bytes_max : int
        The most that may wait in the queue.
    """

    def __init__(
        self, int64_t n_producers, int64_t n_consumers=1, int64_t batches_max=64, int64_t bytes_max=1 << 25,
    ):
        if n_producers < 1 or n_consumers < 1 or batches_max < 1 or bytes_max < 1:
            raise ValueError("a batch queue needs at least one producer, one consumer and one batch of capacity")
        cdef int64_t i
        self.producers.n_members = n_producers
        self.consumers.n_members = n_consumers
        self.capacity = batches_max
        self.bytes_max = bytes_max
        self.cells = <QueueCell*> struct_new(batches_max * sizeof(QueueCell))
        for i in range(batches_max):
            self.cells[i].turn = 2 * i

    def __dealloc__(self):
        if self.cells != NULL:
            self.drop_all()
        struct_free(self.cells)
        wait_set_clear(&self.waiting_producers)
        wait_set_clear(&self.waiting_consumers)
        owner_unref(<Owner*> self.payer)

    @property
    def n_batches(self):
        """Batches waiting now."""
        return max(0, qc_load(&self.n_queued))

    @property
    def n_bytes(self):
        """Bytes waiting now."""
        return qc_load(&self.bytes_queued)

    cdef void set_payer(self, MemoryAccount* payer) noexcept nogil:
        if self.payer == NULL:
            self.payer = <MemoryAccount*> owner_ref(<Owner*> payer)

    cdef void join(self, Membership* member) noexcept nogil:
        barrier_join(member)

    # --- the ring ---

    cdef bint reserve(self, int64_t n_bytes) noexcept nogil:
        """Count the bytes if they fit both bounds. A batch larger than the bound fits an empty queue."""
        cdef int64_t bytes_now
        while True:
            bytes_now = qc_load(&self.bytes_queued)
            if bytes_now > 0 and bytes_now + n_bytes > self.bytes_max:
                return False
            if qc_cas(&self.bytes_queued, bytes_now, bytes_now + n_bytes):
                return True

    cdef void unreserve(self, int64_t n_bytes) noexcept nogil:
        qc_fetch_add(&self.bytes_queued, -n_bytes)

    cdef bint is_full(self) noexcept nogil:
        """Whether the cell of the next batch still has an earlier one, or one that is just being taken."""
        cdef int64_t number = qc_load(&self.tail)
        return qc_load(&self.cells[number % self.capacity].turn) < 2 * number

    cdef bint enter(self, Batch* batch, int64_t n_bytes) noexcept nogil:
        """Append the batch. False: the ring is full."""
        cdef int64_t number, turn
        cdef QueueCell* cell
        while True:
            number = qc_load(&self.tail)
            cell = &self.cells[number % self.capacity]
            turn = qc_load(&cell.turn)
            if turn < 2 * number:
                return False            # the previous batch of this cell is still there, or is just being taken
            if turn == 2 * number and qc_cas(&self.tail, number, number + 1):
                break
        cell.batch = batch
        cell.n_bytes = n_bytes
        qc_fetch_add(&self.n_queued, 1)
        # A swap, not a store: the look for waiting consumers that follows is ordered after it for all threads.
        qc_swap(&cell.turn, 2 * number + 1)
        return True

    cdef Batch* leave(self) noexcept nogil:
        """Take the first batch, or NULL if there is none."""
        cdef int64_t number, turn, n_bytes
        cdef QueueCell* cell
        cdef Batch* batch
        while True:
            number = qc_load(&self.head)
            cell = &self.cells[number % self.capacity]
            turn = qc_load(&cell.turn)
            if turn <= 2 * number:
                return NULL
            if turn == 2 * number + 1 and qc_cas(&self.head, number, number + 1):
                break
        batch = cell.batch
        n_bytes = cell.n_bytes
        qc_check(batch != NULL and n_bytes > 0, b"a cell whose batch was pushed holds one")
        qc_fetch_add(&self.bytes_queued, -n_bytes)
        qc_fetch_add(&self.n_queued, -1)
        # Last, so that the counters never show more than the bounds allow.
        qc_swap(&cell.turn, 2 * (number + self.capacity))
        return batch

    # --- producers ---

    cdef QueueAnswer try_push(self, Batch* batch, int64_t n_bytes) noexcept nogil:
        if barrier_is_empty(&self.consumers):
            return QUEUE_CLOSED
        # Before bytes are reserved: a producer that waits for a cell must not fire its own token below.
        if self.is_full() or not self.reserve(n_bytes):
            return QUEUE_WAIT
        if not self.enter(batch, n_bytes):
            self.unreserve(n_bytes)
            # Others have filled the ring meanwhile. A producer may have found too few bytes because of those reserved.
            wait_set_fire(&self.waiting_producers)
            return QUEUE_WAIT
        if barrier_is_empty(&self.consumers):
            self.drop_all()             # the last consumer left meanwhile, perhaps before this batch was in the queue
        wait_set_fire(&self.waiting_consumers)
        return QUEUE_DONE

    cdef QueueAnswer push(self, Batch* batch, WaitToken* token) except <QueueAnswer> -1 nogil:
        # At least one byte a batch, so that a queue with a batch always has bytes.
        cdef int64_t n_bytes = max(<int64_t> 1, batch_bytes(batch))
        cdef QueueAnswer answer = self.try_push(batch, n_bytes)
        if answer != QUEUE_WAIT:
            return answer
        wait_set_add(&self.waiting_producers, token)
        answer = self.try_push(batch, n_bytes)
        if answer != QUEUE_WAIT:
            wait_set_remove(&self.waiting_producers, token)
        return answer

    cdef void producer_done(self, Membership* member) noexcept nogil:
        if barrier_leave(&self.producers, member) == 0:
            wait_set_fire_all(&self.waiting_consumers)

    # --- consumers ---

    cdef QueueAnswer try_pop(self, Batch** out) noexcept nogil:
        # Read first: a thread that sees no producers left also sees every batch that they pushed.
        cdef bint none_to_come = barrier_is_empty(&self.producers)
        cdef Batch* batch = self.leave()
        if batch == NULL:
            return QUEUE_CLOSED if none_to_come else QUEUE_WAIT
        out[0] = batch
        # Wake producers only when the queue is half empty. A producer woken for one free cell would block again.
        if qc_load(&self.n_queued) * 2 <= self.capacity and qc_load(&self.bytes_queued) * 2 <= self.bytes_max:
            wait_set_fire(&self.waiting_producers)
        return QUEUE_DONE

    cdef QueueAnswer pop(self, Batch** out, WaitToken* token) except <QueueAnswer> -1 nogil:
        cdef QueueAnswer answer = self.try_pop(out)
        if answer != QUEUE_WAIT:
            return answer
        wait_set_add(&self.waiting_consumers, token)
        answer = self.try_pop(out)
        if answer != QUEUE_WAIT:
            wait_set_remove(&self.waiting_consumers, token)
        return answer

    cdef void consumer_gone(self, Membership* member) noexcept nogil:
        if barrier_leave(&self.consumers, member) == 0:
            self.drop_all()
            wait_set_fire_all(&self.waiting_producers)

    cdef void drop_all(self) noexcept nogil:
        cdef Batch* batch = self.leave()
        while batch != NULL:
            batch_unref(batch)
            batch = self.leave()

    cdef bint has_consumers(self) noexcept nogil:
        return not barrier_is_empty(&self.consumers)


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
        self.process = fork_number()
        self.token = thread_token_new()

    def __dealloc__(self):
        if self.token != NULL:
            self.close()
            if self.process == fork_number():
                owner_unref(<Owner*> self.token)

    cdef PyBatch wrap_batch(self, Batch* batch):
        """Wrap the batch for Python. Its rows as Arrow take part of the queue's bound; a longer row is charged."""
        cdef PyBatch wrapped
        if laid_out_bytes(batch, 0, batch.n_selected) <= self.queue.bytes_max:
            return PyBatch.wrap(batch)
        wrapped = PyBatch.wrap_for(batch, self.queue.payer)
        wrapped.looks = False       # a query is stopped once it is answered, and its rows are read after that
        return wrapped

    def next_batch(self, timeout=None):
        """The next batch, an object with __arrow_c_array__, or None at the end.

        Waits without the GIL. Ctrl-C ends the wait.

        Raises
        ------
        Timeout
            After `timeout` seconds (None: never).
        Cancelled
            A driver waits here, and its task is stopped.
        QcoreError
            In a child of the process that made the reader.
        """
        check_process(self.process)
        cdef Batch* batch = NULL
        cdef QueueAnswer answer
        cdef int64_t until = -1
        cdef int64_t nanos = -1
        cdef PyBatch result
        cdef bint may_nap = self.n_popped >= NAP_BATCHES and (timeout is None or timeout * 1e9 > NAP_NANOS)
        if timeout is not None:
            nanos = max(<int64_t> 0, <int64_t> (timeout * 1e9))
            until = wall_nanos() + nanos
        if self.left:
            return None
        while True:
            with nogil:
                answer = self.queue.try_pop(&batch)
                if answer == QUEUE_WAIT and not may_nap:
                    answer = self.queue.pop(&batch, &self.token.token)
            if answer == QUEUE_WAIT and may_nap:
                may_nap = False
                thread_token_wait(self.token, NAP_NANOS, False)
                continue
            if answer == QUEUE_DONE:
                self.n_popped += 1
                result = self.wrap_batch(batch)
                batch_unref(batch)
                return result
            if answer == QUEUE_CLOSED:
                return None
            if until >= 0:
                nanos = max(<int64_t> 0, until - wall_nanos())
            if not thread_token_wait(self.token, nanos, False):
                raise Timeout(f"no batch came within {timeout} s")

    @property
    def ready(self):
        """Whether next_batch would return at once."""
        return qc_load(&self.queue.n_queued) > 0 or barrier_is_empty(&self.queue.producers)

    def close(self):
        """Take no more batches: the producers stop. Does nothing in a forked child."""
        if not self.left:
            self.left = True
            if self.process == fork_number():
                with nogil:
                    self.queue.consumer_gone(NULL)
