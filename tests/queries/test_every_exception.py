"""Every kind of exception in every method of an operator ends the query as failed, however it is read (SPEC D9, H3).

No query hangs, or returns fewer rows without an error. An exception of an operator is never mistaken for one of the
reader, such as SystemExit, which ends a program, or CancelledError, which ends a coroutine.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import Blocked, IterOutcome, PlanBuilder, PollPull, PollPush, Task

pytestmark = pytest.mark.timeout(240)

TABLE = pa.table({"a": pa.array(range(3000), pa.int64())})
GOOD = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
KINDS: tuple[type[BaseException], ...] = (
    SystemExit,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
    GeneratorExit,
    KeyboardInterrupt,
    StopIteration,
    StopAsyncIteration,
    MemoryError,
    RecursionError,
    ValueError,
)
Raise = Callable[..., Any]


def break_operator(base: type, **methods: Any) -> Any:
    return type("Broken", (base,), methods)


def values() -> PlanBuilder:
    return PlanBuilder().values(TABLE)


def passing(fails: Raise, method: str) -> PlanBuilder:
    """An operator that returns its input. One of its methods fails."""

    def get_output(self: Any) -> Any:
        given, self.held = self.held, None
        return given

    given: dict[str, Any] = {
        "held": None,
        "needs_input": lambda self: self.held is None,
        "add_input": lambda self, batch: setattr(self, "held", batch),
        "get_output": get_output,
        method: fails,
    }
    if method == "finish_called":  # set by the engine
        given["finish_called"] = property(lambda self: False, fails)
    if method == "constructor":
        given["__init__"] = fails
    return values().operator(break_operator(qcore.Operator, **given), id="culprit")


class BadFuture:
    """A user's future. One of its methods fails."""

    def __init__(self, fails: Raise, method: str) -> None:
        self.fails, self.method = fails, method

    def __getattribute__(self, name: str) -> Any:
        if name == super().__getattribute__("method"):
            return super().__getattribute__("fails")
        return super().__getattribute__(name)

    def done(self) -> bool:
        return self.method == "result"

    def add_done_callback(self, callback: Any) -> None:
        callback(self)

    def result(self) -> None:
        pass


def waiting(fails: Raise, method: str) -> PlanBuilder:
    blocked = Blocked("user", BadFuture(fails, method))
    return values().operator(break_operator(qcore.Operator, is_blocked=lambda self: blocked), id="culprit")


def make_future(fails: Raise) -> Future[None]:
    future: Future[None] = Future()
    try:
        fails()
    except BaseException as error:
        future.set_exception(error)
    return future


def sink(fails: Raise, method: str) -> PlanBuilder:
    given: dict[str, Any] = {"poll_push": lambda *_: PollPush.PUSHED, method: fails}
    return values().sink(break_operator(qcore.SinkOperator, **given)(), id="culprit")


def source(fails: Raise, method: str) -> PlanBuilder:
    def pull(self: Any, cx: Any, local: list[Any], shared: Any, partition: int) -> PollPull:
        return PollPull.batch(local.pop()) if local else PollPull.EXHAUSTED

    given: dict[str, Any] = {"init_local_state": lambda *_: [GOOD], "poll_pull": pull, method: fails}
    return PlanBuilder().source(break_operator(qcore.SourceOperator, **given)(), schema=GOOD.schema, id="culprit")


def stateless(fails: Raise, method: str) -> PlanBuilder:
    asked = itertools.count()
    given: dict[str, Any] = {"execute": lambda self, cx, batch: batch, method: fails}
    if method == "output_schema":  # also called for the plan
        given[method] = lambda self, schema: fails() if next(asked) else schema
    return values().operator(break_operator(qcore.StatelessOperator, **given)(), id="culprit")


def iterator(fails: Raise, method: str) -> PlanBuilder:
    def next(self: Any) -> IterOutcome:
        outcome: IterOutcome = self.child.next()
        self.batch = self.child.batch
        return outcome

    given: dict[str, Any] = {"next": next, method: fails}
    if method == "error":

        def stop(self: Any) -> IterOutcome:
            try:
                fails()
            except BaseException as error:
                self.error = error
            return IterOutcome.STOP

        given = {"next": stop}
    return values().operator(break_operator(qcore.BatchIterator, **given), id="culprit")


