"""Sink that partitions rows by the hash of keys into pages, for output buffers or files."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport VECTOR_ROWS, column_ref
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.memory cimport Account, Buffer, Owner, buffer_new, buffer_unref
from qcore_ext.ground.stats cimport WAIT_FOR_CONSUMER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, Operator
from qcore_ext.exchange.hash_partitioner cimport HashPartitioner
from qcore_ext.exchange.key_filter cimport KeyFilter, KeyHashes
from qcore_ext.exchange.output_buffer cimport OutputBuffer
from qcore_ext.exchange.page_builder cimport FullPage, PageBuilder

from qcore_ext.ground.status import PlanError

cdef enum:
    # A filter that kept more than three quarters of as many rows is not asked for the rows of the next batches, until
    # there were so many more: rows may be in the order of their keys.
    TRIAL_ROWS = 65536
    UNTESTED_ROWS = 524288


cdef class PartitionedOutput(Operator):
    """Collects rows into pages, and hands the pages on.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    target : OutputBuffer or object
        The receiver of the pages: an OutputBuffer, or an object with `bind(schema)`, called before pages of a new
        schema, `write(partition, batch)`, which gets objects with __arrow_c_array__ and never blocks, and
        `producer_done(finished)`, which each operator calls once.
    n_partitions : int
        Number of partitions of the target.
    key_names : list of str
        Columns to hash. Without keys all rows go to partition 0.
    page_bytes : int
        Desired size of a page.
    schema : Schema, optional
        Schema of the rows on which all operators of this step agree; see HashPartitioner.
    hashes : KeyHashes, optional
        Gets the hashes of the keys of all rows.
    filter : KeyFilter, optional
        Rows whose keys are not in it are dropped, while it drops at least a quarter of them.
    """
    cdef OutputBuffer buffer            # None when there is a writer
    cdef object writer
    cdef PageBuilder builder
    cdef HashPartitioner partitioner    # None: one partition
    cdef Batch* batch                   # owned; the batch being taken in
    cdef int64_t position               # rows of it taken in so far
    cdef uint16_t* partitions           # owned by the struct below
    cdef uint16_t[VECTOR_ROWS] partitions_scratch
    cdef bint finish_called
    cdef bint left
    cdef KeyHashes hashes               # None: hashes are not collected
    cdef KeyFilter filter               # None: all rows are taken in
    cdef int64_t n_tested               # rows looked up in it, since it was asked again
    cdef int64_t n_kept
    cdef int64_t n_untested             # rows since it is no longer asked

    def __init__(
        self, str node_id, Account query_memory, target, int64_t n_partitions, list key_names,
        int64_t page_bytes=1 << 20, Schema schema=None, KeyHashes hashes=None, KeyFilter filter=None,
    ):
        Operator.__init__(self, "PartitionedOutput", node_id, query_memory)
        if n_partitions > 1 and not key_names:
            n_partitions = 1
        if isinstance(target, OutputBuffer):
            self.buffer = target
            self.buffer.join(&self.membership)
            if n_partitions > self.buffer.n_partitions:
                raise PlanError(f"{n_partitions} partitions do not fit {self.buffer.n_partitions} buffers")
        else:
            self.writer = target
        if (hashes is not None or filter is not None) and not key_names:
            raise PlanError("a filter of keys needs key columns")
        self.hashes = hashes
        self.filter = filter
        if n_partitions > 1 or hashes is not None or filter is not None:
            self.partitioner = HashPartitioner(key_names, n_partitions, between_tasks=True, schema=schema)
        self.builder = PageBuilder(self.memory, n_partitions, page_bytes)
        self.partitions = &self.partitions_scratch[0]
        memset(self.partitions, 0, VECTOR_ROWS * sizeof(uint16_t))

    def __dealloc__(self):
        batch_unref(self.batch)

    cdef int open(self) except -1 nogil:
        if self.partitioner is not None:
            self.partitioner.open()
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        if self.partitioner is not None:
            self.partitioner.bind(schema)
        self.builder.bind(schema)
        if self.writer is not None:
            with gil:
                self.writer.bind(Schema.wrap(schema))
        return Operator.bind(self, schema)

    cdef bint needs_input(self) noexcept nogil:
        return self.batch == NULL and not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if self.filter is not None:
            if self.n_tested < TRIAL_ROWS or 4 * self.n_kept <= 3 * self.n_tested:
                batch = self.filter_rows(batch)
            else:
                self.n_untested += batch.n_selected
                if self.n_untested >= UNTESTED_ROWS:
                    self.n_tested = self.n_kept = self.n_untested = 0
        self.batch = batch
        self.position = 0
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef bint closed = False
        while True:
            if self.builder.n_full > 0 and self.buffer is not None and self.buffer.is_full(token):
                self.blocked_reason = WAIT_FOR_CONSUMER
                return BLOCKED
            self.give_page()
            if self.builder.n_full > 0:
                continue
            if self.left or (self.buffer is not None and not self.buffer.has_consumers()):
                return FINISHED
            if self.batch != NULL:
                self.take_rows()
            elif not self.finish_called:
                return NEEDS_INPUT
            elif not closed:
                closed = True
                self.builder.close_pages()
            else:
                self.leave(True)
                return FINISHED

    cdef Batch* filter_rows(self, Batch* batch) except NULL nogil:
        """The rows whose keys may be in the filter. The caller's reference is taken over, unless this raises."""
        cdef uint64_t hashes[VECTOR_ROWS]
        cdef bint may_have[VECTOR_ROWS]
        cdef int64_t n, i
        cdef int64_t start = 0
        cdef int64_t n_kept = 0
        cdef int32_t column
        cdef Batch* out = NULL
        cdef uint32_t* rows
        cdef Buffer* selection = buffer_new(self.account, batch.n_selected * <int64_t> sizeof(uint32_t))
        try:
            rows = <uint32_t*> selection.data
            while start < batch.n_selected:
                n = min(batch.n_selected - start, <int64_t> VECTOR_ROWS)
                self.partitioner.hash(batch, start, n, hashes, self.account)
                self.filter.look_up(hashes, n, may_have)
                for i in range(n):
                    rows[n_kept] = batch.selection[start + i] if batch.selection != NULL else <uint32_t> (start + i)
                    n_kept += may_have[i]
                start += n
            self.n_tested += batch.n_selected
            self.n_kept += n_kept
            if n_kept == batch.n_selected:
                return batch
            out = batch_new(batch.schema, batch.n_rows)
            for column in range(batch.n_columns):
                out.columns[column] = column_ref(batch.columns[column])
            batch_select(out, rows, n_kept, <Owner*> selection)
        finally:
            buffer_unref(selection)
        batch_unref(batch)
        return out

    cdef int take_rows(self) except -1 nogil:
        """Take in one vector of the batch."""
        cdef uint64_t hashes[VECTOR_ROWS]
        cdef int64_t n = min(self.batch.n_selected - self.position, <int64_t> VECTOR_ROWS)
        if n > 0:
            if self.partitioner is not None:
                self.partitioner.hash(self.batch, self.position, n, hashes, self.account)
                self.partitioner.assign_hashed(hashes, n, self.partitions)
                if self.hashes is not None:
                    self.hashes.add(hashes, n)
            self.builder.append(self.batch, self.position, n, self.partitions)
            self.position += n
        if self.position == self.batch.n_selected:
            batch_unref(self.batch)
            self.batch = NULL
        return 0

    cdef int give_page(self) except -1 nogil:
        """Hand one full page on, if there is one."""
        cdef FullPage page
        if not self.builder.take_full(&page):
            return 0
        if self.buffer is not None:
            self.buffer.put(page.partition, page.batch, page.n_bytes)
            return 0
        with gil:
            try:
                self.writer.write(page.partition, PyBatch.wrap_for(page.batch, self.account))
            finally:
                batch_unref(page.batch)
        return 0

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0

    cdef int leave(self, bint finished) except -1 nogil:
        if self.left:
            return 0
        self.left = True
        if self.buffer is not None:
            self.buffer.producer_done(finished, &self.membership)
        else:
            with gil:
                self.writer.producer_done(finished)
        return 0

    cdef void leave_early(self) noexcept nogil:
        if self.left:
            return
        self.left = True
        if self.buffer is not None:
            self.buffer.producer_done(False, &self.membership)
        else:
            with gil:
                try:
                    self.writer.producer_done(False)
                except BaseException as error:
                    self.note_end(error, "close")       # it could not remove its files

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        batch_unref(self.batch)
        self.batch = NULL
        self.leave_early()
        self.builder.release()
        if self.partitioner is not None:
            self.partitioner.close()
