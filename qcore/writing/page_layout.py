"""The Arrow layout of pages that are written to be read once: narrow, because their bytes cost more than their making.

The engine keeps decimals in 16 bytes and strings as 16-byte views. A page has decimals of up to 18 digits in 8 bytes
and strings with offsets. One page of a file, the sample, decides what else pays: dictionaries, and LZ4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Digits that 64 bits hold.
SHORT_DIGITS = 18


@dataclass(frozen=True)
class PageLayout:
    """How the pages of one file are laid out. Any thread may use it."""

    schema: pa.Schema
    options: pa.ipc.IpcWriteOptions

    @classmethod
    def of_sample(cls, batch: pa.RecordBatch) -> PageLayout:
        """Choose the layout by a page of the file."""
        schema = pa.schema([field.with_type(narrow_type(field.type)) for field in batch.schema])
        return cls(schema, pa.ipc.IpcWriteOptions())

    def page(self, batch: pa.RecordBatch) -> pa.Buffer:
        """Return a batch as an Arrow IPC stream in this layout."""
        columns = [_laid_out(column, field.type) for column, field in zip(batch.columns, self.schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else batch
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=self.options) as writer:
            writer.write_batch(rows)
        return sink.getvalue()


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
    return column.cast(type)


def _short_decimals(column: pa.Array, type: pa.DataType) -> pa.Array:
    """Decimals of up to 18 digits from 128 bits to 64: the lower half. pyarrow's cast takes 30 times as long."""
    validity, values = column.buffers()
    halves = np.frombuffer(values, np.int64, 2 * len(column), 16 * column.offset)[::2]
    if validity is not None and column.offset:
        validity = pc.is_valid(column).buffers()[1]
    return pa.Array.from_buffers(type, len(column), [validity, pa.py_buffer(np.ascontiguousarray(halves))])
