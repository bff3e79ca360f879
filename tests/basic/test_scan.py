"""TableScan: splits, streams, schemas, closing (SPEC V3, V10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle import assert_same_rows
from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable
from qcore.connectors.parquet.native import NativeStream
from qcore.errors import ExecutionError
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.basic.scan import TableScan
from qcore_ext.data.schema import Schema
from qcore_ext.flow.drift import Drift
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from qcore_testing.units import GivenRows
from random_tables import ALL_TYPES, SIZES, random_table


class Source:
    """A table as a connector's stream, which counts its openings and closings."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.opened = self.closed = 0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.opened += 1
        return self.table.__arrow_c_stream__()

    def close(self) -> None:
        self.closed += 1

    def __repr__(self) -> str:
        return "Source(…)"


def scan(
    splits: list[Any], schema: pa.Schema, batch_rows: int = 65_536, after: list[Any] | None = None, **options: Any
) -> list[pa.RecordBatch]:
    queue = SplitQueue("1")
    for split in splits:
        queue.add(split)
    queue.no_more()
    open_split = options.pop("open_split", lambda split: split)
    operator = TableScan("1", Account(), queue, Schema(schema), open_split, batch_rows)
    return run_chain([operator, *(after or [])])


@pytest.mark.each_value
@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
@pytest.mark.parametrize("n_rows", SIZES)
def test_types_and_sizes(type_: pa.DataType, n_rows: int) -> None:
    table = random_table(4, n_rows, {"a": type_, "b": pa.int32()}, 0.2, chunk_rows=700)
    batches = scan([table], table.schema, batch_rows=512)
    assert all(batch.num_rows <= 512 for batch in batches)
    if n_rows:
        got = pa.Table.from_batches(batches)
        if pa.types.is_dictionary(type_):
            table = table.set_column(0, "a", table["a"].cast(type_.value_type))
        assert_same_rows(got, table, ordered=True)


def test_several_splits_closed_once_each() -> None:
    table = random_table(1, 1000, {"a": pa.int64()})
    sources = [Source(table.slice(i * 100, 100)) for i in range(10)]
    batches = scan(sources, table.schema)
    assert_same_rows(pa.Table.from_batches(batches), table, ordered=True)
    assert [(source.opened, source.closed) for source in sources] == [(1, 1)] * 10


def test_no_split_at_all() -> None:
    assert scan([], pa.schema([("a", pa.int64())])) == []


def test_an_early_end_closes_the_stream_and_opens_no_other() -> None:
    table = random_table(1, 10_000, {"a": pa.int64()})
    sources = [Source(table), Source(table)]
    batches = scan(sources, table.schema, batch_rows=64, after=[Limit("2", Account(), LimitState(100))])
    assert sum(batch.num_rows for batch in batches) == 100
    assert [(source.opened, source.closed) for source in sources] == [(1, 1), (0, 0)]


DECLARED = pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": pa.array([1], pa.int32()), "b": pa.array(["x"])}, "column 'a' is int32, declared as int64"),
        ({"a": pa.array([1], pa.int64())}, "column 'b', declared as string, is missing; it has 'a'"),
        ({"b": pa.array(["x"]), "a": pa.array([1], pa.int64())}, "columns come in the order"),
        (
            {"a": pa.array([1], pa.int64()), "b": pa.array(["x"]), "c": pa.array([1])},
            r"column 'c' \(int64\) is not declared",
        ),
    ],
)
def test_a_split_of_another_schema_is_refused(columns: dict[str, pa.Array], message: str) -> None:
    source = Source(pa.table(columns))
    with pytest.raises(ExecutionError, match=message) as caught:
        scan([source], DECLARED)
    assert "TableScan (node 1) reading split Source(…)" in str(caught.value)
    assert source.closed == 1


@pytest.mark.parametrize(
    "type_", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_strings_may_come_in_any_layout(type_: pa.DataType) -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array(["x", None])})
    given = table.set_column(1, "b", table["b"].cast(type_))
    batches = scan([table, given], DECLARED)
    assert pa.Table.from_batches(batches).equals(pa.concat_tables([table, table]))


def test_a_failure_to_open_names_the_split() -> None:
    def open_split(split: str) -> Any:
        raise FileNotFoundError(f"no file {split}")

    with pytest.raises(
        ExecutionError, match=r"reading split 'lost.parquet' failed: FileNotFoundError: no file"
    ) as caught:
        scan(["lost.parquet"], DECLARED, open_split=open_split)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_failure_to_close_surfaces() -> None:
    class Sticky(Source):
        def close(self) -> None:
            super().close()
            raise OSError("cannot close")

    source = Sticky(pa.table({"a": pa.array([1], pa.int64()), "b": pa.array(["x"])}))
    with pytest.raises(ExecutionError, match="cannot close"):
        scan([source], DECLARED)
    assert source.closed == 1


def test_an_object_that_is_no_stream_is_an_error() -> None:
    with pytest.raises(ExecutionError, match="reading split 17"):
        scan([17], DECLARED)


class Readable:
    """A Parquet file as TableScan takes it: the engine's decoder."""

    def __init__(self, path: Path) -> None:
        table = FileTable(str(path))
        self.stream = table.open(FileSplit(str(path)), tuple(table.schema.names), None, 1000)
        assert isinstance(self.stream, NativeStream)
        self.batch_reader = self.stream.batch_reader

    def close(self) -> None:
        self.stream.close()


@pytest.mark.parametrize("declared", ["same", "another order"])
def test_row_filters_are_given_to_readers_of_the_declared_schema(tmp_path: Path, declared: str) -> None:
    """SPEC P1: columns of a filter are positions in the declared schema. Filters are closed when the splits end."""
    table = pa.table({"a": range(10_000), "b": range(10_000)})
    pq.write_table(table, tmp_path / "t.parquet")
    schema = table.schema if declared == "same" else pa.schema(list(reversed(table.schema)))
    filter = GivenRows([0], lambda n: np.arange(0, n, 10, dtype=np.uint32))
    queue = SplitQueue("1")
    queue.add(1)
    queue.add(2)
    queue.no_more()
    scan = TableScan(
        "1",
        Account(),
        queue,
        Schema(schema),
        lambda _: Readable(tmp_path / "t.parquet"),
        1000,
        Drift.DRIFT_WITHIN,
        [filter],
    )
    batches = run_chain([scan])
    assert sum(batch.num_rows for batch in batches) == 2 * (1000 if declared == "same" else 10_000)
    assert scan.stats_snapshot()["extent"]["rows_cut"] == (18_000 if declared == "same" else 0)
    assert filter.is_closed


def test_row_filters_are_closed_with_a_scan_that_stops_early(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(10_000)}), tmp_path / "t.parquet")
    filter = GivenRows([], lambda n: np.arange(0, n, 10, dtype=np.uint32))
    queue = SplitQueue("1")
    queue.add(1)
    queue.no_more()
    scan = TableScan(
        "1",
        Account(),
        queue,
        Schema(pa.schema([("a", pa.int64())])),
        lambda _: Readable(tmp_path / "t.parquet"),
        row_filters=[filter],
    )
    assert sum(batch.num_rows for batch in run_chain([scan, Limit("2", Account(), LimitState(10))])) == 10
    assert filter.is_closed
