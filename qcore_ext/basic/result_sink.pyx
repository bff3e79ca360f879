"""Sink that passes the result to its reader. It blocks while the reader's queue is full."""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_ref, batch_unref
from qcore_ext.data.column cimport VectorScratch
from qcore_ext.data.layout cimport batch_laid_out
from qcore_ext.data.row_bytes cimport laid_out_bytes, rows_part, rows_that_fit
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account, Buffer, Owner, buffer_new, buffer_unref, owner_ref, owner_unref
from qcore_ext.ground.stats cimport WAIT_FOR_CONSUMER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, REFUSED, Operator
from qcore_ext.flow.batch_queue cimport QUEUE_CLOSED, QUEUE_WAIT, BatchQueue, QueueAnswer
from qcore_ext.rows.column_store cimport ColumnStore, column_store_append_batch, column_store_batch, column_store_of
from qcore_ext.rows.nested_rows cimport schema_has_nested

cdef enum:
    # Small batches are gathered until they have this many rows, or an eighth of the queue's bytes. The reader takes
    # 8 µs for each batch: a filter of 20 million rows, of which one of 100 passes, took 7.4 ms with 306 batches, and
    # takes 5.4 with 17.
    GATHERED_ROWS = 16384
    SMALL_SHARE = 4             # a batch is small if it has at most this share of the rows
    BYTES_SHARE = 8


cdef class ResultSink(Operator):
    """Puts batches into a queue that a QueueReader reads.

    A batch is cut into parts of at most half of the queue's bound. Parts are laid out as Arrow here, by all drivers at
    the same time, so that the reader only passes buffers on. Rows of small batches are gathered, and passed on together
    when they are enough, when the driver leaves the thread, and at the end.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    queue : BatchQueue
        This operator is one of its producers.
    batch_rows : int
        Rows of several batches that are passed on together, at most.
    """
    cdef BatchQueue queue
    cdef ColumnStore* gathered  # owned; rows of small batches; NULL: none. Then `held` and `part` are NULL.
    cdef CSchema* gathered_schema   # owned; their schema
    cdef int64_t gathered_bytes
    cdef int64_t gathered_max   # rows
    cdef Buffer* scratch        # owned; a VectorScratch
    cdef Batch* held            # owned; rows from n_pushed on are neither in the queue nor in `part`; NULL: none left
    cdef Batch* part            # owned; the rows that are put into the queue next, laid out
    cdef int64_t n_pushed
    cdef bint finish_called
    cdef bint unwanted          # the reader is gone
    cdef bint left

    def __init__(self, str node_id, Account query_memory, BatchQueue queue, int64_t batch_rows=65536):
        Operator.__init__(self, "ResultSink", node_id, query_memory)
        self.gathered_max = min(batch_rows, <int64_t> GATHERED_ROWS)
        self.queue = queue
        queue.set_payer(self.memory.account)
        queue.join(&self.membership)

    def __dealloc__(self):
        self.drop_rows()

    cdef bint needs_input(self) noexcept nogil:
        return self.held == NULL and self.part == NULL and not self.finish_called and not self.unwanted

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if self.gather(batch):
            batch_unref(batch)
            return ACCEPTED
        if self.gathered != NULL:
            self.take_gathered()
            return REFUSED              # it is offered again behind them
        self.hold(batch)
        return ACCEPTED

    cdef void hold(self, Batch* batch) noexcept nogil:
        self.held = batch
        self.n_pushed = 0

    cdef bint gather(self, Batch* batch) except -1 nogil:
        """Copy the rows of a small batch to those gathered. Returns False if it does not belong to them."""
        cdef int64_t bytes_max = self.queue.bytes_max // BYTES_SHARE
        cdef int64_t n_bytes
        if not self.may_hold_back or batch.n_selected * SMALL_SHARE > self.gathered_max:
            return False
        if schema_has_nested(batch.schema):
            return False
        n_bytes = laid_out_bytes(batch, 0, batch.n_selected)
        if n_bytes > bytes_max or self.gathered != NULL and self.gathered_schema != batch.schema:
            return False
        if self.gathered != NULL and self.gathered.n_rows + batch.n_selected > self.gathered_max:
            return False
        if self.gathered == NULL:
            self.gathered = column_store_of(self.account, batch.schema)
            self.gathered_schema = <CSchema*> owner_ref(<Owner*> batch.schema)
            self.gathered_bytes = 0
        if self.scratch == NULL:
            self.scratch = buffer_new(self.account, sizeof(VectorScratch))
        column_store_append_batch(self.gathered, batch, <VectorScratch*> self.scratch.data)
        self.gathered_bytes += n_bytes
        if (
            self.gathered.n_rows * SMALL_SHARE > (SMALL_SHARE - 1) * self.gathered_max
            or self.gathered_bytes > bytes_max
        ):
            self.take_gathered()
        return True

    cdef int take_gathered(self) except -1 nogil:
        """Hold the gathered rows as a batch."""
        cdef Batch* batch = column_store_batch(self.gathered, self.gathered_schema)
        self.drop_gathered()
        self.hold(batch)
        return 0

    cdef void drop_gathered(self) noexcept nogil:
        owner_unref(<Owner*> self.gathered)
        owner_unref(<Owner*> self.gathered_schema)
        self.gathered = NULL
        self.gathered_schema = NULL

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

    cdef bint push_rows(self, WaitToken* token) except -1 nogil:
        """Put the rows that are not gathered any more into the queue. Returns False if it is full."""
        cdef QueueAnswer answer
        while self.held != NULL or self.part != NULL:
            if self.part == NULL:
                self.make_part()
            answer = self.queue.push(self.part, token)
            if answer == QUEUE_WAIT:
                return False
            if answer == QUEUE_CLOSED:
                self.drop_rows()
                break
            self.part = NULL
        return True

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.finish_called and self.gathered != NULL:
            self.take_gathered()
        if not self.push_rows(token):
            self.blocked_reason = WAIT_FOR_CONSUMER
            return BLOCKED
        self.unwanted = not self.queue.has_consumers()
        if self.finish_called or self.unwanted:
            self.leave()
            return FINISHED
        return NEEDS_INPUT

    cdef int pause(self, WaitToken* token) except -1 nogil:
        if self.gathered != NULL:
            self.take_gathered()
            self.push_rows(token)
        return 0

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0

    cdef void leave(self) noexcept nogil:
        if not self.left:
            self.left = True
            self.queue.producer_done(&self.membership)

    cdef void drop_rows(self) noexcept nogil:
        self.drop_gathered()
        batch_unref(self.part)
        self.part = NULL
        batch_unref(self.held)
        self.held = NULL
        buffer_unref(self.scratch)
        self.scratch = NULL

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        self.drop_rows()
        self.leave()
