"""Arrow rows as DataFrames of Spark, in the layouts that Spark accepts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError
from qcore.spark.spark_job import is_connect

# Bytes of a file of rows, which is a partition of the DataFrame that reads it.
FILE_BYTES = 32 << 20

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
# Types with their names in Spark's JSON.
_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.null(): "void",
}
# Types that Spark lacks, each with the smallest of Spark's types that has all its values.
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


def spark_layout(type_: pa.DataType, where: str) -> pa.DataType:
    """Return the Arrow type in which Spark takes values of a type.

    Raises
    ------
    PlanError
        Spark has no type for the values. The message names the column `where`.
    """
    if type_ in _PLAIN:
        return type_
    if type_ in _WIDER:
        return _WIDER[type_]
    if any(is_kind(type_) for is_kind in _TEXT):
        return pa.string()
    if any(is_kind(type_) for is_kind in _BINARY):
        return pa.binary()
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return spark_layout(type_.value_type, where)
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if any(is_kind(type_) for is_kind in _LISTS):
        field = type_.value_field
        return pa.list_(pa.field("element", spark_layout(field.type, where), field.nullable))
    if pa.types.is_struct(type_):
        return pa.struct([_field(field, f"{where}.{field.name}") for field in type_])
    if pa.types.is_map(type_):
        item = type_.item_field
        value = pa.field("value", spark_layout(item.type, where), item.nullable)
        return pa.map_(spark_layout(type_.key_type, where), value)
    raise PlanError(f"column {where!r} is {type_}, which is no type of Spark: cast it, for example to text")


def _field(field: pa.Field, where: str) -> pa.Field:
    return pa.field(field.name, spark_layout(field.type, where), field.nullable)


def spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which Spark takes rows.

    Raises
    ------
    PlanError
        Spark has no type for a column, or two columns have one name.
    """
    names = schema.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanError(f"the result has two columns named {twice!r}: give one another name with AS")
    return pa.schema([_field(field, field.name) for field in schema])


def spark_json(schema: pa.Schema) -> dict[str, Any]:
    """Return the StructType of a schema that spark_arrow_schema() returned, in its JSON form."""
    fields = [
        {"name": field.name, "type": _json(field.type), "nullable": field.nullable, "metadata": {}} for field in schema
    ]
    return {"type": "struct", "fields": fields}


def _json(type_: pa.DataType) -> Any:
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_string(type_):
        return "string"
    if pa.types.is_binary(type_):
        return "binary"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamp_ntz" if type_.tz is None else "timestamp"
    if pa.types.is_duration(type_):
        return "interval day to second"
    if pa.types.is_struct(type_):
        return spark_json(pa.schema(list(type_)))
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": _json(type_.key_type),
            "valueType": _json(type_.item_type),
            "valueContainsNull": type_.item_field.nullable,
        }
    return {"type": "array", "elementType": _json(type_.value_type), "containsNull": type_.value_field.nullable}


def spark_schema(schema: pa.Schema) -> Any:
    """Return the pyspark.sql.types.StructType of a schema that spark_arrow_schema() returned."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(spark_json(schema))


def in_layout(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to the schema that spark_arrow_schema() returned for it.

    Raises
    ------
    ExecutionError
        A value does not fit, such as a timestamp with nanoseconds.
    """
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column if column.type.equals(field.type) else _convert_column(column, field.type))
        except pa.ArrowException as error:
            raise ExecutionError(
                f"column {field.name!r} ({column.type}) has values that Spark's {field.type} cannot hold: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _convert_column(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type) or pa.types.is_run_end_encoded(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(type_)


def frame_of_rows(rows: pa.Table, session: Any) -> Any:
    """Return rows as a DataFrame. They are sent to Spark at once, and held there in the driver's memory."""
    schema = spark_arrow_schema(rows.schema)
    batches = [in_layout(batch, schema) for batch in rows.to_batches()]
    return session.createDataFrame(pa.Table.from_batches(batches, schema), spark_schema(schema))


def frame_of_files(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: str, session: Any) -> Any:
    """Return rows as a DataFrame over files in a folder that executors share. Each task of Spark reads one.

    The DataFrame can be read while the files exist.
    """
    layout = spark_arrow_schema(schema)
    paths = list(_write(batches, layout, folder))
    rows = list(enumerate(paths))
    named = "number int, path string"
    if is_connect(session):
        frame = session.createDataFrame(rows, named).repartitionById(max(1, len(rows)), "number")
    else:
        frame = session.createDataFrame(session.sparkContext.parallelize(rows, max(1, len(rows))), named)
    return frame.mapInArrow(file_reader(), spark_schema(layout))


def _write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: str) -> Iterator[str]:
    writer = None
    n_bytes = 0
    try:
        for batch in batches:
            if writer is None:
                path = os.path.join(folder, f"rows-{os.urandom(16).hex()}.arrow")
                writer = pa.ipc.new_file(path, schema)
                n_bytes = 0
                yield path
            writer.write_batch(in_layout(batch, schema))
            n_bytes += batch.nbytes
            if n_bytes >= FILE_BYTES:
                writer.close()
                writer = None
    except OSError as error:
        raise ExecutionError(f"cannot write rows for Spark to {folder}: {error}") from error
    finally:
        if writer is not None:
            writer.close()


def file_reader() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that reads files by their paths in a Python worker. It needs pyarrow only."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for path in batch.column(1).to_pylist():
                try:
                    file = pa.OSFile(path)
                except FileNotFoundError:
                    raise FileNotFoundError(
                        f"{path}: the rows of to_spark() are removed when the result is closed; keep it open, or write "
                        "the DataFrame before"
                    ) from None
                with file, pa.ipc.open_file(file) as reader:
                    for number in range(reader.num_record_batches):
                        yield reader.get_batch(number)

    return read
