"""The Arrow layout of pages. A page is written once and read once, so a small page is worth the time to convert it.

The engine keeps decimals in 16 bytes and strings as 16-byte views. A page has decimals of up to 18 digits in 8 bytes
and strings with offsets. The first page of a file is the sample: it decides about dictionaries and compression for all
its pages. Each is used if it takes less time than writing and reading the bytes that it saves. The times below were
measured on one core with TPC-H at SF1.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from qcore.late_module import late_module
from qcore.record import record

pc = late_module("pyarrow.compute")

# Digits that 64 bits hold.
SHORT_DIGITS = 18
# A page with fewer rows is not used as the sample, and is not converted.
SAMPLE_ROWS_MIN = 1000
# Nanoseconds that a byte costs by default: it is written and read once, at 1 GB/s each.
BYTE_NANOS = 2.0
# Finding a string in a dictionary takes 16 to 21 ns.
DICTIONARY_NANOS = 20.0
# LZ4 takes about 1.1 ns a byte to write and 0.3 ns to read. It compresses 10 bytes of most number columns to 4 to 6
# bytes, so it saves time below about 400 MB/s.
LZ4_NANOS = 1.4
# A dictionary is used if at most one of this many rows has a new value. Larger ones take longer to fill and save less.
DICTIONARY_ROWS_MIN = 16
# A page has no more rows, so that the indices of dictionaries fit.
INDEX, PAGE_ROWS_MAX = pa.int16(), 1 << 15


@record(frozen=True)
class PageLayout:
    """How the pages of one file are laid out. Any thread may use it.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns as pages have them.
    is_compressed : bool
        Whether their buffers are compressed with LZ4.
    """

    schema: pa.Schema
    is_compressed: bool = False

    @classmethod
    def of_sample(cls, batch: pa.RecordBatch, byte_nanos: float = BYTE_NANOS) -> PageLayout:
        """Choose the layout by a page of the file. Writing and reading a byte takes `byte_nanos` ns."""
        narrow = pa.schema([field.with_type(narrow_type(field.type)) for field in batch.schema])
        if batch.num_rows < SAMPLE_ROWS_MIN:
            return cls(narrow)
        columns = [_laid_out(column, type_) for column, type_ in zip(batch.columns, narrow.types, strict=True)]
        schema = pa.schema(
            [
                field.with_type(_with_dictionary(column, byte_nanos))
                for field, column in zip(narrow, columns, strict=True)
            ]
        )
        codec = pa.Codec("lz4")
        n_bytes = n_left = 0
        for column, type_ in zip(columns, schema.types, strict=True):
            for buffer in _laid_out(column, type_).buffers():
                if buffer is not None:
                    n_bytes += buffer.size
                    n_left += min(buffer.size, codec.compress(buffer).size)
        return cls(schema, (n_bytes - n_left) * byte_nanos > LZ4_NANOS * n_bytes)

    def page(self, batch: pa.RecordBatch) -> pa.Buffer:
        """Return a batch as an Arrow IPC stream in this layout."""
        columns = [_laid_out(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else batch
        options = pa.ipc.IpcWriteOptions(compression="lz4" if self.is_compressed else None, use_threads=False)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
            writer.write_batch(rows)
        return sink.getvalue()


def _with_dictionary(column: pa.Array, byte_nanos: float) -> pa.DataType:
    """The type of a column of the sample: a dictionary if its values are long and few."""
    type_ = column.type
    if not (pa.types.is_string(type_) or pa.types.is_binary(type_)):
        return type_
    n_rows = len(column)
    n_bytes = pc.sum(pc.binary_length(column)).as_py() or 0
    # A string has an offset of 4 bytes, too, and its index in a dictionary has 2.
    if (n_bytes / n_rows + 4 - 2) * byte_nanos < DICTIONARY_NANOS:
        return type_
    if pc.count_distinct(column).as_py() * DICTIONARY_ROWS_MIN > n_rows:
        return type_
    return pa.dictionary(INDEX, type_)


def narrow_type(type: pa.DataType) -> pa.DataType:
    """The type that a page has a column in: the same values in fewer bytes."""
    if pa.types.is_decimal128(type) and type.precision <= SHORT_DIGITS:
        return pa.decimal64(type.precision, type.scale)
    if pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_binary_view(type):
        return pa.binary()
    return type


def _laid_out(column: pa.Array, type: pa.DataType) -> pa.Array:
    if column.type == type:
        return column
    if pa.types.is_decimal64(type) and pa.types.is_decimal128(column.type):
        return _short_decimals(column, type)
    if pa.types.is_dictionary(type):
        encoded = column.cast(type.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(INDEX), encoded.dictionary)
    return column.cast(type)


def _short_decimals(column: pa.Array, type: pa.DataType) -> pa.Array:
    """Decimals of up to 18 digits from 128 bits to 64: the lower half. pyarrow's cast takes 30 times as long."""
    validity, values = column.buffers()
    halves = np.frombuffer(values, np.int64, 2 * len(column), 16 * column.offset)[::2]
    if validity is not None and column.offset:
        validity = pc.is_valid(column).buffers()[1]
    return pa.Array.from_buffers(type, len(column), [validity, pa.py_buffer(np.ascontiguousarray(halves))])
