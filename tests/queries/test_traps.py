"""Queries that hung or gave wrong answers in other engines, with 1, 2, 3 and 8 drivers (V7, V8, V14, D6, D9).

A LIMIT above a LEFT JOIN and producers of a closed exchange are in test_early_finish; columns that a file lacks are in
test_schema_change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, PollPull, col

pytestmark = pytest.mark.timeout(120)
DRIVERS = [1, 2, 3, 8]
ROWS = pa.table({"a": pa.array(range(1000), pa.int64())})


class Waits(qcore.Operator):
    """A source of one batch that first waits for a future."""

    def __init__(self, make_future: Callable[[], Any]) -> None:
        self.make_future = make_future
        self.future: Any = None
        self.given = False

    def output_schema(self, schema: Any) -> pa.Schema:
        return ROWS.schema

    def is_blocked(self) -> qcore.Blocked | None:
        if self.future is None:
            self.future = self.make_future()
        return None if self.future.done() else qcore.Blocked("user", self.future)

    def get_output(self) -> pa.RecordBatch | None:
        if self.given:
            return None
        self.given = True
        return ROWS.to_batches()[0]

    def is_finishing(self) -> bool:
        return self.given


@pytest.mark.parametrize("drivers", DRIVERS)
def test_v7_a_future_completed_under_a_lock(drivers: int) -> None:
    """Who completes a future may hold a lock the operator needs: the driver never runs inside the completion."""
    lock = threading.Lock()
    futures: list[Future[None]] = []
    asked = threading.Semaphore(0)

    def make_future() -> Future[None]:
        future: Future[None] = Future()
        futures.append(future)
        asked.release()
        return future

    class NeedsTheLock(Waits):
        def get_output(self) -> pa.RecordBatch | None:
            with lock:
                return super().get_output()

    def complete_all() -> None:
        for _ in range(drivers):
            asked.acquire()
            with lock:
                futures.pop().set_result(None)

    thread = threading.Thread(target=complete_all)
    thread.start()
    plan = PlanBuilder().source(lambda: NeedsTheLock(make_future), schema=ROWS.schema, partitions=drivers).build()
    assert qcore.Session(threads=drivers).execute(plan).to_arrow().num_rows == drivers * len(ROWS)
    thread.join()


class CompletesAt(Future):  # type: ignore[type-arg]
    """A future completed at the worst moment, by another thread."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self.moment = moment
        self.asked = 0

    def complete(self) -> None:
        if not super().done():
            thread = threading.Thread(target=self.set_result, args=[None])
            thread.start()
            thread.join()

    def done(self) -> bool:
        self.asked += 1
        was = super().done()
        if self.moment == f"after look {self.asked}":
            self.complete()
        return was

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        if self.moment == "before it is registered":
            self.complete()
        super().add_done_callback(fn)
        if self.moment == "right after it was registered":
            self.complete()


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", DRIVERS)
@pytest.mark.parametrize(
    "moment",
    ["after look 1", "after look 2", "after look 3", "before it is registered", "right after it was registered"],
)
def test_v7_a_wake_up_between_look_and_registration(moment: str, drivers: int) -> None:
    """G5: whatever the moment, the driver comes back, once."""
    plan = (
        PlanBuilder()
        .source(lambda: Waits(lambda: CompletesAt(moment)), schema=ROWS.schema, partitions=drivers)
        .operator(Completer)
        .build()
    )
    assert qcore.Session(threads=drivers, timeout=20).execute(plan).to_arrow().num_rows == drivers * len(ROWS)


class Completer(qcore.StatelessOperator):
    """Passes batches on: a chain of more than one operator walks upstream to the one that waits."""

    def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", DRIVERS)
@pytest.mark.parametrize("how", ["right", "full", "left", "inner", "left_semi", "left_anti", "right_anti", "mark"])
@pytest.mark.parametrize("empty", ["build", "probe", "both"])
def test_v8_nested_loop_joins_of_nothing(empty: str, how: str, drivers: int) -> None:
    """An empty side of an outer join is no reason to lose the other's rows, or to wait for ever."""
    left = PlanBuilder().values(ROWS).local_partition(["a"], drivers=drivers)
    right = PlanBuilder().values(ROWS.rename_columns(["b"])).local_partition(["b"], drivers=drivers)
    if empty in ("probe", "both"):
        left = left.filter(col("a") < 0)
    if empty in ("build", "both"):
        right = right.filter(col("b") < 0)
    n_left = 0 if empty in ("probe", "both") else len(ROWS)
    n_right = 0 if empty in ("build", "both") else len(ROWS)
    expected = {
        "inner": 0, "left_semi": 0,
        "left": n_left, "left_anti": n_left, "mark": n_left,
        "right": n_right, "right_anti": n_right,
        "full": n_left + n_right,
    }[how]  # fmt: skip
    plan = left.nested_loop_join(right, col("a") < col("b"), how=how).build()
    assert qcore.Session(threads=drivers).execute(plan).to_arrow().num_rows == expected


@pytest.mark.parametrize("drivers", DRIVERS)
def test_d6_the_same_schema_is_decided_by_value(drivers: int) -> None:
    """Equal schemas in objects of their own are one schema: an operator is bound once."""
    bound = []

    class FreshSchemas(qcore.SourceOperator):
        partitions = drivers

        def output_schema(self, schema: None) -> pa.Schema:
            return pa.schema([pa.field("a", pa.int64())])

        def init_local_state(self, cx: Any, shared: Any) -> list[int]:
            return [20]

        def poll_pull(self, cx: Any, local: list[int], shared: Any, partition: int) -> PollPull:
            local[0] -= 1
            if local[0] < 0:
                return PollPull.EXHAUSTED
            return PollPull.batch(pa.record_batch([pa.array([1, 2])], schema=pa.schema([pa.field("a", pa.int64())])))

    class CountsBinds(qcore.Operator):
        held: pa.RecordBatch | None = None

        def bind(self, schema: pa.Schema) -> None:
            bound.append(schema)

        def needs_input(self) -> bool:
            return self.held is None

        def add_input(self, batch: pa.RecordBatch) -> None:
            self.held = batch

        def get_output(self) -> pa.RecordBatch | None:
            given, self.held = self.held, None
            return given

    plan = PlanBuilder().source(FreshSchemas()).operator(CountsBinds).build()
    assert qcore.Session(threads=drivers).execute(plan).to_arrow().num_rows == drivers * 40
    assert len(bound) == drivers


@pytest.mark.parametrize("drivers", DRIVERS)
def test_d9_figures_of_a_failed_driver_are_kept(drivers: int) -> None:
    """V14: what ran before the failure shows, the failing operator's own calls included."""

    class FailsLate(qcore.StatelessOperator):
        def __init__(self) -> None:
            self.seen = 0

        def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
            self.seen += 1
            if self.seen == 6:
                raise ValueError("the sixth is too much")
            return batch

    plan = PlanBuilder().values(ROWS).local_partition(drivers=drivers).operator(FailsLate()).build()
    result = qcore.Session(threads=drivers, batch_rows=100).execute(plan)
    with pytest.raises(qcore.ExecutionError, match=r"FailsLate.*the sixth is too much"):
        result.to_arrow()
    (operator,) = (o for p in result.stats()["pipelines"] for o in p["operators"] if o["name"] == "FailsLate")
    assert operator["add_input"]["calls"] >= 6
    assert operator["add_input"]["wall_nanos"] > 0
    assert operator["input_rows"] >= 400
    assert result.stats()["state"] == "failed"
