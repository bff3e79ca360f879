"""Reads the rows of a connector's table without the engine, in the order of its scans, and a result in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from qcore.connectors.alignment import logical_type, same_values
from qcore.connectors.base import Split, Table
from qcore.expression.tree import Expr
from qcore_ext.ground.memory import Account


def read_split(
    table: Table, split: Split, columns: Sequence[str], filter: Expr | None = None, batch_rows: int = 1000
) -> pa.Table:
    """The rows of one split. Checks that the stream has the declared columns."""
    stream = table.open(split, tuple(columns), filter, batch_rows)
    try:
        read = _rows_of(stream)
    finally:
        stream.close()
    assert read.column_names == list(columns)
    for name in columns:
        declared, actual = table.schema.field(name).type, logical_type(read.schema.field(name).type)
        assert declared.equals(actual) or same_values(declared, actual), f"{name}: {actual}, declared {declared}"
    return read


def _rows_of(stream: Any) -> pa.Table:
    """The rows as TableScan reads them: with the engine's reader, if the stream has one."""
    reader = getattr(stream, "batch_reader", None)
    if reader is None:
        return pa.RecordBatchReader.from_stream(stream).read_all()
    account, batches = Account(), []
    while (batch := reader.read_batch(account)) is not None:
        batches.append(pa.record_batch(batch))
    return pa.Table.from_batches(batches, pa.schema(reader.schema_object))


def read_splits(
    table: Table, splits: Iterable[Split], columns: Sequence[str], filter: Expr | None = None, batch_rows: int = 1000
) -> pa.Table:
    """All rows of some splits, with plain types."""
    schema = pa.schema([table.schema.field(name) for name in columns])
    parts = [plain(read_split(table, split, columns, filter, batch_rows), schema) for split in splits]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def read_table(
    table: Table, columns: Sequence[str] | None = None, filter: Expr | None = None, target: int = 2
) -> pa.Table:
    """All rows of a table."""
    names = tuple(table.schema.names if columns is None else columns)
    return read_splits(table, table.splits(names, filter, target), names, filter)


def plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same values in the declared layout."""
    columns = []
    for field, values in zip(schema, table.columns, strict=True):
        if pa.types.is_decimal(values.type) and values.type.bit_width < 128:
            values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        columns.append(values if values.type.equals(field.type) else values.cast(field.type))
    if not columns:
        return table
    return pa.Table.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))


def read_in_thread(result: Any) -> tuple[threading.Thread, list[BaseException]]:
    """Start a thread that reads a result to its end, and return it with a list that gets the error, if there is one."""
    errors: list[BaseException] = []

    def read() -> None:
        try:
            result.to_arrow()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    return thread, errors
