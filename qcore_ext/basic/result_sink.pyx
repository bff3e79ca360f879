"""Sink that passes the result to its reader. It blocks while the reader's queue is full."""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_ref, batch_unref
from qcore_ext.data.layout cimport batch_laid_out
from qcore_ext.data.row_bytes cimport rows_part, rows_that_fit
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.stats cimport WAIT_FOR_CONSUMER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.flow.batch_queue cimport QUEUE_CLOSED, QUEUE_WAIT, BatchQueue, QueueAnswer


cdef class ResultSink(Operator):
    """Puts batches into a queue that a QueueReader reads.

    A batch is cut into parts of at most half of the queue's bound. Parts are laid out as Arrow here, by all drivers at
    the same time, so that the reader only passes buffers on.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    queue : BatchQueue
        This operator is one of its producers.
    """
    cdef BatchQueue queue
    cdef Batch* held            # owned; rows from n_pushed on are neither in the queue nor in `part`; NULL: none left
    cdef Batch* part            # owned; the rows that are put into the queue next, laid out
    cdef int64_t n_pushed
    cdef bint finish_called
    cdef bint unwanted          # the reader is gone
    cdef bint left

    def __init__(self, str node_id, Account query_memory, BatchQueue queue):
        Operator.__init__(self, "ResultSink", node_id, query_memory)
        self.queue = queue
        queue.set_payer(self.memory.account)
        queue.join(&self.membership)

    def __dealloc__(self):
        batch_unref(self.held)
        batch_unref(self.part)

    cdef bint needs_input(self) noexcept nogil:
        return self.held == NULL and self.part == NULL and not self.finish_called and not self.unwanted

    cdef int add_input(self, Batch* batch) except -1 nogil:
        self.held = batch
        self.n_pushed = 0
        return ACCEPTED

    cdef int make_part(self) except -1 nogil:
        """Lay the next rows of `held` out as `part`. `held` is dropped with its last row."""
        cdef int64_t n = rows_that_fit(self.held, self.n_pushed, max(self.queue.bytes_max // 2, <int64_t> 1))
        cdef Batch* rows
        if n == self.held.n_selected:
            rows = batch_ref(self.held)
        else:
            rows = rows_part(self.held, self.n_pushed, n, self.account)
        try:
            self.part = batch_laid_out(rows, self.account)
        finally:
            batch_unref(rows)
        self.n_pushed += n
        if self.n_pushed >= self.held.n_selected:
            # Dropped before the reader gets the part, so that columns which only the part references need no copy.
            batch_unref(self.held)
            self.held = NULL
        return 0

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef QueueAnswer answer
        while self.held != NULL or self.part != NULL:
            if self.part == NULL:
                self.make_part()
            answer = self.queue.push(self.part, token)
            if answer == QUEUE_WAIT:
                self.blocked_reason = WAIT_FOR_CONSUMER
                return BLOCKED
            if answer == QUEUE_CLOSED:
                self.drop_held()
                break
            self.part = NULL
        self.unwanted = not self.queue.has_consumers()
        if self.finish_called or self.unwanted:
            return FINISHED
        return NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        self.leave()
        return 0

    cdef void leave(self) noexcept nogil:
        if not self.left:
            self.left = True
            self.queue.producer_done(&self.membership)

    cdef void drop_held(self) noexcept nogil:
        batch_unref(self.part)
        self.part = NULL
        batch_unref(self.held)
        self.held = NULL

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        self.drop_held()
        self.leave()
