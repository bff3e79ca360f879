"""Reads columns of row groups of one Parquet file as batches."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.batch_reader cimport BatchReader
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport CONSTANT, Column, column_slice
from qcore_ext.data.schema cimport Schema
from qcore_ext.ground.memory cimport MemoryAccount, struct_free, struct_new
from qcore_ext.parquet.column_reader cimport ColumnReader
from qcore_ext.parquet.pages cimport CODEC_NONE, CODEC_PYARROW, CODEC_SNAPPY


cdef Column* constant_column(Column* row, int64_t n) except NULL nogil:
    cdef Column* column = column_slice(row, 0, 1)
    column.encoding = CONSTANT
    column.n_rows = n
    return column


ctypedef struct ColumnSource:
    # Where a column of the batches comes from.
    PyObject* reader                # a ColumnReader, or NULL; kept alive by `sources`
    PyObject* row                   # a PyBatch, or NULL


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
        For each column either a tuple (name, conversion, width, is_optional) as ColumnReader takes them, or an object
        with `__arrow_c_array__`: a batch of one column and one row, whose value all rows have.
    groups : sequence of (int, int, sequence)
        For each row group its number, its number of rows, and for each column that is read its chunk: (offset in the
        file, bytes, bytes after decompression, codec). The codec is None, "snappy" or a pyarrow.Codec.
    batch_rows : int
        Rows of a batch, at most. A multiple of 8.
    before_group : callable
        Called with a row group's number before it is read. What it raises ends the reading.
    """
    cdef str path
    cdef object file
    cdef list sources               # a ColumnReader for each column, or a PyBatch
    cdef ColumnSource* columns            # owned; the same
    cdef object groups              # what is left to read
    cdef object before_group
    cdef int64_t batch_rows
    cdef int64_t rows_left          # of the current row group

    def __init__(self, str path, file, Schema schema, columns, groups, int64_t batch_rows, before_group):
        self.path = path
        self.file = file
        self.set_schema(schema.schema)
        self.groups = iter(groups)
        self.before_group = before_group
        self.batch_rows = max(<int64_t> 8, batch_rows) & ~(<int64_t> 7)
        self.sources = []
        self.columns = <ColumnSource*> struct_new(max(1, len(columns)) * sizeof(ColumnSource))
        for i, column in enumerate(columns):
            if isinstance(column, tuple):
                source = ColumnReader(path, column[0], schema, i, *column[1:])
                self.columns[<int64_t> i].reader = <PyObject*> source
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
        cdef int file
        found = next(self.groups, None)
        if found is None:
            return 0
        group, n_rows, chunks = found
        self.before_group(group)
        file = self.file.fileno()
        chunks = iter(chunks)
        for each in self.sources:
            if isinstance(each, ColumnReader):
                reader = <ColumnReader> each
                offset, n_bytes, n_uncompressed, codec = next(chunks)
                reader.pages.codec = CODEC_NONE if codec is None else CODEC_PYARROW
                reader.pages.decompressor = codec
                if codec == "snappy":
                    reader.pages.codec = CODEC_SNAPPY
                reader.open(account, file, group, n_rows, offset, n_bytes, n_uncompressed)
        self.rows_left = n_rows
        return 1

    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil:
        cdef Batch* batch
        cdef int64_t n
        cdef bint done = False
        while self.rows_left == 0:
            with gil:
                if not self.begin_group(account):
                    return 0
        n = min(self.rows_left, self.batch_rows)
        batch = batch_new(self.schema, n)
        try:
            self.read_columns(batch, n)
            done = True
        finally:
            if not done:
                batch_unref(batch)
        self.rows_left -= n
        out[0] = batch
        return 1

    cdef int read_columns(self, Batch* batch, int64_t n) except -1 nogil:
        cdef int32_t i
        for i in range(batch.n_columns):
            if self.columns[i].reader != NULL:
                batch.columns[i] = (<ColumnReader> self.columns[i].reader).read(n)
            else:
                batch.columns[i] = constant_column((<PyBatch> self.columns[i].row).batch.columns[0], n)
        return 0

    def close(self):
        """Close the file and free all buffers."""
        file, self.file = self.file, None
        self.groups = iter(())
        self.rows_left = 0
        for reader in self.sources:
            if isinstance(reader, ColumnReader):
                (<ColumnReader> reader).close()
        if file is not None:
            file.close()