class Splits:
    """A connector. One of its methods fails."""

    schema = GOOD.schema

    def __init__(self, fails: Raise, method: str) -> None:
        self.fails, self.method = fails, method
        self.splits_wait = method == "fed"

    def pass_(self, method: str) -> None:
        if method == self.method:
            self.fails()

    def statistics(self) -> Any:
        return qcore.connectors.base.TableStatistics()

    def splits(self, *arguments: Any) -> Iterator[Any]:
        yield qcore.Split()
        self.pass_("splits")
        self.pass_("fed")

    def open(self, *arguments: Any) -> Any:
        self.pass_("open")
        return Rows(self)


class Rows:
    def __init__(self, table: Splits) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.table.pass_("stream")

        def batches() -> Iterator[pa.RecordBatch]:
            yield GOOD
            self.table.pass_("read")

        return pa.RecordBatchReader.from_batches(GOOD.schema, batches()).__arrow_c_stream__()

    def close(self) -> None:
        self.table.pass_("close")


class Planned:
    def __init__(self, plan: Any) -> None:
        self.plan = plan

    def build(self) -> Any:
        return self.plan


def scan(fails: Raise, method: str) -> Any:
    plan = PlanBuilder().scan("t", schema=GOOD.schema, id="culprit").build()
    return Planned(replace(plan, source=Splits(fails, method)))


def abandon_plan(fails: Raise, method: str) -> PlanBuilder:
    return passing(fails, method).limit(1)


def callback(fails: Raise, method: str) -> PlanBuilder:
    if method == "future":
        return values().callback(lambda batch: Blocked("consumer", make_future(fails)), id="culprit")
    return values().callback(fails, id="culprit")


METHODS: dict[Callable[[Raise, str], Any], tuple[str, ...]] = {
    passing: (
        "constructor", "needs_input", "add_input", "get_output", "finish", "is_blocked", "is_finishing", "bind",
        "output_schema", "close", "finish_called",
    ),
    abandon_plan: ("abandon", "close"),
    waiting: ("done", "add_done_callback", "result", "get_loop"),
    sink: ("bind", "init_global_state", "init_local_state", "poll_push", "finish", "close"),
    source: ("init_global_state", "init_local_state", "poll_pull", "close"),
    stateless: ("bind", "execute", "output_schema"),
    iterator: ("bind", "next", "close", "error"),
    scan: ("splits", "fed", "open", "stream", "read", "close"),
    callback: ("call", "future"),
}  # fmt: skip
CASES = [(make, method) for make, methods in METHODS.items() for method in methods]


def by_batches(task: Task) -> None:
    list(task.batches(timeout=60))


def by_iterator(task: Task) -> None:
    rows = task.iterator()
    while rows.next() not in (IterOutcome.NONE, IterOutcome.STOP):
        pass
    rows.close()
    assert rows.next() is IterOutcome.STOP
    assert rows.error is not None
    raise rows.error


def by_caller(task: Task) -> None:
    list(task.run_on_caller())


def by_wait(task: Task) -> None:
    task.start()
    task.wait(timeout=60)


WAYS = {"batches": by_batches, "iterator": by_iterator, "caller": by_caller, "wait": by_wait}


def build_case(make: Callable[[Raise, str], Any], method: str, kind: type[BaseException]) -> Any:
    def fails(*arguments: Any, **options: Any) -> Any:
        raise kind("on purpose")

    # The plan calls output_schema once. The call in the run fails.
    if make is passing and method == "output_schema":
        asked = itertools.count()
        calm = fails

        def fails(*arguments: Any, **options: Any) -> Any:
            if next(asked):
                calm()
            return arguments[-1]

    return make(fails, method).build()


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 2, 8])
@pytest.mark.parametrize(("make", "method"), CASES, ids=[f"{make.__name__}-{method}" for make, method in CASES])
def test_d9_any_exception_at_any_method(make: Callable[[Raise, str], Any], method: str, drivers: int) -> None:
    """D9: each way of reading ends in an ExecutionError that names the operator, also when it is repeated."""
    pairs = itertools.product(KINDS, WAYS) if drivers == 2 else zip(KINDS, itertools.cycle(WAYS), strict=False)
    for kind, way in pairs:
        ctrl_c = kind is KeyboardInterrupt and (way == "caller" or (make, method) == (scan, "splits"))
        if ctrl_c and threading.current_thread() is threading.main_thread():
            continue  # the next test's
        task = Task(build_case(make, method, kind), drivers=drivers, batch_rows=256)
        with pytest.raises(qcore.ExecutionError, match=r"node culprit\)") as raised:
            WAYS[way](task)
        assert task.state == "failed", (kind, way)
        assert raised.value.node_id == "culprit", (kind, way)
        with pytest.raises(qcore.ExecutionError, match="node culprit"):
            task.wait()


