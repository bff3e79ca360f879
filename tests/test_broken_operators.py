"""Operators written in Python that break their protocol, and the errors that result (SPEC D8, D9, H3).

Faults of pushed operators between others are in test_user_operators.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import Blocked, IterOutcome, PlanBuilder, PollPull, PollPush

pytestmark = pytest.mark.timeout(120)

TABLE = pa.table({"a": pa.array(range(3000), pa.int64())})
GOOD = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
OTHER = pa.record_batch({"b": ["x"]})
TYPE_CHANGED = pa.record_batch({"a": pa.array([1], pa.int32())})


def make_broken(base: type, **methods: Any) -> Any:
    return type("Broken", (base,), methods)


def source(**methods: Any) -> Callable[[], PlanBuilder]:
    """A polled source that returns GOOD once. The given methods replace its own."""
    given: dict[str, Any] = {"init_local_state": lambda self, cx, shared: [GOOD], "poll_pull": one_batch, **methods}
    return lambda: PlanBuilder().source(make_broken(qcore.SourceOperator, **given)(), schema=GOOD.schema, id="culprit")


def one_batch(self: Any, cx: Any, local: list[Any], shared: Any, partition: int) -> PollPull:
    return PollPull.batch(local.pop()) if local else PollPull.EXHAUSTED


def sink(**methods: Any) -> Callable[[], PlanBuilder]:
    given: dict[str, Any] = {"poll_push": lambda *_: PollPush.PUSHED, **methods}
    return lambda: values().sink(make_broken(qcore.SinkOperator, **given)(), id="culprit")


def stateless(**methods: Any) -> Callable[[], PlanBuilder]:
    given: dict[str, Any] = {"execute": lambda self, cx, batch: batch, **methods}
    return lambda: values().operator(make_broken(qcore.StatelessOperator, **given)(), id="culprit")


def iterator(**methods: Any) -> Callable[[], PlanBuilder]:
    given: dict[str, Any] = {"next": passed_on, **methods}
    return lambda: values().operator(make_broken(qcore.BatchIterator, **given), id="culprit")


def passed_on(self: Any) -> IterOutcome:
    outcome: IterOutcome = self.child.next()
    self.batch = self.child.batch
    return outcome


def iterator_source(**methods: Any) -> Callable[[], PlanBuilder]:
    given: dict[str, Any] = {"left": 1, "next": counted_down, **methods}
    return lambda: PlanBuilder().source(make_broken(qcore.BatchIterator, **given), schema=GOOD.schema, id="culprit")


def counted_down(self: Any) -> IterOutcome:
    self.left -= 1
    self.batch = GOOD
    return IterOutcome.OK if self.left >= 0 else IterOutcome.NONE


def pushed_source(**methods: Any) -> Callable[[], PlanBuilder]:
    given: dict[str, Any] = {"is_finishing": lambda self: True, **methods}
    return lambda: PlanBuilder().source(make_broken(qcore.Operator, **given), schema=GOOD.schema, id="culprit")


def pushed_sink(**methods: Any) -> Callable[[], PlanBuilder]:
    given: dict[str, Any] = {"add_input": lambda self, batch: None, **methods}
    return lambda: values().sink(make_broken(qcore.Operator, **given), id="culprit")


def values() -> PlanBuilder:
    return PlanBuilder().values(TABLE)


def gives(answer: Any) -> Callable[..., Any]:
    return lambda *arguments: answer


def fails(*arguments: Any) -> Any:
    raise ZeroDivisionError("on purpose")


def leaving(batch: Any, outcome: IterOutcome = IterOutcome.OK) -> Callable[[Any], IterOutcome]:
    """A next() that sets `batch`."""

    def next(self: Any) -> IterOutcome:
        self.batch = batch
        return outcome

    return next


NOT_DECLARED = r"column 'a', declared as int64, is missing; it has 'b'"
OTHER_SCHEMA = "another schema than output_schema"
ON_PURPOSE = "ZeroDivisionError: on purpose"
NEITHER = "stuck: it returns no output, and is neither blocked nor finishing"
FAULTS: dict[str, tuple[Callable[[], PlanBuilder], str]] = {
    "polled source: None": (source(poll_pull=gives(None)), r"poll_pull\(\) returned None instead"),
    "polled source: a batch, bare": (source(poll_pull=gives(GOOD)), r"poll_pull\(\) returned a RecordBatch instead"),
    "polled source: a batch of None": (source(poll_pull=gives(PollPull.batch(None))), r"PollPull\.batch\(None\)"),  # type: ignore[arg-type]
    "polled source: a batch of another type": (
        source(poll_pull=gives(PollPull.batch(17))),  # type: ignore[arg-type]
        r"returned a int, not a RecordBatch",
    ),
    "polled source: a table": (source(poll_pull=gives(PollPull.batch(TABLE))), "returned a Table, not a"),
    "polled source: other columns": (source(poll_pull=gives(PollPull.batch(OTHER))), NOT_DECLARED),
    "polled source: another type": (
        source(poll_pull=gives(PollPull.batch(TYPE_CHANGED))),
        "column 'a' is int32, declared as int64",
    ),
    "polled source: raises": (source(poll_pull=fails), ON_PURPOSE),
    "polled source: raises in init_global_state": (source(init_global_state=fails), ON_PURPOSE),
    "polled source: raises in init_local_state": (source(init_local_state=fails), ON_PURPOSE),
    "polled source: raises in close": (source(close=fails), r"failed in close\(\): " + ON_PURPOSE),
    "polled sink: None": (sink(poll_push=gives(None)), r"poll_push\(\) returned None instead"),
    "polled sink: True": (sink(poll_push=gives(True)), r"poll_push\(\) returned True instead"),
    "polled sink: another batch back": (sink(poll_push=gives(PollPush.pending(GOOD))), "another batch than the one"),
    "polled sink: raises": (sink(poll_push=fails), ON_PURPOSE),
    "polled sink: raises in bind": (sink(bind=fails), ON_PURPOSE),
    "polled sink: raises in finish": (sink(finish=fails), ON_PURPOSE),
    "polled sink: finish gives a batch": (sink(finish=gives(GOOD)), r"finish\(\) returned a RecordBatch instead"),
    "polled sink: finish waits for no future": (sink(finish=gives(Blocked("user", 3))), "has add_done_callback"),
    "polled sink: raises in close": (sink(close=fails), r"failed in close\(\): " + ON_PURPOSE),
    "stateless: another type": (stateless(execute=gives(17)), "returned a int, not a"),
    "stateless: other columns": (stateless(execute=gives(OTHER)), OTHER_SCHEMA),
    "stateless: raises": (stateless(execute=fails), ON_PURPOSE),
    "iterator: None": (iterator(next=gives(None)), r"next\(\) returned None instead of a qcore\.IterOutcome"),
    "iterator: a batch": (iterator(next=gives(GOOD)), r"next\(\) returned a RecordBatch instead of a qcore"),
    "iterator: OK without a batch": (iterator(next=leaving(None)), r"next\(\) returned OK, but `batch` is None"),
    "iterator: a batch of another type": (iterator(next=leaving([1])), "returned a list, not a"),
    "iterator: other columns": (iterator(next=leaving(OTHER)), OTHER_SCHEMA),
    "iterator: NOT_YET for ever": (iterator(next=gives(IterOutcome.NOT_YET)), NEITHER),
    "iterator: STOP without an error": (iterator(next=gives(IterOutcome.STOP)), "returned STOP, but `error` is None"),
    "iterator: raises": (iterator(next=fails), ON_PURPOSE),
    "iterator: raises in close": (iterator(close=fails), r"failed in close\(\): " + ON_PURPOSE),
    "iterator source: NOT_YET for ever": (iterator_source(next=gives(IterOutcome.NOT_YET)), NEITHER),
    "iterator source: raises in close": (iterator_source(close=fails), r"failed in close\(\): " + ON_PURPOSE),
    "iterator source: blocked on nothing": (iterator_source(next=gives(Blocked("user", None))), "add_done_callback"),
    "pushed source: None for ever": (pushed_source(is_finishing=gives(False)), NEITHER),
    "pushed source: another type": (pushed_source(get_output=gives("x")), "returned a str, not a"),
    "pushed source: other columns": (pushed_source(get_output=gives(OTHER)), NOT_DECLARED),
    "pushed source: raises in its constructor": (pushed_source(__init__=fails), ON_PURPOSE),
    "pushed sink: raises": (pushed_sink(add_input=fails), ON_PURPOSE),
    "pushed sink: gives a batch": (pushed_sink(get_output=gives(GOOD)), "it is the sink"),
    "pushed sink: raises in abandon": (
        pushed_sink(abandon=fails, add_input=gives("x")),
        r"add_input\(\) returned a str",
    ),
}  # fmt: skip


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_names_class_and_node(fault: str, drivers: int) -> None:
    """D9, H3: one ExecutionError with the class and the node. The task leaves nothing, and the next query runs."""
    build, message = FAULTS[fault]
    # An operator without faults above, which the error must pass.
    builder = build()
    if "sink" not in fault:
        builder = builder.project({"a": qcore.col("a")}) if "columns" not in fault else builder
    task = qcore.Task(builder.build(), drivers=drivers)
    with pytest.raises(qcore.ExecutionError, match=rf"Broken \(node culprit\)[\s\S]*{message}") as raised:
        list(task.batches(timeout=50))
    assert (raised.value.operator, raised.value.node_id) == ("Broken", "culprit")
    assert task.state == "failed"
    assert str(raised.value).count("node culprit") == 1
    assert sum(batch.num_rows for batch in qcore.Task(values().build(), drivers=drivers).batches()) == TABLE.num_rows


NEVER = {
    "pushed": lambda never: values().operator(
        make_broken(qcore.Operator, is_blocked=lambda self: Blocked("user", never))
    ),
    "pushed sink": lambda never: values().sink(
        make_broken(qcore.Operator, is_blocked=lambda self: Blocked("user", never))
    ),
    "polled source": lambda never: source(poll_pull=gives(PollPull.PENDING))(),
    "polled sink": lambda never: sink(poll_push=lambda self, cx, local, shared, batch, n: PollPush.pending(batch))(),
    "polled sink at its end": lambda never: sink(finish=gives(Blocked("peers", never)))(),
    "iterator": lambda never: iterator(next=gives(Blocked("user", never)))(),
    "iterator source": lambda never: iterator_source(next=gives(Blocked("user", never)))(),
}


def test_other_queries_live_on() -> None:
    """D9: a query that runs at the same time on the same threads returns all its rows."""
    go_on = threading.Event()
    given: list[int] = []

    class Endless(qcore.SourceOperator):
        partitions = 2

        def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> PollPull:
            if go_on.is_set():
                return PollPull.EXHAUSTED
            threading.Timer(0.005, cx.waker().wake).start()
            if partition:
                return PollPull.PENDING
            given.append(GOOD.num_rows)
            return PollPull.batch(GOOD)

    plan = PlanBuilder().source(Endless(), schema=GOOD.schema).aggregate([], {"n": ("count",)}).build()
    living = qcore.Task(plan, drivers=2)
    living.start()
    for build, message in FAULTS.values():
        with pytest.raises(qcore.ExecutionError, match=message):
            list(qcore.Task(build().build(), drivers=2).batches(timeout=50))
    assert living.state == "running"
    go_on.set()
    assert [row["n"] for batch in living.batches() for row in batch.to_pylist()] == [sum(given)]


# In a plan with this sink nothing else can fail.
ENDS = [(kind, how) for kind in NEVER for how in ("cancel", "timeout", "another fails")[: 2 if "sink" in kind else 3]]


@pytest.mark.parametrize(("kind", "how"), ENDS)
def test_a_query_ends_though_its_future_never_comes(kind: str, how: str) -> None:
    """V7, D8, D9: the query is cancelled, times out or fails during a wait. A later wake-up has no effect."""
    never: Future[None] = Future()
    if how == "another fails":
        waiting = NEVER[kind](never).project({"a": qcore.col("a")})
        failing = values().operator(make_broken(qcore.StatelessOperator, execute=fails)())
        task = qcore.Task(waiting.union_all(failing).build(), drivers=2)
        with pytest.raises(qcore.ExecutionError, match=ON_PURPOSE):
            list(task.batches())
    else:
        task = qcore.Task(NEVER[kind](never).build(), drivers=2)
        if how == "cancel":
            threading.Timer(0.02, task.cancel).start()
        with pytest.raises(qcore.Cancelled if how == "cancel" else qcore.Timeout):
            list(task.batches(timeout=None if how == "cancel" else 0.03))
    assert task.state == ("failed" if how == "another fails" else "cancelled")
    never.set_result(None)
