"""Reads columns of row groups of one Parquet file as batches.

Row filters, if there are any, are asked first. For each the reader reads the filter's columns, and goes on with the
rows that it leaves. The other columns are read for those rows alone. Pages without any are skipped. In other pages only
the values of those rows are decoded. The first batch of a row group is small, because filters that leave most of it are
switched off.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.batch_reader cimport BatchReader
from qcore_ext.data.capsule cimport PyBatch, Stream
from qcore_ext.data.column cimport CONSTANT, Column, column_ref, column_slice, column_take
from qcore_ext.data.row_filter cimport TRIAL_ROWS, RowFilter, leaves_most
from qcore_ext.data.schema cimport Schema, type_equal
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, Owner, buffer_new, buffer_unref, owner_ref, struct_free, struct_new,
)
from qcore_ext.parquet.column_reader cimport ColumnReader
from qcore_ext.parquet.pages cimport CODEC_NONE, CODEC_PYARROW, CODEC_SNAPPY

from qcore_ext.ground.status import ExecutionError


cdef Column* constant_column(Column* row, int64_t n) except NULL nogil:
    cdef Column* column = column_slice(row, 0, 1)
    column.encoding = CONSTANT
    column.n_rows = n
    return column


ctypedef struct ColumnSource:
    # Where a column of the batches comes from.
    PyObject* reader                # a ColumnReader, or NULL; kept alive by `sources`
    PyObject* row                   # a PyBatch, or NULL
    int64_t rest                    # position among the rest of the current row group's columns; -1: none of them


ctypedef struct Piece:
    # Rows that are being read: the next `n_rows` of the row group, or those of them that filters left.
    Batch* batch                    # owned; columns that were not read are NULL
    Buffer* rows                    # owned; the numbers of the batch's rows, uint32, ascending; NULL: all
    int64_t n_rows


cdef class ParquetReader(BatchReader):
    """Reads row groups, one after another.

    Parameters
    ----------
    path : str
        For error messages.
    file : object with `fileno` and `close`
        The open file. Closed with the reader.
    schema : Schema
        The columns of the batches.
    columns : sequence
        For each column either a tuple (name, conversion, width, is_optional) as ColumnReader takes them; or an object
        with `__arrow_c_array__`, a batch of one column and one row, whose value all rows have; or None.
    groups : sequence of (int, int, sequence, sequence)
        For each row group its number, its number of rows, for each column its chunk (offset in the file, bytes, bytes
        after decompression, codec), and what begin_group takes. The codec is None, "snappy" or a pyarrow.Codec.
        A column without a chunk (None) that is no constant is one of the rest.
    batch_rows : int
        Rows of a batch, at most. A multiple of 8.
    begin_group : callable
        Called with a row group's number and its last item before it is read. Returns a stream of the rest of the
        columns, as TableScan takes it, in batches of at most batch_rows rows; or None.
    """
    cdef str path
    cdef object file
    cdef list sources               # a ColumnReader for each column, or a PyBatch
    cdef ColumnSource* columns            # owned; the same
    cdef object groups              # what is left to read
    cdef object begin
    cdef object rest_source         # what begin_group returned for the current row group
    cdef Stream rest                # the stream of it, or None
    cdef int64_t batch_rows
    cdef int64_t rows_left          # of the current row group
    cdef PyObject** filters_at      # owned array; the RowFilters of row_filters
    cdef int32_t n_filters
    cdef bint is_first              # no row of the row group was read
    cdef bint is_trial              # the next batch is the first of a row group, and filters are on
    cdef int64_t rows_cut           # rows that filters dropped
    cdef int64_t n_rest             # columns of the rest that were found so far

    def __init__(self, str path, file, Schema schema, columns, groups, int64_t batch_rows, begin_group):
        self.path = path
        self.file = file
        self.set_schema(schema.schema)
        self.groups = iter(groups)
        self.begin = begin_group
        self.batch_rows = max(<int64_t> 8, batch_rows) & ~(<int64_t> 7)
        self.sources = []
        self.columns = <ColumnSource*> struct_new(max(1, len(columns)) * sizeof(ColumnSource))
        for i, column in enumerate(columns):
            if isinstance(column, tuple):
                source = ColumnReader(path, column[0], schema, i, *column[1:])
                self.columns[<int64_t> i].reader = <PyObject*> source
            elif column is None:
                source = None
            else:
                source = PyBatch.from_arrow(column, None, True)
                self.columns[<int64_t> i].row = <PyObject*> source
            self.sources.append(source)

    def __dealloc__(self):
        struct_free(self.columns)
        struct_free(self.filters_at)

    def filter_rows(self, filters):
        BatchReader.filter_rows(self, filters)
        struct_free(self.filters_at)
        self.filters_at = NULL
        self.n_filters = 0
        self.filters_at = <PyObject**> struct_new((len(self.row_filters) + 1) * sizeof(PyObject*))
        for one in self.row_filters:
            if not isinstance(one, RowFilter):
                raise TypeError(f"a reader takes row filters, not {one!r}")
            self.filters_at[self.n_filters] = <PyObject*> one
            self.n_filters += 1

    cdef int begin_group(self, MemoryAccount* account) except -1:
        """Begin the next row group. Returns 0 if there is none."""
        cdef ColumnReader reader
        cdef ColumnSource* source
        cdef int file
        self.end_rest()
        found = next(self.groups, None)
        if found is None:
            return 0
        group, n_rows, chunks, fields = found
        self.rest_source = self.begin(group, fields)
        if self.rest_source is not None:
            self.rest = Stream(self.rest_source, True)
        file = self.file.fileno()
        self.n_rest = 0
        for i, chunk in enumerate(chunks):
            source = &self.columns[<int64_t> i]
            source.rest = -1
            if chunk is not None:
                reader = <ColumnReader> source.reader
                offset, n_bytes, n_uncompressed, codec = chunk
                reader.pages.codec = CODEC_NONE if codec is None else CODEC_PYARROW
                reader.pages.decompressor = codec
                if codec == "snappy":
                    reader.pages.codec = CODEC_SNAPPY
                reader.open(account, file, group, n_rows, offset, n_bytes, n_uncompressed)
            elif source.row == NULL:
                self.begin_rest(source, i, group)
        self.begin_filters()
        self.is_first = True
        self.rows_left = n_rows
        return 1

    cdef void begin_filters(self) noexcept nogil:
        """Begin a row group, with the filters in the order of the time that they take to drop a row.

        Reading their columns does not count: most of that is decompressing pages, which is needed in any order.
        """
        cdef PyObject* one
        cdef int32_t i, k
        self.is_trial = False
        for i in range(self.n_filters):
            one = self.filters_at[i]
            (<RowFilter> one).begin_group()
            self.is_trial |= (<RowFilter> one).is_on()
            k = i
            while k > 0 and (<RowFilter> self.filters_at[k - 1]).nanos_a_drop() > (<RowFilter> one).nanos_a_drop():
                self.filters_at[k] = self.filters_at[k - 1]
                k -= 1
            self.filters_at[k] = one

    cdef int begin_rest(self, ColumnSource* source, int64_t i, group) except -1:
        """Take a column from the stream of the rest."""
        source.rest = self.n_rest
        self.n_rest += 1
        if self.rest is None or self.n_rest > self.rest.schema.n_fields or not type_equal(
            &self.rest.schema.fields[source.rest].type, &self.schema.fields[i].type
        ):
            raise ExecutionError(
                f"cannot read {self.path}, row group {group}: column {i} has another type than declared"
            )
        return 0

    cdef int end_rest(self) except -1:
        stream, source = self.rest, self.rest_source
        self.rest = None
        self.rest_source = None
        if stream is not None:
            (<Stream> stream).close()
        if source is not None:
            source.close()
        return 0

    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil:
        out[0] = NULL
        while out[0] == NULL:
            while self.rows_left == 0:
                with gil:
                    if not self.begin_group(account):
                        return 0
            self.next_piece(account, out)
        return 1

    cdef int next_piece(self, MemoryAccount* account, Batch** out) except -1 nogil:
        """Read the next rows of the row group. *out remains NULL if filters leave none."""
        cdef Piece piece
        cdef Batch* rest = NULL
        if self.is_first:
            self.is_first = False
            self.load_first_pages()
        piece.batch = NULL
        piece.rows = NULL
        piece.n_rows = min(self.rows_left, self.batch_rows)
        if self.is_trial:
            piece.n_rows = min(piece.n_rows, <int64_t> TRIAL_ROWS)
            self.is_trial = False
        try:
            if self.rest is not None:
                piece.n_rows = self.read_rest(account, &rest)
            piece.batch = batch_new(self.schema, piece.n_rows)
            if rest != NULL or self.ask_filters(&piece, account):
                self.read_columns(&piece, rest)
                out[0] = piece.batch
                piece.batch = NULL
            else:
                self.skip_columns(&piece)
        finally:
            batch_unref(rest)
            batch_unref(piece.batch)
            buffer_unref(piece.rows)
        self.rows_left -= piece.n_rows
        return 0

    cdef int load_first_pages(self) except -1 nogil:
        """Decompress the first pages of the columns, two columns at a time. Large dictionaries are such pages."""
        cdef PyObject* waiting = NULL
        cdef PyObject* reader
        cdef int32_t i
        for i in range(self.schema.n_fields):
            reader = self.columns[i].reader
            if reader == NULL or self.columns[i].rest >= 0 or not (<ColumnReader> reader).is_needed:
                continue
            if not (<ColumnReader> reader).pages.find_first():
                continue
            if waiting != NULL:
                (<ColumnReader> waiting).pages.load_first_with(<PyObject*> (<ColumnReader> reader).pages)
                waiting = NULL
            else:
                waiting = reader
        return 0

    cdef int64_t read_rest(self, MemoryAccount* account, Batch** out) except -1 nogil:
        """Read the next batch of the rest. Returns its number of rows."""
        out[0] = NULL
        while out[0] == NULL or out[0].n_rows == 0:
            batch_unref(out[0])
            out[0] = NULL
            if not self.rest.next_batch(account, out):
                break
        if out[0] == NULL or out[0].n_rows > self.rows_left:
            with gil:
                raise ExecutionError(f"cannot read {self.path}: its columns differ in their numbers of rows")
        return out[0].n_rows

    cdef bint ask_filters(self, Piece* piece, MemoryAccount* account) except -1 nogil:
        """Drop the rows that filters do not need. Returns False if no row is left; the batch keeps its rows then."""
        cdef Buffer* left
        cdef int64_t found
        cdef int32_t i, k
        for i in range(self.n_filters):
            if not (<RowFilter> self.filters_at[i]).is_on():
                continue
            for k in range((<RowFilter> self.filters_at[i]).n_columns):
                self.read_column(piece, (<RowFilter> self.filters_at[i]).columns[k], NULL)
            found = (<RowFilter> self.filters_at[i]).choose(piece.batch, &left)
            if found == 0:
                self.rows_cut += piece.batch.n_rows
                return False
            try:
                # Where most rows are left, whole columns are read faster than chosen rows of them.
                if not leaves_most(piece.batch.n_rows, found):
                    self.keep_rows(piece, left, found, account)
            finally:
                buffer_unref(left)
        return True

    cdef int keep_rows(self, Piece* piece, Buffer* left, int64_t n, MemoryAccount* account) except -1 nogil:
        """Keep n rows of the batch, whose numbers `left` has."""
        cdef const uint32_t* chosen = <const uint32_t*> left.data
        cdef Batch* old = piece.batch
        cdef Batch* kept = batch_new(self.schema, n)
        cdef const uint32_t* before
        cdef Buffer* rows
        cdef uint32_t* out
        cdef int64_t i
        self.rows_cut += old.n_rows - n
        piece.batch = kept
        try:
            for i in range(kept.n_columns):
                if old.columns[i] != NULL:
                    kept.columns[i] = column_take(old.columns[i], chosen, n, <Owner*> left, account)
        finally:
            batch_unref(old)
        if piece.rows == NULL:
            piece.rows = <Buffer*> owner_ref(<Owner*> left)
            return 0
        rows = buffer_new(account, n * sizeof(uint32_t))
        before = <const uint32_t*> piece.rows.data
        out = <uint32_t*> rows.data
        for i in range(n):
            out[i] = before[chosen[i]]
        buffer_unref(piece.rows)
        piece.rows = rows
        return 0

    cdef int read_columns(self, Piece* piece, Batch* rest) except -1 nogil:
        """Read the columns that were not read yet."""
        cdef int32_t i
        for i in range(piece.batch.n_columns):
            self.read_column(piece, i, rest)
        return 0

    cdef void skip_columns(self, Piece* piece) noexcept nogil:
        """Skip the rows in the columns that were not read yet."""
        cdef ColumnSource* source
        cdef int32_t i
        for i in range(piece.batch.n_columns):
            source = &self.columns[i]
            if source.reader != NULL and piece.batch.columns[i] == NULL:
                (<ColumnReader> source.reader).skip(piece.n_rows)

    cdef int read_column(self, Piece* piece, int32_t i, Batch* rest) except -1 nogil:
        """Read a column of the piece, if it was not read yet."""
        cdef ColumnSource* source = &self.columns[i]
        cdef Batch* batch = piece.batch
        if batch.columns[i] != NULL:
            return 0
        if source.rest >= 0:
            batch.columns[i] = column_ref(rest.columns[source.rest])
        elif source.reader == NULL:
            batch.columns[i] = constant_column((<PyBatch> source.row).batch.columns[0], batch.n_rows)
        elif piece.rows == NULL:
            batch.columns[i] = (<ColumnReader> source.reader).read(piece.n_rows, NULL, piece.n_rows)
        else:
            batch.columns[i] = (<ColumnReader> source.reader).read(
                piece.n_rows, <const uint32_t*> piece.rows.data, batch.n_rows
            )
        return 0

    def close(self):
        """Close the file and free all buffers."""
        self.figures = {
            "rows_cut": self.rows_cut,
            "pages_skipped": sum(one.pages_skipped for one in self.sources if isinstance(one, ColumnReader)),
        }
        file, self.file = self.file, None
        self.groups = iter(())
        self.rows_left = 0
        self.end_rest()
        for reader in self.sources:
            if isinstance(reader, ColumnReader):
                (<ColumnReader> reader).close()
        if file is not None:
            file.close()
