"""V8: an operator that needs no more rows stops its endless inputs, across exchanges, unions and joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, PollPull, col

pytestmark = pytest.mark.timeout(120)
DRIVERS = [1, 2, 3, 8]
SMALL = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array([i % 3 for i in range(100)], pa.int64())})


class Endless(qcore.SourceOperator):
    """An endless source of batches of ten rows. It counts how often its partitions are closed."""

    def __init__(self, values: list[int] | None = None) -> None:
        self.batch = pa.record_batch({"a": pa.array(values or range(10), pa.int64())})
        self.opened: list[int] = []
        self.closed: list[int] = []

    def output_schema(self, schema: None) -> pa.Schema:
        return self.batch.schema

    def init_local_state(self, cx: Any, shared: Any) -> None:
        self.opened.append(cx.partition)

    def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> PollPull:
        return PollPull.batch(self.batch)

    def close(self, cx: Any, local: Any, shared: Any, partition: int) -> None:
        self.closed.append(partition)


def exchange(source: PlanBuilder, drivers: int) -> PlanBuilder:
    return source.local_partition(["a"], drivers=drivers)


SHAPES: dict[str, Callable[[PlanBuilder, int], PlanBuilder]] = {
    "one pipeline": lambda source, n: source.limit(25),
    "hash exchange": lambda source, n: exchange(source, n).limit(25),
    "round-robin exchange": lambda source, n: source.local_partition(drivers=n).limit(25),
    "gather": lambda source, n: source.local_partition(drivers=1).limit(25),
    "two exchanges": lambda source, n: exchange(exchange(source, n).filter(col("a") >= 0), n).limit(25),
    "union": lambda source, n: source.union_all(PlanBuilder().values(SMALL.select(["a"]))).limit(25),
    "union above exchanges": lambda source, n: (
        exchange(source, n).union_all(exchange(PlanBuilder().values(SMALL.select(["a"])), n)).limit(25)
    ),
    "inner join": lambda source, n: exchange(source, n).hash_join(_small(), ["a"], suffix="_r").limit(25),
    "left join": lambda source, n: source.hash_join(_small(), ["a"], how="left", suffix="_r").limit(25),
    "full join": lambda source, n: exchange(source, n).hash_join(_small(), ["a"], how="full", suffix="_r").limit(25),
    "right join": lambda source, n: source.hash_join(_small(), ["a"], how="right", suffix="_r").limit(25),
    "nested loop": lambda source, n: (
        exchange(source, n).nested_loop_join(_small(), col("a") <= col("a_r"), suffix="_r").limit(25)
    ),
    "limit as the build side": lambda source, n: (
        _small().hash_join(exchange(source, n).limit(25), ["a"], how="left_semi").limit(25)
    ),
    "aggregation of a limit": lambda source, n: exchange(source, n).limit(25).aggregate(["a"], {"n": ("count",)}),
    "sort of a limit": lambda source, n: exchange(source, n).limit(25).order_by(["a"]),
    "top-n of a limit": lambda source, n: exchange(source, n).limit(25).top_n(["a"], 25),
    "limit of a limit": lambda source, n: exchange(exchange(source, n).limit(40), n).limit(25),
}


def _small() -> PlanBuilder:
    return PlanBuilder().values(SMALL)


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", DRIVERS)
@pytest.mark.parametrize("values", [None, [7]], ids=["every partition gets rows", "one partition gets rows"])
@pytest.mark.parametrize("shape", SHAPES)
def test_v8_a_limit_stops_a_source_without_end(shape: str, values: list[int] | None, drivers: int) -> None:
    """The query ends, no producer runs on, no barrier waits, and each driver's operator is closed once.

    Where one partition gets all rows, the other drivers of the limit wait for input that never comes.
    """
    source = Endless(values)
    builder = SHAPES[shape](PlanBuilder().source(source), drivers)
    result = qcore.Session(threads=drivers, batch_rows=512).execute(builder.build())
    n_rows = result.to_arrow().num_rows
    if shape == "aggregation of a limit":
        assert n_rows <= 10
    elif shape == "limit as the build side":
        assert 1 <= n_rows <= len(set(source.batch.column(0).to_pylist()))
    else:
        assert n_rows == 25
    assert sorted(source.closed) == sorted(source.opened)
    # A driver that was stopped before its first turn has opened nothing.
    assert 1 <= len(set(source.opened)) == len(source.opened) <= drivers
    for pipeline in result.stats()["pipelines"]:
        assert pipeline["drivers_done"] == pipeline["drivers"]


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", DRIVERS)
@pytest.mark.parametrize("how", ["inner", "left_semi", "right", "right_semi", "right_anti"])
def test_v8_an_empty_build_side_stops_the_probe(how: str, drivers: int) -> None:
    """Join kinds that drop probe rows without a match end at once."""
    source = Endless()
    nothing = PlanBuilder().values(SMALL).filter(col("a") < 0)
    plan = exchange(PlanBuilder().source(source), drivers).hash_join(nothing, ["a"], how=how, suffix="_r").build()
    result = qcore.Session(threads=drivers).execute(plan)
    assert result.to_arrow().num_rows == 0
    assert sorted(source.closed) == sorted(source.opened)


@pytest.mark.parametrize("drivers", DRIVERS)
def test_v8_a_reader_that_leaves_stops_everything(drivers: int) -> None:
    """A result that is dropped after one batch ends the sources across an exchange."""
    source = Endless()
    result = qcore.Session(threads=drivers).execute(exchange(PlanBuilder().source(source), drivers).build())
    batches = iter(result)
    assert next(batches).num_rows > 0
    batches.close()  # type: ignore[attr-defined]
    assert sorted(source.closed) == sorted(source.opened)


@pytest.mark.parametrize("drivers", DRIVERS)
def test_v8_a_sink_that_breaks_stops_the_source(drivers: int) -> None:
    """G1's BREAK is an early finish like any other; each partition gets rows here, as BREAK speaks for one only."""

    class Enough(qcore.SinkOperator):
        def poll_push(self, cx: Any, local: Any, shared: Any, batch: pa.RecordBatch, partition: int) -> qcore.PollPush:
            return qcore.PollPush.BREAK

    source = Endless()
    plan = PlanBuilder().source(source).local_partition(drivers=drivers).sink(Enough()).build()
    qcore.Session(threads=drivers).execute(plan).to_arrow()
    assert sorted(source.closed) == sorted(source.opened)
