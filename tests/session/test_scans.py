"""The scans of a task: tables, filters and splits, and sources whose splits wait (SPEC V3, V10)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, col
from qcore.config import Settings
from qcore.connectors.arrow import ArrowSplit, ArrowTable
from qcore.connectors.base import Split
from qcore.expression.tree import Expr, column_names
from qcore.lowering.runtime_filters import source_filter
from qcore.plan import nodes as p
from qcore.session.scans import SPLITS_PER_DRIVER, Scans, source_schema
from qcore.session.task import lower_plan

ROWS = pa.table({"a": range(100), "b": [i % 7 for i in range(100)]})


class Recorded(ArrowTable):
    """A source that records its calls."""

    def __init__(self) -> None:
        super().__init__(ROWS)
        self.asked: list[tuple[tuple[str, ...], Expr | None, int]] = []
        self.opened: list[Expr | None] = []

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        self.asked.append((columns, filter, target))
        yield ArrowSplit(0, 60)
        yield ArrowSplit(60, 40)

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> Any:
        self.opened.append(filter)
        return super().open(split, columns, filter, batch_rows)


def filtered_scan(table: Any) -> p.Scan:
    """A scan whose columns have other names than the table's, with a filter for pruning."""
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    return p.Scan("7", schema, "t", table, ("b", "a"), col("y") > 3)


def test_v10_sources_see_their_own_names() -> None:
    """V10: filter and columns are named as the source names them, and all splits get one filter object."""
    table = Recorded()
    scan = filtered_scan(table)
    assert source_schema(scan).names == ["b", "a"]
    filter = source_filter(scan)
    assert filter is not None
    assert column_names(filter) == {"a"}
    scans = Scans(lower_plan(scan, 3), Settings.make(3))
    splits = list(scans.splits(scan))
    (asked,) = table.asked
    assert (asked[0], asked[2]) == (("b", "a"), 3 * SPLITS_PER_DRIVER)
    for split in splits:
        rows = pa.RecordBatchReader.from_stream(scans.open(scan, split)).read_all()
        assert rows.column_names == ["b", "a"]
    assert table.opened[0] is table.opened[1] is asked[1]


def test_v3_every_split_of_a_source_is_read() -> None:
    """V3: the drivers of a task read every split exactly once."""
    table = Recorded()
    plan = PlanBuilder().scan("t", source=table).build()
    rows = pa.Table.from_batches(qcore.Task(plan, drivers=2).batches())
    assert sorted(rows["a"].to_pylist()) == ROWS["a"].to_pylist()
    assert len(table.asked) == 1


def test_nodes_of_a_recursion_belong_to_other_tasks() -> None:
    session = qcore.Session(threads=1)
    session.register("t", ROWS)
    text = "with recursive r as (select 1 as n union all select n + 1 from r, t where n < 3 and a = 0) select * from r"
    plan = session.sql(text).plan
    assert not lower_plan(plan, 1).scans
    assert sorted(session.sql(text).to_arrow()["n"].to_pylist()) == [1, 2, 3]


class Waiting(ArrowTable):
    """A source whose second split never comes."""

    splits_wait = True

    def __init__(self) -> None:
        super().__init__(ROWS)
        self.closed = threading.Event()

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Any:
        return self

    def __iter__(self) -> Iterator[Split]:
        yield ArrowSplit(0, 100)
        assert self.closed.wait(20), "nobody closed the iterator"

    def close(self) -> None:
        self.closed.set()


def test_a_source_that_waits_is_closed_when_the_query_ends() -> None:
    """V8: a full LIMIT ends a scan whose next split has not come."""
    table = Waiting()
    session = qcore.Session(threads=1)
    plan = PlanBuilder().scan("t", source=table).limit(5).build()
    assert session.execute(plan).to_arrow().num_rows == 5
    assert table.closed.is_set()


@pytest.mark.parametrize("waits", [False, True])
def test_a_source_that_fails_ends_the_query(waits: bool) -> None:
    """The query ends with an error that names the node. The scan does not wait for ever."""

    class Failing(ArrowTable):
        splits_wait = waits

        def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
            yield ArrowSplit(0, 1)
            raise OSError("the listing broke off")

    plan = PlanBuilder().scan("t", source=Failing(ROWS), id="12").build()
    with pytest.raises(qcore.ExecutionError, match=r"TableScan \(node 12\).*the listing broke off"):
        qcore.Session(threads=1).execute(plan).to_arrow()
