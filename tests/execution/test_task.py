"""Tasks: pipelines, splits, exchanges, early ends, cancellation, errors (SPEC V1-V4, V7, V8, D3, D9)."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conftest import settles
from qcore.errors import Cancelled, ExecutionError, MemoryLimitError, PlanError, QcoreError, Timeout
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.basic.result_sink import ResultSink
from qcore_ext.basic.scan import TableScan
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.flow.batch_queue import BatchQueue, QueueReader
from qcore_ext.flow.operator import Poll
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account
from qcore_ext.ground.stats import BlockReason
from qcore_testing.operators import FakeOperator, Resource, Sleeper

pytestmark = pytest.mark.timeout(120)

SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.int32())])


def rows(start: int, n: int) -> pa.Table:
    ids = np.arange(start, start + n)
    return pa.table({"id": ids, "key": (ids % 97).astype(np.int32)}, schema=SCHEMA)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler(2)
    yield made
    made.shutdown()


class Query:
    """A query of two pipelines: scan, exchange; [limit], result."""

    def __init__(
        self,
        scheduler: Scheduler | None,
        *,
        scans: int = 2,
        uppers: int = 2,
        kind: str = "hash",
        limit: LimitState | None = None,
        batch_rows: int = 1024,
        open_split: Callable[[Any], Any] = lambda split: split,
        queue_batches: int = 4,
    ) -> None:
        self.memory = Account()
        schema = Schema(SCHEMA)
        self.splits = SplitQueue("scan")
        self.exchange = [BatchQueue(scans, batches_max=queue_batches) for _ in range(uppers)]
        self.results = BatchQueue(uppers, batches_max=queue_batches)
        self.reader = QueueReader(self.results)
        lower = [
            [
                TableScan("scan", self.memory, self.splits, schema, open_split, batch_rows),
                LocalPartition("exchange", self.memory, self.exchange, kind, ["key"]),
            ]
            for _ in range(scans)
        ]
        upper = [
            [
                LocalExchange("exchange", self.memory, queue, schema),
                *([Limit("limit", self.memory, limit)] if limit else []),
                ResultSink("result", self.memory, self.results),
            ]
            for queue in self.exchange
        ]
        self.task = Task([lower, upper], self.memory, scheduler, {"scan": self.splits}, slice_ms=1)

    def add(self, *splits: Any) -> None:
        for split in splits:
            self.task.add_split("scan", split)
        self.task.no_more_splits("scan")

    def read(self, on_caller: bool = False) -> list[pa.RecordBatch]:
        if not on_caller:
            self.task.start()
        batches = []
        while True:
            if on_caller:
                self.task.run_on_caller(until=self.reader, timeout=20)
            batch = self.reader.next_batch(20)
            if batch is None:
                break
            batches.append(pa.record_batch(batch))
        self.task.wait(20)
        return batches

    def ids(self, on_caller: bool = False) -> np.ndarray:
        batches = self.read(on_caller)
        return np.sort(np.concatenate([batch["id"].to_numpy() for batch in batches] or [np.empty(0, np.int64)]))


@pytest.mark.parametrize("on_caller", [False, True], ids=["pool", "caller"])
@pytest.mark.parametrize("kind", ["hash", "round_robin"])
@pytest.mark.parametrize(("scans", "uppers"), [(1, 1), (1, 3), (3, 1), (3, 3), (2, 8)])
def test_every_row_comes_once(scheduler: Scheduler, on_caller: bool, kind: str, scans: int, uppers: int) -> None:
    """SPEC V2: the two sides of an exchange run with different numbers of drivers; D3: with no pool at all."""
    query = Query(scheduler, scans=scans, uppers=uppers, kind=kind)
    query.add(*(rows(i * 5000, 5000) for i in range(8)))
    assert (query.ids(on_caller) == np.arange(40_000)).all()
    assert query.task.state == "finished"
    assert query.task.progress() == (8, 8)


def test_splits_are_added_while_it_runs(scheduler: Scheduler) -> None:
    """SPEC V3; V7: a source that waits for a split holds no thread."""
    query = Query(scheduler)
    query.task.start()
    found: list[int] = []
    for i in range(5):
        query.task.add_split("scan", rows(i * 100, 100))
        while len(found) < (i + 1) * 100:
            found += pa.record_batch(query.reader.next_batch(10))["id"].to_pylist()
        assert query.task.state == "running"
    query.task.no_more_splits("scan")
    assert query.reader.next_batch(10) is None
    query.task.wait(10)
    assert sorted(found) == list(range(500))
    waits = query.task.stats()["pipelines"][0]["operators"][0]["blocked_times"]
    assert waits["split"] >= 1


def test_a_fast_driver_takes_more_splits(scheduler: Scheduler) -> None:
    """SPEC V3: first come, first served."""
    gate = threading.Event()

    def open_split(split: pa.Table) -> pa.Table:
        if split["id"][0].as_py() == 0:
            gate.wait(20)
        elif split["id"][0].as_py() == 900:
            gate.set()
        return split

    query = Query(scheduler, scans=2, uppers=1, kind="gather", open_split=open_split)
    query.add(*(rows(i * 100, 100) for i in range(10)))
    assert len(query.ids()) == 1000
    taken = [part["splits"] for part in query.task.stats()["pipelines"][0]["operators"][0]["drivers"]]
    assert sorted(taken) == [1, 9]


def test_splits_for_an_unknown_node_and_after_the_last_are_refused() -> None:
    """V3."""
    query = Query(None)
    with pytest.raises(PlanError, match=r"no source node 'other'.*'scan'"):
        query.task.add_split("other", rows(0, 1))
    with pytest.raises(PlanError, match="'other'"):
        query.task.no_more_splits("other")
    query.task.no_more_splits("scan")
    query.task.no_more_splits("scan")
    with pytest.raises(PlanError, match="'scan' after no_more_splits"):
        query.task.add_split("scan", rows(0, 1))


@pytest.mark.parametrize("drivers", [1, 2, 3, 8])
@pytest.mark.parametrize("on_caller", [False, True], ids=["pool", "caller"])
@pytest.mark.parametrize("count", [0, 1, 10, 1024, 5000])
def test_a_limit_above_an_exchange_stops_its_producers(
    scheduler: Scheduler, drivers: int, on_caller: bool, count: int
) -> None:
    """SPEC V8: across pipelines too, even when no further split ever comes."""
    query = Query(scheduler, scans=drivers, uppers=drivers, kind="hash", limit=LimitState(count))
    for i in range(4 * drivers):
        query.task.add_split("scan", rows(i * 5000, 5000))
    # no_more_splits is never called
    assert len(query.ids(on_caller)) == count
    assert query.task.state == "finished"
    for pipeline in query.task.stats()["pipelines"]:
        assert pipeline["drivers_done"] == pipeline["drivers"]


def test_producers_of_a_closed_exchange_do_not_run_on(scheduler: Scheduler) -> None:
    """V8: Velox keeps scanning for a closed exchange; here the scan ends within the batches already under way."""
    read = 0

    class Endless:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            def batches() -> Iterator[pa.RecordBatch]:
                nonlocal read
                while True:
                    read += 1
                    yield rows(0, 1000).to_batches()[0]

            return pa.RecordBatchReader.from_batches(SCHEMA, batches()).__arrow_c_stream__()

    query = Query(scheduler, kind="round_robin", limit=LimitState(3000))
    query.add(Endless(), Endless())
    assert len(query.read()) > 0
    after = read
    assert after < 200
    time.sleep(0.05)
    assert read == after


def test_a_reader_that_leaves_stops_the_task(scheduler: Scheduler) -> None:
    query = Query(scheduler)
    query.add(*(rows(i * 5000, 5000) for i in range(20)))
    query.task.start()
    assert query.reader.next_batch(10) is not None
    query.reader.close()
    query.task.wait(10)
    assert query.task.state == "finished"
    assert query.reader.next_batch(10) is None


def test_a_forgotten_query_ends_by_itself(scheduler: Scheduler) -> None:
    query = Query(scheduler)
    query.add(*(rows(i * 5000, 5000) for i in range(20)))
    query.task.start()
    assert query.reader.next_batch(10) is not None
    del query
    deadline = time.monotonic() + 10
    while scheduler.active and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not scheduler.active


def test_a_slow_reader_holds_the_query_back(scheduler: Scheduler) -> None:
    """V7."""
    query = Query(scheduler, batch_rows=1000)
    query.add(*(rows(i * 10_000, 10_000) for i in range(20)))
    query.task.start()
    time.sleep(0.2)
    given = query.task.stats()["pipelines"][0]["operators"][0]["output_rows"]
    assert given < 100_000
    total = 0
    while (batch := query.reader.next_batch(10)) is not None:
        total += pa.record_batch(batch).num_rows
    assert total == 200_000
    query.task.wait(10)
    assert query.task.stats()["pipelines"][1]["operators"][-1]["blocked_times"]["consumer"] > 0


@pytest.mark.parametrize("on_caller", [False, True], ids=["pool", "caller"])
def test_cancel_reaches_blocked_drivers(scheduler: Scheduler, on_caller: bool) -> None:
    """SPEC V7, D9: the scans wait for splits, the exchange for them, and all of them stop."""
    query = Query(scheduler, scans=3, uppers=3)
    if on_caller:
        with pytest.raises(Timeout):
            query.task.run_on_caller(timeout=0.05)
    else:
        query.task.start()
        with pytest.raises(Timeout, match="not over after"):
            query.task.wait(0.05)
    query.task.cancel()
    with pytest.raises(Cancelled, match="the query was cancelled"):
        query.task.wait(10)
    assert query.task.state == "cancelled"
    assert query.reader.next_batch(1) is None
    query.task.cancel()
    query.task.add_split("scan", rows(0, 1))  # late, which is not an error


def test_cancel_stops_within_a_batch(scheduler: Scheduler) -> None:
    query = Query(scheduler, batch_rows=64)
    query.add(*(rows(i * 50_000, 50_000) for i in range(40)))
    query.task.start()
    threading.Thread(target=lambda: [None for _ in iter(lambda: query.reader.next_batch(10), None)]).start()
    time.sleep(0.05)
    began = time.monotonic()
    query.task.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        query.task.wait(10)
    assert time.monotonic() - began < 10


def test_a_timeout_of_ones_own(scheduler: Scheduler) -> None:
    query = Query(scheduler)
    query.task.start()
    query.task.fail(Timeout("the query ran longer than 1 s"))
    with pytest.raises(Timeout, match="longer than 1 s"):
        query.task.wait(10)
    assert query.task.state == "failed"


class Broken:
    """A stream that fails after some batches."""

    def __init__(self, good: int) -> None:
        self.good = good
        self.closed = 0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            for i in range(self.good):
                yield rows(i * 10, 10).to_batches()[0]
            raise OSError("the disk is gone")

        return pa.RecordBatchReader.from_batches(SCHEMA, batches()).__arrow_c_stream__()

    def close(self) -> None:
        self.closed += 1

    def __repr__(self) -> str:
        return f"Broken({self.good})"


@pytest.mark.parametrize("on_caller", [False, True], ids=["pool", "caller"])
@pytest.mark.parametrize("good", [0, 1, 50])
def test_an_error_stops_every_driver_and_surfaces_once(scheduler: Scheduler, on_caller: bool, good: int) -> None:
    """SPEC D9."""
    query = Query(scheduler, scans=3, uppers=3)
    broken = Broken(good)
    query.add(rows(0, 5000), broken, rows(5000, 5000))
    with pytest.raises(
        ExecutionError, match=rf"TableScan \(node scan\) reading split Broken\({good}\).*the disk is gone"
    ) as caught:
        query.read(on_caller)
    assert caught.value.node_id == "scan"
    assert query.task.error is caught.value
    assert broken.closed == 1
    stats = query.task.stats()
    assert stats["state"] == "failed"
    assert stats["pipelines"][0]["operators"][0]["splits"] >= 1
    # The next query runs as ever.
    query = Query(scheduler)
    query.add(rows(0, 100))
    assert len(query.ids(on_caller)) == 100


def test_the_first_error_wins(scheduler: Scheduler) -> None:
    """D9."""
    chains = [
        [FakeOperator(f"source{i}", [Poll.YIELDED, ValueError(str(i))], source=True), FakeOperator("sink")]
        for i in range(8)
    ]
    task = Task([chains], scheduler=scheduler)
    task.start()
    with pytest.raises(ExecutionError) as first:
        task.wait(10)
    with pytest.raises(ExecutionError) as second:
        task.wait(10)
    assert first.value is second.value is task.error


def test_an_error_after_the_answer_does_not_matter(scheduler: Scheduler) -> None:
    """An error after the answer is complete does not make the query fail."""
    lower = FakeOperator("source", [(BlockReason.WAIT_FOR_USER,), ValueError("late")], source=True)
    task = Task([[[lower, FakeOperator("sink")]], [[FakeOperator("other", source=True), FakeOperator("result")]]])
    assert task.run_on_caller(timeout=10)
    assert task.state == "finished"


def test_an_error_releases_who_waits_for_an_exchange(scheduler: Scheduler) -> None:
    """D9: the consumer must not take the end of a failed producer for the end of the data."""
    memory, queue = Account(), BatchQueue(1)
    schema = Schema(pa.schema([]))
    log: list[tuple[str, str]] = []
    lower = [
        FakeOperator("source", [Poll.OUTPUT, Poll.YIELDED, ValueError("broken")], source=True),
        LocalPartition("exchange", memory, [queue]),
    ]
    upper = [LocalExchange("exchange", memory, queue, schema), FakeOperator("sink", log=log)]
    task = Task([[lower], [upper]], memory, scheduler)
    task.start()
    with pytest.raises(ExecutionError, match="broken"):
        task.wait(10)
    assert ("sink", "finish") not in log
    assert log.count(("sink", "abandon")) == log.count(("sink", "close")) == 1


def test_a_task_is_started_once(scheduler: Scheduler) -> None:
    task = Task([[[FakeOperator("source", source=True), FakeOperator("sink")]]], scheduler=scheduler)
    with pytest.raises(QcoreError, match="not started"):
        task.wait()
    task.start()
    task.wait(10)
    with pytest.raises(QcoreError, match="started before"):
        task.start()


def test_stats_while_it_runs_and_after(scheduler: Scheduler) -> None:
    """SPEC V14."""
    resource: Resource = Resource()
    stopped: list[bool] = []
    task = Task([[[Sleeper(resource, 200), FakeOperator("sink")] for _ in range(3)]], scheduler=scheduler)
    task.start()
    running = task.stats()
    assert running["state"] == "running"
    waker = threading.Thread(target=resource.fire_until, args=(stopped,))
    waker.start()
    task.wait(20)
    stopped.append(True)
    waker.join()
    stats = task.stats()
    assert stats["state"] == "finished"
    assert stats["wall_nanos"] > 0
    pipeline = stats["pipelines"][0]
    assert (pipeline["drivers"], pipeline["drivers_done"]) == (3, 3)
    source = pipeline["operators"][0]
    assert (source["name"], source["node_id"], len(source["drivers"])) == ("Sleeper", "sleeper", 3)
    assert source["blocked_times"]["user"] == 3 * 199
    assert source["blocked_wall_nanos"]["user"] > 0
    assert stats["wall_nanos"] == task.stats()["wall_nanos"]


def test_a_task_on_the_caller_left_half_done_is_released() -> None:
    query = Query(None, scans=3, uppers=3)
    query.add(*(rows(i * 5000, 5000) for i in range(20)))
    assert not query.task.run_on_caller(until=query.reader, timeout=10)
    assert query.reader.next_batch(1) is not None


def test_many_tasks_at_once(scheduler: Scheduler) -> None:
    queries = [Query(scheduler, limit=LimitState(2000) if i % 3 == 0 else None) for i in range(12)]
    for query in queries:
        query.add(*(rows(i * 1000, 1000) for i in range(6)))
        query.task.start()
    sizes = [0] * len(queries)
    for i, query in enumerate(queries):
        while (batch := query.reader.next_batch(20)) is not None:
            sizes[i] += pa.record_batch(batch).num_rows
        query.task.wait(20)
    assert sizes == [2000 if i % 3 == 0 else 6000 for i in range(12)]


NEVER_STARTED = """
import gc
import pyarrow as pa
from qcore import PlanBuilder, col
from qcore.config import Settings
from qcore.lowering.lowered import Run
from qcore.lowering.pipelines import Lowering
from qcore_ext.execution.task import Task
from qcore_ext.ground.memory import live_counts