WITH_ROWS = [case for case in CASES if case[0] not in (sink, callback)]


@pytest.mark.parametrize(
    ("make", "method", "kind"),
    [(*case, kind) for case, kind in zip(WITH_ROWS, itertools.cycle(KINDS), strict=False)]
    + [(stateless, "execute", kind) for kind in KINDS],
)
def test_d9_a_coroutine_gets_an_error_of_the_query(make: Any, method: str, kind: type[BaseException]) -> None:
    """D9: the coroutine gets an ExecutionError, not a CancelledError."""

    async def read() -> None:
        async for _ in qcore.Session(threads=2).execute(build_case(make, method, kind)).aiter():
            pass

    if kind is KeyboardInterrupt and (make, method) == (scan, "splits"):
        kind = SystemExit
    with pytest.raises(qcore.ExecutionError, match=r"node culprit\)"):
        asyncio.run(read())


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("method", ["add_input", "close", "finish"])
def test_ctrl_c_in_an_operator_on_the_callers_thread(method: str, drivers: int) -> None:
    """D8, D9: the query is cancelled, and KeyboardInterrupt is raised as it is between two operators."""

    def raise_interrupt(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # the operator receives it
            pass

    task = Task(passing(raise_interrupt, method).build(), drivers=drivers, batch_rows=256)
    with pytest.raises(KeyboardInterrupt):
        list(task.run_on_caller())
    assert task.state == "cancelled"
    with pytest.raises(qcore.Cancelled):
        task.wait()


def test_ctrl_c_in_next_is_raised_and_then_stop() -> None:
    """D2, D9: next() raises KeyboardInterrupt. A next() after it does not report the end of the rows."""
    never: Future[None] = Future()
    plan = values().operator(break_operator(qcore.Operator, is_blocked=lambda self: Blocked("user", never))).build()
    rows = Task(plan, drivers=2).iterator()
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        rows.next()
    for _ in range(2):
        assert rows.next() is IterOutcome.STOP
        assert isinstance(rows.error, KeyboardInterrupt)
    rows.close()
    assert rows.next() is IterOutcome.STOP
    never.set_result(None)


def test_the_size_that_a_source_states_may_fail_too() -> None:
    """D5, D9: the size is asked for after the end of a source without rows."""

    class Empty(Splits):
        def splits(self, *arguments: Any) -> Iterator[Any]:
            return iter(())

        def statistics(self) -> Any:
            raise SystemExit("on purpose")

    plan = PlanBuilder().scan("t", schema=GOOD.schema, id="culprit").build()
    rows = Task(replace(plan, source=Empty(lambda: None, ""))).iterator()
    with pytest.raises(SystemExit):
        rows.next()
    assert rows.next() is IterOutcome.STOP
    assert isinstance(rows.error, SystemExit)
    rows.close()


def test_g2_the_global_state_is_made_once_even_when_that_fails() -> None:
    """G2: every partition gets the error of the only attempt."""
    attempts: list[int] = []

    def fails(self: Any, cx: Any) -> None:
        attempts.append(1)
        raise ValueError("on purpose")

    class Slow(qcore.SourceOperator):
        partitions = 4
        init_global_state = fails

    plan = PlanBuilder().source(Slow(), schema=GOOD.schema, id="culprit").build()
    with pytest.raises(qcore.ExecutionError, match="culprit"):
        list(Task(plan, drivers=4).batches(timeout=60))
    assert len(attempts) == 1
