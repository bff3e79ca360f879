"""Tasks: splits given while running, batches out, cancel, timeout, stats (V3, V4, V10, V14, D2, D3, D5, D7, D8)."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from qcore import FileSplit, IterOutcome, PlanBuilder, Task, col
from qcore.connectors.arrow import ArrowSplit, ArrowTable
from sweeps import every

ROWS = 50_000


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    """A Parquet file of 50 row groups: a counts up, b = a % 7."""
    path = str(tmp_path / "numbers.parquet")
    table = pa.table({"a": pa.array(range(ROWS), pa.int64()), "b": pa.array([i % 7 for i in range(ROWS)], pa.int32())})
    pq.write_table(table, path, row_group_size=1000)
    return path


def sum_plan(path: str) -> Any:
    scan = PlanBuilder().scan("numbers", columns=["a", "b"], schema=pq.read_schema(path), id="numbers")
    return scan.filter(col("b") < 3).aggregate(keys=["b"], aggs={"s": ("sum", "a"), "n": ("count",)}).build()


def expected() -> dict[int, tuple[int, int]]:
    groups: dict[int, tuple[int, int]] = {}
    for a in range(ROWS):
        if a % 7 < 3:
            s, n = groups.get(a % 7, (0, 0))
            groups[a % 7] = (s + a, n + 1)
    return groups


def as_groups(batches: list[pa.RecordBatch]) -> dict[int, tuple[int, int]]:
    return {row["b"]: (row["s"], row["n"]) for batch in batches for row in batch.to_pylist()}


def sections(path: str, count: int) -> list[FileSplit]:
    size = os.path.getsize(path)
    step = -(-size // count)
    return [FileSplit(path, start, min(step, size - start)) for start in range(0, size, step)]


@pytest.mark.parametrize("drivers", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 13])
def test_v3_splits_added_while_it_runs(numbers: str, drivers: int, count: int) -> None:
    task = Task(sum_plan(numbers), drivers=drivers)
    task.start()

    def feed() -> None:
        for split in sections(numbers, count):
            time.sleep(0.002)
            task.add_split("numbers", split)
        task.no_more_splits("numbers")

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert as_groups(list(task.batches())) == expected()
    feeder.join()
    assert task.progress() == (count, count)


def test_v3_splits_may_all_come_before_the_start(numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=2)
    for split in sections(numbers, 5):
        task.add_split("numbers", split)
    task.no_more_splits("numbers")
    assert as_groups(list(task.batches())) == expected()


def test_d3_run_on_the_caller(numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=3)
    task.add_split("numbers", FileSplit(numbers))
    task.no_more_splits("numbers")
    threads = threading.active_count()
    assert as_groups(list(task.run_on_caller())) == expected()
    assert threading.active_count() == threads


def test_a_split_for_an_unknown_node_names_the_known_ones(numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=1)
    with pytest.raises(qcore.PlanError, match=r"'elsewhere'.*'numbers'"):
        task.add_split("elsewhere", FileSplit(numbers))
    task.cancel()


def test_a_table_that_lists_its_splits_takes_no_others() -> None:
    """Rows in two splits would be read twice."""
    table = pa.table({"k": range(10)})
    plan = PlanBuilder({"t": ArrowTable(table)}).scan("t").build()
    task = Task(plan, drivers=1)
    with pytest.raises(qcore.PlanError, match="'t' reads a table that lists its own splits"):
        task.add_split("t", ArrowSplit(0, 5))
    assert sum(batch.num_rows for batch in task.batches()) == 10
    with qcore.polled(plan) as query, pytest.raises(qcore.PlanError, match="'t' reads a table that lists its own"):
        query.add_split("t", ArrowSplit(0, 5))


def test_a_split_after_no_more_splits_is_refused(numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=1)
    task.no_more_splits("numbers")
    with pytest.raises(qcore.PlanError, match="numbers"):
        task.add_split("numbers", FileSplit(numbers))
    assert as_groups(list(task.batches())) == {}


def test_cancel_while_waiting_for_splits(numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=2)
    task.start()
    threading.Timer(0.05, task.cancel).start()
    with pytest.raises(qcore.Cancelled):
        list(task.batches())
    assert task.state == "cancelled"


def test_timeout_stops_the_query(numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=2)
    with pytest.raises(qcore.Timeout, match=r"0\.1 s"):
        list(task.batches(timeout=0.1))
    assert task.state == "cancelled"


def test_leaving_the_loop_early_stops_the_task(numbers: str) -> None:
    plan = PlanBuilder().scan("numbers", columns=["a"], schema=pq.read_schema(numbers), id="numbers").build()
    task = Task(plan, drivers=2, batch_rows=100)
    for split in sections(numbers, 4):
        task.add_split("numbers", split)
    for _ in task.batches():
        break
    assert task.state in ("cancelled", "finished")


def test_d2_outcomes(numbers: str) -> None:
    """D5: OK_NEW_SCHEMA first; D7: NONE stays NONE; D8: close may come twice."""
    plan = PlanBuilder().scan("numbers", columns=["a"], schema=pq.read_schema(numbers), id="numbers").build()
    task = Task(plan, drivers=1, batch_rows=1000)
    task.add_split("numbers", FileSplit(numbers))
    task.no_more_splits("numbers")
    it = task.iterator()
    assert it.schema.names == ["a"]
    assert it.next() is IterOutcome.OK_NEW_SCHEMA
    rows = it.batch.num_rows
    while it.next() is IterOutcome.OK:
        rows += it.batch.num_rows
    assert rows == ROWS
    assert it.next() is IterOutcome.NONE
    assert it.next() is IterOutcome.NONE
    it.close()
    it.close()


def test_d2_stop_carries_the_error(tmp_path: Path, numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=1)
    task.add_split("numbers", FileSplit(str(tmp_path / "gone.parquet")))
    it = task.iterator()
    assert it.next() is IterOutcome.STOP
    assert "gone.parquet" in str(it.error)
    assert it.next() is IterOutcome.STOP
    it.close()


def test_v14_rows_and_splits_are_counted(numbers: str) -> None:
    task = Task(sum_plan(numbers), drivers=2)
    for split in sections(numbers, 4):
        task.add_split("numbers", split)
    task.no_more_splits("numbers")
    list(task.batches())
    stats = task.stats()
    by_name = {counters["name"]: counters for counters in stats["pipelines"][0]["operators"]}
    assert by_name["TableScan"]["output_rows"] == ROWS
    assert by_name["TableScan"]["splits"] == 4
    assert by_name["Filter"]["input_rows"] == ROWS
    assert by_name["Filter"]["output_rows"] == sum(n for _, n in expected().values())
    assert by_name["Filter"]["add_input"]["wall_nanos"] > 0
    assert stats["peak_bytes"] > 0
    assert stats["reserved_bytes"] == 0


def test_v10_row_groups_are_pruned_by_statistics(numbers: str) -> None:
    result = qcore.sql("select count(*) as n from t where a >= 49500", {"t": numbers}, threads=2)
    assert result.to_arrow().to_pylist() == [{"n": 500}]
    scan = result.stats()["pipelines"][0]["operators"][0]
    assert scan["output_rows"] == 1000


def test_the_event_loop_is_not_blocked(numbers: str) -> None:
    async def collect() -> int:
        return sum([batch.num_rows async for batch in qcore.sql("select a from t", {"t": numbers}).aiter()])

    assert asyncio.run(collect()) == ROWS


def test_a_result_is_an_arrow_stream(numbers: str) -> None:
    """B3: pyarrow and other users of the protocol can read a result directly."""
    reader = pa.RecordBatchReader.from_stream(qcore.sql("select a from t where b = 1", {"t": numbers}))
    assert reader.read_all().num_rows == len(range(1, ROWS, 7))


def test_the_schema_is_known_before_running(numbers: str) -> None:
    """D4."""
    result = qcore.sql("select b, sum(a) as s, avg(a) as m from t group by b", {"t": numbers})
    assert result.schema == pa.schema([("b", pa.int32()), ("s", pa.int64()), ("m", pa.float64())])
    assert result.to_arrow().schema == result.schema


def test_reading_a_result_again_runs_it_again(numbers: str) -> None:
    result = qcore.sql("select sum(a) as s from t", {"t": numbers})
    assert result.to_arrow() == result.to_arrow()


def test_g7_explain_shows_estimates_and_actual_rows(numbers: str) -> None:
    result = qcore.sql("select b, sum(a) as s from t where b = 1 group by b", {"t": numbers})
    assert "Scan t" in result.explain()
    assert "estimated rows" in result.explain()
    analyzed = result.explain(analyze=True)
    assert f"{ROWS:,}" in analyzed
    assert "TableScan" in result.profile()


def test_batches_that_come_as_the_wait_for_them_ends_are_not_lost() -> None:
    """The task returns its last batches and ends after the reader woke and before the reader looks at its state."""
    asked = threading.Event()

    def rows() -> Any:
        asked.wait(20)
        yield pa.record_batch({"a": [1, 2, 3]})

    stream = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), rows())
    result = qcore.sql("select a from t", {"t": stream}, threads=2)
    task = result.task
    reader = task._reader
    assert reader is not None

    class Late:
        ready = False

        def next_batch(self, timeout: float) -> Any:
            if not asked.is_set():
                asked.set()
                task._engine.settle(20)
                raise qcore.Timeout("no batch came")
            return reader.next_batch(timeout)

        def close(self) -> None:
            reader.close()

    task._reader = Late()  # type: ignore[assignment]
    assert result.to_arrow().num_rows == 3


def test_d7_a_timeout_ends_a_stream_that_never_pauses() -> None:
    def endless() -> Any:
        while True:
            time.sleep(0.005)
            yield pa.record_batch({"a": [1]})

    began = time.monotonic()
    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), endless())
    result = qcore.sql("select a from t", {"t": reader}, threads=1, timeout=1)
    with pytest.raises(qcore.Timeout, match="longer than its timeout"):
        deque(itertools.takewhile(lambda _: time.monotonic() < began + 10, result), 0)


@pytest.mark.parametrize("threads", [1, 3])
def test_d3_on_the_caller_alone_a_limit_above_a_union_ends_early(threads: int) -> None:
    """The result is complete before the inputs of the union are closed."""
    text = "select * from (select a from t union all select a from t) as u limit 10"
    session = qcore.Session(threads=threads, batch_rows=1000)
    task = session.sql(text, {"t": pa.table({"a": range(8 * ROWS)})}).task
    assert sum(batch.num_rows for batch in task.run_on_caller()) == 10
    assert task.state == "finished"


LOST_QUERIES = """
import gc, sys
import pyarrow as pa, qcore