class Cycle:
    pass

table = pa.table({"a": [1, 2, 3]})
one, two = PlanBuilder().values(table), PlanBuilder().values(table).project({"k": col("a")})
plan = one.local_partition(["a"]).hash_join(two, ["a"], ["k"]).aggregate(["a"], {"n": ("count",)}).order_by(["n"])
gc.disable()
for _ in range(20):
    lowered = Lowering(3).finish(plan.build())
    run = Run(lowered, Settings.make(3), lambda scan, split: split)
    cycle = Cycle()
    cycle.task = Task([run.chains(pipeline) for pipeline in lowered.pipelines], run.memory)
    cycle.operators = [driver.operators for pipeline in cycle.task.pipelines for driver in pipeline.drivers]
    cycle.itself = cycle
    del cycle, lowered, run
    gc.collect()
del one, two, plan
gc.collect()
assert not any(n for name, n in live_counts().items() if name != "idle_bytes"), live_counts()
print("nothing left")
"""


def test_d8_a_task_never_started_in_a_cycle_is_closed(tmp_path: Path) -> None:
    """D8: the garbage collector finds the task and its operators in a cycle, and takes nothing apart before its end."""
    script = tmp_path / "never_started.py"
    script.write_text(NEVER_STARTED)
    ran = subprocess.run([sys.executable, "-X", "dev", str(script)], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, "nothing left\n"), ran.stderr


def test_d9_waiting_for_a_task_may_fail(scheduler: Scheduler) -> None:
    """D9: if a wait fails for lack of memory, the task runs on, and can be waited for again or stopped."""
    query = Query(scheduler, scans=1, uppers=1)
    query.task.start()

    def at_work() -> bool:
        source, exchange = (p["operators"][0]["blocked_times"] for p in query.task.stats()["pipelines"])
        return not (source.get("split") and exchange.get("producer"))

    assert settles(at_work)
    with Faults("wait", 1), pytest.raises(MemoryLimitError, match="injected fault: wait"):
        query.task.settle(30)
    query.task.cancel()
    assert query.task.settle(30)
    assert query.task.state == "cancelled"
    assert query.reader.next_batch(30) is None
