"""Counters of real queries: exact rows and bytes, and the time of operators written in Python (SPEC V14)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import IterOutcome, PlanBuilder, PollPull, PollPush, col

pytestmark = pytest.mark.timeout(120)

N_ROWS = 1000
TABLE = pa.table(
    {
        "a": pa.array(range(N_ROWS), pa.int64()),
        "b": pa.array([i % 10 for i in range(N_ROWS)], pa.int32()),
        "s": [f"text {i:07}" for i in range(N_ROWS)],
    }
)
# int64, int32, and twelve bytes of text: with an offset, or within a view of the engine's, 16.
ROW_BYTES = 8 + 4 + 16
BURN_SECONDS = 0.04


def burn() -> None:
    until = time.thread_time() + BURN_SECONDS
    while time.thread_time() < until:
        pass


def operators_of(stats: dict[str, Any]) -> list[dict[str, Any]]:
    return [operator for pipeline in stats["pipelines"] for operator in pipeline["operators"]]


def find_op(stats: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [operator for operator in operators_of(stats) if operator["name"] == name]
    return found


@pytest.mark.parametrize("drivers", [1, 2, 3])
def test_v14_rows_and_bytes_are_exact(drivers: int) -> None:
    """V14: of every operator, through a filter, an exchange and an aggregation."""
    plan = (
        PlanBuilder()
        .values(TABLE)
        .filter(col("a") < 300)
        .local_partition(["b"], drivers=drivers)
        .order_by(["a"])
        .limit(7)
        .build()
    )
    task = qcore.Task(plan, drivers=drivers, batch_rows=100)
    assert sum(batch.num_rows for batch in task.batches()) == 7
    stats = task.stats()
    rows = {
        "TableScan": (0, N_ROWS),
        "Filter": (N_ROWS, 300),
        "LocalPartition": (300, 0),
        "LocalExchange": (0, 300),
        "OrderBy": (300, None),
        "Limit": (None, 7),
        "ResultSink": (7, 0),
    }
    for name, (given, taken) in rows.items():
        operator = find_op(stats, name)
        for side, n_rows in (("input", given), ("output", taken)):
            if n_rows is not None:
                assert (operator[f"{side}_rows"], operator[f"{side}_bytes"]) == (n_rows, n_rows * ROW_BYTES), (
                    name,
                    side,
                )
            assert (operator[f"{side}_batches"] > 0) == (operator[f"{side}_rows"] > 0), (name, side)
    for pipeline in stats["pipelines"]:
        for above, below in zip(pipeline["operators"], pipeline["operators"][1:], strict=False):
            assert above["output_rows"] == below["input_rows"], (above["name"], below["name"])
            assert above["output_bytes"] == below["input_bytes"]
    assert find_op(stats, "OrderBy")["peak_bytes"] >= 300 * ROW_BYTES
    assert stats["reserved_bytes"] == 0 and stats["peak_bytes"] >= find_op(stats, "OrderBy")["peak_bytes"] / drivers


class Pushed(qcore.Operator):
    """An operator that returns its input."""

    held: pa.RecordBatch | None = None
    waits: Future[None] | None = None

    def needs_input(self) -> bool:
        return self.held is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held = batch

    def get_output(self) -> pa.RecordBatch | None:
        given, self.held = self.held, None
        return given


def burning(base: type, method: str) -> type:
    """A class whose `method` uses processor time once, in whichever instance is first."""
    left = [1]
    plain = getattr(base, method)

    def slow(self: Any, *arguments: Any) -> Any:
        if left:
            left.pop()
            burn()
        return plain(self, *arguments)

    return type("Slow", (base,), {method: slow})


class Stateless(qcore.StatelessOperator):
    def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


class Iterator(qcore.BatchIterator):
    def next(self) -> IterOutcome:
        outcome: IterOutcome = self.child.next()
        self.batch = self.child.batch
        return outcome


class Source(qcore.SourceOperator):
    partitions = 1

    def init_local_state(self, cx: Any, shared: Any) -> list[pa.RecordBatch]:
        return TABLE.to_batches(max_chunksize=100)[::-1]

    def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> PollPull:
        return PollPull.batch(local.pop()) if local else PollPull.EXHAUSTED


class Sink(qcore.SinkOperator):
    def poll_push(self, cx: Any, local: Any, shared: Any, batch: pa.RecordBatch, partition: int) -> PollPush:
        return PollPush.PUSHED


class Waiting(Pushed):
    """An operator that is blocked once for a moment."""

    asked = False

    def is_blocked(self) -> qcore.Blocked | None:
        if self.asked:
            return None
        self.asked = True
        future: Future[None] = Future()
        threading.Timer(0.01, future.set_result, [None]).start()
        return qcore.Blocked("user", future)


def values() -> PlanBuilder:
    return PlanBuilder().values(TABLE)


SLOW: dict[str, tuple[Callable[[], PlanBuilder], str]] = {
    "add_input": (lambda: values().operator(burning(Pushed, "add_input")), "add_input"),
    "bind": (lambda: values().operator(burning(Pushed, "bind")), "add_input"),
    "get_output": (lambda: values().operator(burning(Pushed, "get_output")), "get_output"),
    "needs_input": (lambda: values().operator(burning(Pushed, "needs_input")), "get_output"),
    "finish": (lambda: values().operator(burning(Pushed, "finish")), "finish"),
    "close": (lambda: values().operator(burning(Pushed, "close")), "finish"),
    "is_blocked, and it is": (lambda: values().operator(burning(Waiting, "is_blocked")), "is_blocked"),
    "is_blocked, and it is not": (lambda: values().operator(burning(Pushed, "is_blocked")), "get_output"),
    "execute": (lambda: values().operator(burning(Stateless, "execute")()), "add_input"),
    "next": (lambda: values().operator(burning(Iterator, "next")), "get_output"),
    "poll_pull": (
        lambda: PlanBuilder().source(burning(Source, "poll_pull")(), schema=TABLE.schema),
        "get_output",
    ),
    "init_local_state": (
        lambda: PlanBuilder().source(burning(Source, "init_local_state")(), schema=TABLE.schema),
        "get_output",
    ),
    "poll_push": (lambda: values().sink(burning(Sink, "poll_push")()), "add_input"),
    "finish of a sink": (lambda: values().sink(burning(Sink, "finish")()), "finish"),
}


@pytest.mark.parametrize("call", SLOW)
def test_v14_the_time_of_a_slow_call_in_python_is_its_operators(call: str) -> None:
    """V14, H3: in all three protocols; by processor time, which a busy machine does not stretch."""
    build, timing = SLOW[call]
    plan = build()
    if "Sink" not in type(plan.build()).__name__:
        plan = plan.filter(col("a") >= 0)
    task = qcore.Task(plan.build(), drivers=2, batch_rows=100)
    list(task.batches())
    slow = {
        (operator["name"], name): operator[name]["cpu_nanos"]
        for operator in operators_of(task.stats())
        for name in ("add_input", "get_output", "finish", "is_blocked")
        if operator[name]["cpu_nanos"] > BURN_SECONDS * 0.5e9
    }
    assert list(slow) == [("Slow", timing)]
    assert slow["Slow", timing] >= BURN_SECONDS * 0.95e9


def test_v14_figures_grow_while_it_runs() -> None:
    """V14: counters that another thread reads never fall, and are exact at the end."""
    going = threading.Event()

    class Paced(Source):
        def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> PollPull:
            if len(local) == 5 and not going.is_set():
                threading.Timer(0.001, cx.waker().wake).start()
                return PollPull.PENDING
            return super().poll_pull(cx, local, shared, partition)

    plan = PlanBuilder().source(Paced(), schema=TABLE.schema).filter(col("a") >= 0).aggregate([], {"n": ("count",)})
    task = qcore.Task(plan.build(), drivers=2)
    task.start()
    seen = 0
    while seen < 500:
        stats = task.stats()
        assert stats["state"] == "running"
        rows = find_op(stats, "Filter")["input_rows"]
        assert seen <= rows <= 500 and rows % 100 == 0
        seen = rows
    while not (waits := find_op(task.stats(), "Paced")["blocked_wall_nanos"].get("user", 0)):
        time.sleep(0.001)
    going.set()
    assert [batch.to_pydict() for batch in task.batches()] == [{"n": [N_ROWS]}]
    stats = task.stats()
    assert stats["state"] == "finished"
    assert find_op(stats, "Filter")["input_rows"] == N_ROWS
    assert find_op(stats, "Paced")["blocked_wall_nanos"]["user"] >= waits


def test_v14_waits_never_fall() -> None:
    """V14: a wait that ends while another thread reads is not counted beyond its end, nor twice."""
    over = threading.Event()

    class Waiting(Source):
        def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> PollPull:
            if not over.is_set():
                threading.Timer(0.001, cx.waker().wake).start()
                return PollPull.PENDING
            return super().poll_pull(cx, local, shared, partition)

    task = qcore.Task(PlanBuilder().source(Waiting(), schema=TABLE.schema).build(), drivers=4)
    task.start()
    pauses = random.Random(1)
    seen = dict.fromkeys(("blocked_wall_nanos", "blocked_times"), 0)
    while seen["blocked_times"] < 500:
        found = find_op(task.stats(), "Waiting")
        for key, value in seen.items():
            seen[key] = found[key].get("user", 0)
            assert seen[key] >= value
        time.sleep(pauses.random() / 1000)
    over.set()
    assert sum(batch.num_rows for batch in task.batches()) == N_ROWS
    found = find_op(task.stats(), "Waiting")
    assert all(found[key]["user"] >= value for key, value in seen.items())


@pytest.mark.parametrize("end", ["failure", "cancel", "early finish"])
def test_v14_figures_stay_after_the_end(end: str) -> None:
    """V14, V8, D9: counters, also those of each driver, stay after any end of the query."""
    stop_at = threading.Event()

    class Failing(Stateless):
        def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
            if batch.column(0)[0].as_py() == 300:
                if end == "failure":
                    raise ValueError("on purpose")
                stop_at.set()
            return batch

    never: Future[None] = Future()

    class Stopping(Pushed):
        seen = 0

        def add_input(self, batch: pa.RecordBatch) -> None:
            super().add_input(batch)
            self.seen += batch.num_rows

        def is_blocked(self) -> qcore.Blocked | None:
            return qcore.Blocked("user", never) if end == "cancel" and self.seen >= 400 and self.held is None else None

    source = PlanBuilder().source(Source(), schema=TABLE.schema)
    builder = source.operator(Failing()).operator(Stopping)
    task = qcore.Task((builder.limit(350) if end == "early finish" else builder).build(), drivers=2)
    task.start()
    if end == "cancel":
        assert stop_at.wait(20)
        while not find_op(task.stats(), "Stopping")["blocked_times"]:
            time.sleep(0.001)
        task.cancel()
    expected = {"failure": qcore.ExecutionError, "cancel": qcore.Cancelled}.get(end)
    if expected is None:
        assert sum(batch.num_rows for batch in task.batches()) == 350
    else:
        with pytest.raises(expected):
            list(task.batches())
    stats = task.stats()
    assert stats["state"] == {"failure": "failed", "cancel": "cancelled", "early finish": "finished"}[end]
    until = 300 if end == "failure" else 400
    assert find_op(stats, "Source")["output_rows"] == 400
    assert find_op(stats, "Failing")["output_rows"] == find_op(stats, "Stopping")["input_rows"] == until
    assert find_op(stats, "Stopping")["drivers"][0]["input_batches"] == until // 100
    assert stats["reserved_bytes"] == 0
    assert task.stats() == stats
    never.set_result(None)