table = pa.table({"a": range(1000), "s": [f"text {i}" for i in range(1000)]})
for _ in range(5):
    result = qcore.sql("select a + 1 as b from t where a < 50 and s like 't%' order by 1", {"t": table}, threads=2)
    if sys.argv[1] == "not started":
        result.cycle = result.task, result
    elif sys.argv[1] == "run":
        result.cycle = result.to_arrow(), result
    else:
        batches = result.task.run_on_caller()
        next(batches)
        result.cycle = batches, result
        del batches
    del result
    gc.collect()
"""


@pytest.mark.parametrize("how", every(2, ["not started", "left half done on the caller", "run"]))
def test_d8_queries_that_only_the_garbage_collector_finds(how: str) -> None:
    """It takes cycles apart in no order. In a process of its own, whose freed memory is overwritten at once."""
    environment = os.environ | {"PYTHONMALLOC": "debug", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", LOST_QUERIES, how], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_top_n_past_every_row_gives_all_rows() -> None:
    numbers = PlanBuilder().values(pa.table({"a": list(range(100))}))
    plan = numbers.top_n(["a desc"], 1 << 62, offset=90).build()
    rows = [row["a"] for batch in Task(plan, drivers=2).batches() for row in batch.to_pylist()]
    assert rows == list(range(9, -1, -1))


LONG_CALLS = {
    "sort": "select a, s from t order by s, a",
    "merge of runs": "select s from t order by a desc",
    "join build": "select count(*) from t join t as u on t.s = u.s",
    "join build, dense keys": "select count(*) from t join t as u on t.a = u.a where u.s > ''",
    "window": "select sum(a) over (partition by b order by a rows between 7 preceding and 2 following) from t",
}


@pytest.mark.parametrize("call", LONG_CALLS)
def test_long_calls_look_whether_the_query_is_stopped(call: str) -> None:
    """A cancelled query does not wait for the end of a sort or a build (V7, D9)."""
    n = 200_000
    table = pa.table({"a": range(n), "b": [i % 3 for i in range(n)], "s": [f"text {i * 7919 % n}" for i in range(n)]})
    task = qcore.Session(threads=2).sql(LONG_CALLS[call], {"t": table}).task
    # As Task.cancel(), but without waking drivers: only a call that checks by itself can notice it.
    task._engine.memory.stop()
    with pytest.raises(qcore.Cancelled, match=r"\(node .*the query was stopped"):
        list(task.batches())
