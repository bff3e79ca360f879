"""Read Parquet files with the engine's decoder alone, for comparison with pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable
from qcore.connectors.parquet.native import NativeStream
from qcore_ext.ground.memory import Account


def read_natively(path: Path | str, batch_rows: int = 1000, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a file; fails if pyarrow would have to decode a column."""
    table = FileTable(str(path))
    names = tuple(table.schema.names if columns is None else columns)
    stream = table.open(FileSplit(str(path)), names, None, batch_rows)
    try:
        assert isinstance(stream, NativeStream), "pyarrow would read a column"
        return rows_of(stream)
    finally:
        stream.close()


def rows_of(stream: NativeStream) -> pa.Table:
    """All batches of a stream, as TableScan takes them."""
    account, batches = Account(), []
    while (batch := stream.batch_reader.read_batch(account)) is not None:
        batches.append(pa.record_batch(batch))
    return pa.Table.from_batches(batches, pa.schema(stream.batch_reader.schema_object))


def assert_reads_alike(path: Path | str, batch_rows: int = 1000, expected: pa.Table | None = None) -> None:
    """The engine's decoder reads the rows that are expected: by default those that pyarrow reads."""
    found = read_natively(path, batch_rows)
    if expected is None:
        expected = pq.read_table(path)
    assert found.column_names == expected.column_names
    assert found.num_rows == expected.num_rows
    for name in found.column_names:
        values = expected.column(name)
        # Text of any layout equals the same text.
        read = found.column(name).cast(values.type)
        # NaN equals NaN.
        assert read.equals(values) or read.to_pylist() == Same(values.to_pylist()), name


class Same:
    """A list that equals another one if their values do, NaN included."""

    def __init__(self, values: list[object]) -> None:
        self._values = values

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        pairs = zip(self._values, other, strict=True)
        return all(a == b or (a != a and b != b) for a, b in pairs)

    def __repr__(self) -> str:
        return repr(self._values)
