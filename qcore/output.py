"""Write a result in a file format, batch by batch."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable, Iterable
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv

from qcore.expression.types import UUID
from qcore.text_table import cell, python_values
from qcore.writing.table_write import ParquetRows

Batches = Iterable[pa.RecordBatch]


def write_csv(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """Write CSV with a header line. Null is an empty field; an empty string is a quoted empty field."""
    fields = [pa.field(field.name, _csv_type(field.type)) for field in schema]
    flat_schema = pa.schema(fields)
    with pyarrow.csv.CSVWriter(sink, flat_schema) as writer:
        for batch in batches:
            columns = [_flat(column, field.type) for column, field in zip(batch.columns, fields, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=flat_schema))


def _csv_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type):
        return _csv_type(type.value_type)
    if type == pa.string_view() or pa.types.is_nested(type) or pa.types.is_interval(type) or pa.types.is_duration(type):
        return pa.string()
    if type in (pa.binary(), pa.large_binary(), pa.binary_view()) or pa.types.is_fixed_size_binary(type):
        return pa.string()
    return pa.string() if type == UUID else type


def _flat(column: pa.Array, type: pa.DataType) -> pa.Array:
    """Convert a column to the type that the CSV writer writes for it."""
    if column.type == type:
        return column
    if pa.types.is_dictionary(column.type):
        return _flat(column.dictionary_decode(), type)
    if column.type == pa.string_view():
        return column.cast(pa.string())
    values = python_values(pa.chunked_array([column]))
    return pa.array([None if value is None else cell(value) for value in values], pa.string())


def write_json(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """Write one JSON object a line. Decimals keep every digit, NaN and infinities become null, bytes become base64."""
    keys = [json.dumps(name, ensure_ascii=False) for name in schema.names]
    for batch in batches:
        columns = [
            [json_text(value) for value in python_values(pa.chunked_array([column]))] for column in batch.columns
        ]
        for row in zip(*columns, strict=True):
            members = ", ".join(f"{key}: {value}" for key, value in zip(keys, row, strict=True))
            sink.write(f"{{{members}}}\n".encode())


def json_text(value: Any) -> str:
    """Return one value as JSON."""
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, (datetime.date, datetime.time)):
        return json.dumps(value.isoformat())
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {json_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(cell(value), ensure_ascii=False)


def write_arrow(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """Write Arrow's IPC file format if the sink can seek, else its stream format."""
    make: Callable[..., Any] = pa.ipc.new_file if _seekable(sink) else pa.ipc.new_stream
    with make(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _seekable(sink: IO[bytes]) -> bool:
    try:
        return sink.seekable()
    except ValueError:
        return False


def write_parquet(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """Write Parquet, in row groups of 131,072 rows."""
    file = ParquetRows(sink, schema, "snappy")
    for batch in batches:
        file.write(batch)
    file.close()


WRITERS: dict[str, Callable[[Batches, pa.Schema, IO[bytes]], None]] = {
    "csv": write_csv,
    "json": write_json,
    "arrow": write_arrow,
    "parquet": write_parquet,
}
