"""Source that reads splits through a connector."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_bytes, batch_slice, batch_unref
from qcore_ext.data.batch_reader cimport BatchReader
from qcore_ext.data.capsule cimport Stream
from qcore_ext.data.row_filter cimport RowFilter
from qcore_ext.data.schema cimport CSchema, Schema, schema_equal
from qcore_ext.data.stored_rows cimport StoredRows
from qcore_ext.ground.arrow_memory cimport release_arrow_memory
from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.fault cimport FAULT_SPLIT_OPEN, FAULT_SPLIT_READ, fault_here, raise_injected
from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.memory cimport Account, MemoryAccount, Owner, owner_ref, owner_unref
from qcore_ext.ground.stats cimport WAIT_FOR_SPLIT
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.drift cimport DRIFT_NONE, DRIFT_WIDENS, drift_to
from qcore_ext.flow.operator cimport BLOCKED, FINISHED, OUTPUT, YIELDED, Operator
from qcore_ext.flow.split_queue cimport SPLIT_NONE, SPLIT_WAIT, RowRange, SplitAnswer, SplitQueue

from qcore_ext.flow.drift import explain_difference
from qcore_ext.ground.error_text import show_value
from qcore_ext.ground.status import SchemaChangeError


cdef class TableScan(Operator):
    """Reads splits. The scans of all drivers take them from one queue.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    split_queue : SplitQueue
    schema : Schema
        Schema of every split.
    open_split : callable
        Takes a split and returns an object with __arrow_c_stream__, and with `close` if it has something to close. If
        its attribute `batch_reader` is a data.batch_reader.BatchReader, that is read instead of the stream.
        Called with the GIL. Its batches are charged to the query unless it has a true `is_held_outside`: then the
        application keeps their memory. Its attribute `extent`, if it has one, is a dict of figures for the statistics.
    batch_rows : int
        Larger batches are passed on in pieces of this size.
    drift : Drift
        DRIFT_NONE: a split of another schema raises SchemaChangeError. DRIFT_WITHIN: splits may have columns in another
        order, with narrower types, or fewer columns; missing columns are null. Columns that are not declared are left
        out. DRIFT_WIDENS: splits may also have wider types. If the stream's source has a true `goes_on` at its end,
        another stream follows, possibly with a wider schema. The scan's schema widens to theirs.
    row_filters : sequence of RowFilter
        Which rows may be needed, by columns of `schema`. A batch reader that can skip values asks them before it reads
        the other columns. The scan closes them.
    stored : StoredRows, optional
        The rows of a table in memory, of the scan's columns. Splits that the queue takes as row ranges are read from it
        without the GIL. It must have the scan's schema.
    """
    cdef SplitQueue splits
    cdef object open_split
    cdef int64_t batch_rows
    cdef Stream stream              # the stream being read, or None
    cdef BatchReader reader         # or this
    cdef object source              # the object that open_split returned, or None
    cdef object split               # the split being read, or None
    cdef bint reading
    cdef Batch* current             # owned; the batch that is being cut into pieces, or NULL
    cdef int64_t offset             # rows of `current` passed on so far
    cdef Schema declared            # the schema of the constructor
    cdef list row_filters
    cdef bint has_filters           # row_filters is not empty
    cdef StoredRows stored          # or None
    cdef RowRange* range_           # borrowed; the range being read, or NULL
    cdef int64_t range_at           # the number of its next row
    cdef dict extent                # what the sources of splits say that they read, added up
    cdef int64_t read_bytes         # bytes read since release_unused released memory
    cdef bint is_closed

    def __init__(
        self, str node_id, Account query_memory, SplitQueue split_queue, Schema schema, open_split,
        int64_t batch_rows=65536, int drift=DRIFT_NONE, row_filters=(), StoredRows stored=None,
    ):
        self.drift = drift
        Operator.__init__(self, "TableScan", node_id, query_memory)
        self.splits = split_queue
        self.open_split = open_split
        self.batch_rows = max(<int64_t> 8, batch_rows) & ~(<int64_t> 7)       # slices begin at multiples of 8
        self.extent = {}
        self.declared = schema
        self.row_filters = list(row_filters)
        self.has_filters = len(self.row_filters) > 0
        self.set_output_schema(schema.schema)
        self.waits_inside = True
        if stored is not None and stored.has_schema(schema.schema):
            self.waits_inside = False
            self.stored = stored
            split_queue.take_row_ranges(stored.n_rows)

    def __dealloc__(self):
        batch_unref(self.current)

    def stats_snapshot(self):
        """Figures of any operator. If sources of splits have them, 'extent' has the sums of their figures: row groups
        of Parquet files that are read and left out.
        """
        counters = Operator.stats_snapshot(self)
        if self.extent:
            counters["extent"] = dict(self.extent)
        return counters

    @property
    def doing(self):
        """Text for error messages: the split being read, or None."""
        if self.range_ != NULL:
            return f"reading split {show_value(<object> self.range_.split)}"
        return f"reading split {show_value(self.split)}" if self.split is not None else None

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.current != NULL:
            return self.next_piece(out)
        if self.range_ != NULL:
            return self.next_stored(out)
        if not self.reading:
            return self.next_split(token)
        if fault_here(FAULT_SPLIT_READ):
            raise_injected(FAULT_SPLIT_READ)
        if self.read():
            if self.current.n_rows > self.batch_rows:
                return self.next_piece(out)
            out[0] = self.current
            self.current = NULL
            return OUTPUT
        with gil:
            if self.drift == DRIFT_WIDENS and getattr(self.source, "goes_on", False):
                self.next_stream()
                return YIELDED
            self.end_split()
        self.splits.done()
        return YIELDED

    cdef int read(self) except -1 nogil:
        """Read the stream's next batch into `current`. Returns 0 at the end of the stream."""
        cdef int found = -1
        try:
            if self.reader is not None:
                found = self.reader.next_batch(self.account, &self.current)
            else:
                found = self.stream.next_batch(self.account, &self.current)
        finally:
            if found < 0:
                self.raise_error_of_source()
        if found and self.reader is None and self.stream.is_charged:
            self.release_unused()
        return found

    cdef void release_unused(self) noexcept nogil:
        """Release memory that pyarrow's allocator keeps unused after decoding: 60 MB beside 30 MB in use were measured.

        Only above half of the query's limit. Below it, reusing warm memory is faster.
        """
        cdef MemoryAccount* query = self.account.query
        self.read_bytes += batch_bytes(self.current)
        if query.limit > 0 and self.read_bytes * 8 > query.limit and qc_load(&query.reserved) * 2 > query.limit:
            self.read_bytes = 0
            release_arrow_memory()

    cdef int raise_error_of_source(self) except -1 nogil:
        """Raise the `error` of the source, if it has one: the stream itself has only the text of the error."""
        with gil:
            error = getattr(self.source, "error", None)
            if isinstance(error, Exception):
                raise error
        return 0

    cdef int next_piece(self, Batch** out) except -1 nogil:
        cdef int64_t n = min(self.batch_rows, self.current.n_rows - self.offset)
        out[0] = batch_slice(self.current, self.offset, n)
        self.offset += n
        if self.offset == self.current.n_rows:
            batch_unref(self.current)
            self.current = NULL
            self.offset = 0
        return OUTPUT

    cdef int next_split(self, WaitToken* token) except -1 nogil:
        cdef PyObject* split = NULL
        cdef RowRange* range_ = NULL
        cdef SplitAnswer answer = self.splits.take(&split, &range_, token)
        if answer == SPLIT_WAIT:
            self.blocked_reason = WAIT_FOR_SPLIT
            return BLOCKED
        if answer == SPLIT_NONE:
            if self.has_filters:
                with gil:
                    self.close_filters()    # operators above may run long, and the tables of joins are large
            return FINISHED
        if range_ != NULL:
            self.begin_range(range_)
            return YIELDED
        with gil:
            self.split = <object> split
            Py_DECREF(self.split)       # the reference that came from the queue
            self.begin_split()
        counter_add(&self.stats.splits, 1)
        return YIELDED

    cdef int begin_range(self, RowRange* range_) except -1 nogil:
        self.range_ = range_
        self.range_at = range_.start
        counter_add(&self.stats.splits, 1)
        if fault_here(FAULT_SPLIT_OPEN):
            raise_injected(FAULT_SPLIT_OPEN)
        return 0

    cdef int next_stored(self, Batch** out) except -1 nogil:
        """Return the next batch of the row range, or end the range."""
        cdef int64_t n = self.range_.start + self.range_.length - self.range_at
        if n == 0:
            self.range_ = NULL
            self.splits.done()
            return YIELDED
        if fault_here(FAULT_SPLIT_READ):
            raise_injected(FAULT_SPLIT_READ)
        out[0] = self.stored.read(self.range_at, min(n, self.batch_rows), self.output_schema, self.account)
        self.range_at += out[0].n_rows
        return OUTPUT

    cdef int begin_split(self) except -1:
        if fault_here(FAULT_SPLIT_OPEN):
            raise_injected(FAULT_SPLIT_OPEN)
        self.source = self.open_split(self.split)
        self.add_figures(getattr(self.source, "extent", {}))
        return self.begin_stream()

    cdef int next_stream(self) except -1:
        """Go on to the next stream of the split, which has another schema."""
        stream, self.stream = self.stream, None
        self.reading = False
        (<Stream> stream).close()
        return self.begin_stream()

    cdef int begin_stream(self) except -1:
        cdef CSchema* given
        self.reader = getattr(self.source, "batch_reader", None)
        if self.reader is None:
            self.stream = Stream(self.source, not getattr(self.source, "is_held_outside", False))
            given = self.stream.schema
        else:
            given = self.reader.schema
        if self.reader is not None and self.has_filters:
            self.give_filters()
        if not schema_equal(given, self.output_schema):
            if self.drift == DRIFT_NONE:
                wrong = explain_difference(Schema.wrap(self.output_schema), Schema.wrap(given))
                raise SchemaChangeError(f"the split does not fit the scan: {wrong}")
            drift_to(self, given)
        elif self.reader is not None:
            # One schema object for all splits, so that operators downstream compare addresses only.
            self.reader.set_schema(self.output_schema)
        else:
            owner_ref(<Owner*> self.output_schema)
            owner_unref(<Owner*> self.stream.schema)
            self.stream.schema = self.output_schema
        self.reading = True
        return 0

    cdef int give_filters(self) except -1:
        """Give the reader the filters that are open, if its columns are those that the filters know."""
        if schema_equal(self.reader.schema, self.declared.schema):
            self.reader.filter_rows(
                [one for one in self.row_filters if (<RowFilter> one).open(self.memory, self.declared)]
            )
        return 0

    cdef int add_figures(self, figures) except -1:
        for figure, n in figures.items():
            self.extent[figure] = self.extent.get(figure, 0) + n
        return 0

    cdef int end_split(self) except -1:
        """Close the stream and its source. The source is closed also if the stream fails."""
        stream, source, reader = self.stream, self.source, self.reader
        self.reading = False
        self.stream = None
        self.reader = None
        self.source = None
        self.split = None
        if stream is not None:
            (<Stream> stream).close()
        close = getattr(source, "close", None)
        if close is not None:
            close()
        if reader is not None:
            self.add_figures((<BatchReader> reader).figures)
        return 0

    cdef int close_filters(self) except -1:
        for one in self.row_filters:
            (<RowFilter> one).close()
        self.row_filters = []
        self.has_filters = False
        return 0

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        batch_unref(self.current)
        self.current = NULL
        if self.is_closed:
            return
        self.is_closed = True
        if self.stored is not None and self.split is None:
            return      # nothing is open: without the GIL, which all drivers would want at the same time
        with gil:
            self.open_split = None
            self.close_filters()
            try:
                self.end_split()
            except BaseException as error:
                self.note_end(error, "close")
