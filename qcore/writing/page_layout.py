"""The layout of pages: the types that rows cross between tasks in, and whether compression saves time.

Rows without nested columns are written as blocks (`qcore_ext.exchange.page_block`). Other rows are Arrow IPC streams,
with decimals of up to 18 digits in 8 bytes and strings with offsets.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from qcore.late_module import late_module

pc = late_module("pyarrow.compute")

# Digits that 64 bits hold.
SHORT_DIGITS = 18
# A page with fewer rows is not used as the sample of its file.
SAMPLE_ROWS_MIN = 1000
# Nanoseconds that a byte costs by default: it is written and read once, at 1 GB/s each.
BYTE_NANOS = 2.0
# LZ4 takes about 1.1 ns a byte to write and 0.3 ns to read.
LZ4_NANOS = 1.4


def is_worth_compressing(sample: pa.Buffer, byte_nanos: float) -> bool:
    """Whether LZ4 saves time if all pages are like this one. Writing and reading a byte takes `byte_nanos` ns."""
    n_left = pa.Codec("lz4").compress(sample).size
    return bool((sample.size - n_left) * byte_nanos > LZ4_NANOS * sample.size)


def narrow_type(type: pa.DataType) -> pa.DataType:
    """The type that a column crosses between tasks in: the same values in fewer bytes."""
    if pa.types.is_decimal128(type) and type.precision <= SHORT_DIGITS:
        return pa.decimal64(type.precision, type.scale)
    if pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_binary_view(type):
        return pa.binary()
    return type


def ipc_stream(batch: pa.RecordBatch, is_compressed: bool) -> pa.Buffer:
    """Return a batch as an Arrow IPC stream."""
    schema = pa.schema([field.with_type(narrow_type(field.type)) for field in batch.schema])
    columns = [_laid_out(column, type_) for column, type_ in zip(batch.columns, schema.types, strict=True)]
    options = pa.ipc.IpcWriteOptions(compression="lz4" if is_compressed else None, use_threads=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return sink.getvalue()


def _laid_out(column: pa.Array, type: pa.DataType) -> pa.Array:
    if column.type == type:
        return column
    if pa.types.is_decimal64(type):
        return _short_decimals(column, type)
    return column.cast(type)


def _short_decimals(column: pa.Array, type: pa.DataType) -> pa.Array:
    """Decimals of up to 18 digits from 128 bits to 64: the lower half. pyarrow's cast takes 30 times as long."""
    validity, values = column.buffers()
    halves = np.frombuffer(values, np.int64, 2 * len(column), 16 * column.offset)[::2]
    if validity is not None and column.offset:
        validity = pc.is_valid(column).buffers()[1]
    return pa.Array.from_buffers(type, len(column), [validity, pa.py_buffer(np.ascontiguousarray(halves))])
