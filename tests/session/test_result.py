"""Results: read again, collected, exported, and explained (SPEC D4, D6)."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, col
from qcore.config import Settings
from qcore.session.result import Result

ROWS = pa.table({"a": range(5000), "s": [f"text {i}" for i in range(5000)]})


def result_of(rows: pa.Table = ROWS, **settings: object) -> Result:
    return Result(PlanBuilder().values(rows).build(), Settings.make(threads=2, **settings))  # type: ignore[arg-type]


def test_reading_again_runs_again() -> None:
    result = result_of()
    first = result.task
    assert result.to_arrow().equals(ROWS)
    assert result.task is first, "the task that was asked for before runs the first reading"
    assert result.to_arrow().equals(ROWS)
    assert result.task is not first
    assert pa.table(result).equals(ROWS)


def test_output_names_replace_those_of_the_plan() -> None:
    """D4: two columns may have one name in a result; the schema is known before it runs."""
    result = Result(PlanBuilder().values(ROWS).build(), Settings.make(1), ["x", "x"])
    assert result.schema.names == ["x", "x"]
    assert result.to_arrow().schema.equals(result.schema)


def test_collected_rows_are_charged() -> None:
    result = result_of()
    assert result.collect_charged("CREATE TABLE t").equals(ROWS)
    assert result.task.memory.reserved_bytes == 0
    narrow = result_of(memory_limit=50_000)
    with pytest.raises(qcore.MemoryLimitError, match=r"^CREATE TABLE t keeps its rows in memory: "):
        narrow.collect_charged("CREATE TABLE t")


def test_d6_a_wider_schema_is_an_error() -> None:
    """D6: a Result has one schema; the error names the column and both types."""
    for field, words in (
        (pa.field("a", pa.int64()), "the result's column 'a' changed from int32 to int64: a Result has one schema"),
        (pa.field("b", pa.int32()), r"the result has a new column 'b' \(int32\): a Result has one schema"),
    ):

        class Source(qcore.BatchIterator):
            names = iter([pa.field("a", pa.int32()), field])

            def output_schema(self, schema: None) -> pa.Schema:
                return pa.schema([("a", pa.int32())])

            def next(self) -> qcore.IterOutcome:
                following = next(self.names, None)
                if following is None:
                    return qcore.IterOutcome.NONE
                self.batch = pa.record_batch([pa.array([1], following.type)], [following.name])
                return qcore.IterOutcome.OK_NEW_SCHEMA

        plan = PlanBuilder().source(Source, schema=pa.schema([("a", pa.int32())]), on_schema_change="evolve")
        with pytest.raises(qcore.SchemaChangeError, match=words):
            list(Result(plan.build(), Settings.make(1)))


def test_dates_that_pandas_cannot_hold() -> None:
    pytest.importorskip("pandas")
    rows = pa.table({"good": [1], "far": pa.array([10_000_000], pa.date32())})
    with pytest.raises(qcore.ExecutionError, match=r"column 'far' \(date32\[day\]\) has values that pandas cannot"):
        result_of(rows).to_pandas()
    near = result_of(pa.table({"d": [datetime.date(2024, 2, 29)]})).to_pandas()
    assert near["d"].tolist() == [datetime.date(2024, 2, 29)]


def test_batches_in_an_event_loop() -> None:
    async def first_batch(result: Result) -> int:
        async for batch in result.aiter():
            return batch.num_rows
        return 0

    async def count(result: Result) -> int:
        return sum([batch.num_rows async for batch in result.aiter()])

    assert asyncio.run(count(result_of())) == ROWS.num_rows
    stopped = result_of(batch_rows=8)
    assert asyncio.run(first_batch(stopped)) > 0
    assert stopped.task.state in ("cancelled", "finished")


def test_explain_and_profile_name_the_operators() -> None:
    plan = PlanBuilder().values(ROWS).filter(col("a") < 10).build()
    result = Result(plan, Settings.make(1))
    header, *lines = result.explain().splitlines()
    assert header.split() == ["plan", "id", "pipelines"]
    assert [line.split()[0] for line in lines] == ["Filter", "└─"]
    header, *lines = result.explain(analyze=True).splitlines()
    assert header.split() == ["plan", "id", "rows", "ms", "blocked", "ms", "pipelines"]
    assert lines[0].split()[5] == "10"
    assert "Filter" in result.profile()


def test_cancelling_before_it_runs() -> None:
    result = result_of()
    result.cancel()
    with pytest.raises(qcore.Cancelled):
        result.to_arrow()


def test_a_reader_that_stops_early_ends_the_query() -> None:
    result = result_of(batch_rows=8)
    batches: Iterator[pa.RecordBatch] = iter(result)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert result.task.state in ("cancelled", "finished")


def test_rows_that_are_collected_are_charged() -> None:
    """V7: to_arrow() keeps the rows and is charged for them, iteration does not and is not."""
    result = qcore.sql("select i, i + 1 j from range(2_000_000) t(i)", memory_limit="16MB", threads=1)
    with pytest.raises(qcore.MemoryLimitError, match="memory limit of 16000000"):
        result.to_arrow()
    assert sum(batch.num_rows for batch in result) == 2_000_000
    small = qcore.sql("select i from range(200_000) t(i)", memory_limit="16MB", threads=1)
    assert small.to_arrow().num_rows == 200_000
