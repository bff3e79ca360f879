"""Reads columns of row groups of one Parquet file as batches."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.batch_reader cimport BatchReader
from qcore_ext.data.capsule cimport PyBatch, Stream
from qcore_ext.data.column cimport CONSTANT, Column, column_ref, column_slice
from qcore_ext.data.schema cimport Schema, type_equal
from qcore_ext.ground.memory cimport MemoryAccount, struct_free, struct_new
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
        if self.columns != NULL:
            struct_free(self.columns)

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
        self.rows_left = n_rows
        return 1

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
        cdef Batch* batch = NULL
        cdef Batch* rest = NULL
        cdef int64_t n
        cdef bint done = False
        while self.rows_left == 0:
            with gil:
                if not self.begin_group(account):
                    return 0
        n = min(self.rows_left, self.batch_rows)
        try:
            if self.rest is not None:
                n = self.read_rest(account, &rest)
            batch = batch_new(self.schema, n)
            self.read_columns(batch, rest, n)
            done = True
        finally:
            batch_unref(rest)
            if not done:
                batch_unref(batch)
        self.rows_left -= n
        out[0] = batch
        return 1

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

    cdef int read_columns(self, Batch* batch, Batch* rest, int64_t n) except -1 nogil:
        cdef int32_t i
        cdef ColumnSource* source
        for i in range(batch.n_columns):
            source = &self.columns[i]
            if source.rest >= 0:
                batch.columns[i] = column_ref(rest.columns[source.rest])
            elif source.reader != NULL:
                batch.columns[i] = (<ColumnReader> source.reader).read(n)
            else:
                batch.columns[i] = constant_column((<PyBatch> source.row).batch.columns[0], n)
        return 0

    def close(self):
        """Close the file and free all buffers."""
        file, self.file = self.file, None
        self.groups = iter(())
        self.rows_left = 0
        self.end_rest()
        for reader in self.sources:
            if isinstance(reader, ColumnReader):
                (<ColumnReader> reader).close()
        if file is not None:
            file.close()
