"""Read Parquet files with the engine's decoder alone, for comparison with pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable
from qcore.connectors.parquet.native import NativeStream
from qcore_ext.data.row_filter import RowFilter
from qcore_ext.ground.memory import Account
from qcore_testing.units import GivenRows


def read_natively(
    path: Path | str,
    batch_rows: int = 1000,
    columns: Sequence[str] | None = None,
    filters: Sequence[RowFilter] = (),
) -> pa.Table:
    """All rows of a file that the filters leave; fails if pyarrow would have to decode a column."""
    table = FileTable(str(path))
    names = tuple(table.schema.names if columns is None else columns)
    stream = table.open(FileSplit(str(path)), names, None, batch_rows)
    try:
        assert isinstance(stream, NativeStream), "pyarrow would read a column"
        stream.batch_reader.filter_rows(filters)
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
    """The engine's decoder reads the rows that are expected, by default those that pyarrow reads, and some of them if
    it is asked for some.
    """
    if expected is None:
        expected = pq.read_table(path)
    assert_same(read_natively(path, batch_rows), expected)
    some = SomeRows(len(expected))
    found = read_natively(path, batch_rows, filters=[some.filter()])
    assert_same(found, expected.take(pa.array(some.rows, pa.int64())))


class SomeRows:
    """Chooses at most half of the rows of each batch: none, some alone, or rows that follow each other.

    Attributes
    ----------
    rows : list of int
        The numbers of the rows chosen so far.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._passed = 0
        self.rows: list[int] = []

    def choose(self, n_rows: int) -> np.ndarray:
        rng, most = self._rng, n_rows // 2
        n = int(rng.choice([0, min(1, most), min(3, most), most // 10, most]))
        chosen = np.sort(rng.choice(n_rows, n, replace=False))
        if rng.random() < 0.4:
            chosen = np.arange(n) + int(rng.integers(0, n_rows - n + 1))
        self.rows += (chosen + self._passed).tolist()
        self._passed += n_rows
        return chosen.astype(np.uint32)

    def filter(self, columns: Sequence[int] = ()) -> GivenRows:
        return GivenRows(columns, self.choose)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
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
