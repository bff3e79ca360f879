"""Errors whose message cannot be made: a query ends as failed if its message raises another error (SPEC D9).

A site is code of a user that a message may call, or the making of one of the engine's own errors: names and texts of
errors, classes, return values, futures and splits. A Trap counts the sites and raises at one of them, or at all from
one on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import Blocked, IterOutcome, PlanBuilder, PollPull, PollPush, Task, protocol_bridges
from qcore.connectors.base import Split, TableStatistics
from qcore_ext.basic import python_operator
from qcore_ext.basic import scan as scan_operator
from qcore_ext.execution import driver, task
from qcore_ext.flow import future_wait
from qcore_ext.ground import error_text

pytestmark = pytest.mark.timeout(240)

TABLE = pa.table({"a": pa.array(range(3000), pa.int64())})
GOOD = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
# Sites that are tried: the first and the last ones, where rows or batches pass the same sites again and again.
FIRST, LAST = 12, 20
KINDS: tuple[type[BaseException], ...] = (MemoryError, AttributeError, SystemExit, GeneratorExit, KeyboardInterrupt)


class Trap:
    """Raises at the `nth` site that is passed while it is armed; with `stays` also at all later ones."""

    armed: Trap | None = None

    def __init__(self, nth: int = 0, kind: type[BaseException] = MemoryError, stays: bool = False) -> None:
        self.nth, self.kind, self.stays = nth, kind, stays
        self.passed: list[str] = []

    @classmethod
    def pass_site(cls, name: str) -> None:
        trap = cls.armed
        if trap is None:
            return
        trap.passed.append(name)
        n = len(trap.passed)
        if trap.nth and (n == trap.nth or (trap.stays and n > trap.nth)):
            raise trap.kind("on the way to a message")

    def __enter__(self) -> Trap:
        Trap.armed = self
        return self

    def __exit__(self, *error: object) -> None:
        Trap.armed = None


class Told(type):
    """A class whose name, text and truth are sites."""

    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            Trap.pass_site(f"class {name}")
        return super().__getattribute__(name)

    def __repr__(cls) -> str:
        Trap.pass_site("repr of class")
        return "Told"


class Telling(metaclass=Told):
    """The attributes that a message reads from its instances."""

    def __str__(self) -> str:
        Trap.pass_site("str")
        return "told"

    def __repr__(self) -> str:
        Trap.pass_site("repr")
        return "told"

    def __format__(self, form: str) -> str:
        Trap.pass_site("format")
        return "told"


class Failure(Telling, Exception):
    """The operator's own error."""

    @property
    def node_id(self) -> None:
        Trap.pass_site("node_id of error")


class LikeOurs(Telling, qcore.ExecutionError):
    """An error that claims to be of the engine, and whose attributes cannot be set."""

    def __setattr__(self, name: str, value: Any) -> None:
        Trap.pass_site(f"set {name}")
        super().__setattr__(name, value)


class Text(Telling, str):
    pass


class SplitOf(Telling, Split):
    pass


def as_site(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def pass_site(*arguments: Any, **options: Any) -> Any:
        Trap.pass_site(name)
        return function(*arguments, **options)

    return pass_site


@contextmanager
def errors_are_sites() -> Iterator[None]:
    """Making an error of the engine's own is a site, and so is every function that makes a message of a failure."""
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        for module in (driver, task, error_text, future_wait, python_operator, scan_operator, protocol_bridges):
            for name in ("explain_failure", "class_name", "text_of", "show_value", "is_interrupt"):
                if hasattr(module, name):
                    patched.setattr(module, name, as_site(name, getattr(module, name)))

        def new(cls: type, *arguments: Any, **options: Any) -> Any:
            if cls is not qcore.Timeout:  # of waits for a batch, in the reader's thread
                Trap.pass_site(f"new {type.__dict__['__name__'].__get__(cls)}")
            return Exception.__new__(cls, *arguments)

        patched.setattr(qcore.QcoreError, "__new__", staticmethod(new))
        yield


def fails(*arguments: Any) -> Any:
    raise Failure("secret")


def fails_as_ours(*arguments: Any) -> Any:
    raise LikeOurs("secret")


def gives(answer: Any) -> Callable[..., Any]:
    return lambda *arguments: answer


def break_operator(base: type, **methods: Any) -> Any:
    metaclass = type("Meta", (Told, type(base)), {})
    given = {"operator_name": property(lambda self: Trap.pass_site("operator_name") or "Broken"), **methods}
    return metaclass("Broken", (base,), given)


def values() -> PlanBuilder:
    return PlanBuilder().values(TABLE)


def project_column(expression: str) -> PlanBuilder:
    return values().project({"b": expression}, id="culprit")


def push_values(**methods: Any) -> PlanBuilder:
    given: dict[str, Any] = {"add_input": gives(None), **methods}
    return values().operator(break_operator(qcore.Operator, **given), id="culprit")


def sink(**methods: Any) -> PlanBuilder:
    given: dict[str, Any] = {"poll_push": gives(PollPush.PUSHED), **methods}
    return values().sink(break_operator(qcore.SinkOperator, **given)(), id="culprit")


def stateless(**methods: Any) -> PlanBuilder:
    given: dict[str, Any] = {"execute": lambda self, cx, batch: batch, **methods}
    return values().operator(break_operator(qcore.StatelessOperator, **given)(), id="culprit")


def iterator(**methods: Any) -> PlanBuilder:
    def next(self: Any) -> IterOutcome:
        outcome: IterOutcome = self.child.next()
        self.batch = self.child.batch
        return outcome

    return values().operator(break_operator(qcore.BatchIterator, **{"next": next, **methods}), id="culprit")


def source(**methods: Any) -> PlanBuilder:
    def pull(self: Any, cx: Any, local: list[Any], shared: Any, partition: int) -> PollPull:
        return PollPull.batch(local.pop()) if local else PollPull.EXHAUSTED

    given: dict[str, Any] = {"init_local_state": gives([GOOD]), "poll_pull": pull, **methods}
    return PlanBuilder().source(break_operator(qcore.SourceOperator, **given)(), schema=GOOD.schema, id="culprit")


class Rows:
    """A stream of one batch, which fails where it is told to."""

    error: BaseException | None = None

    def __init__(self, reads: Any = None, closes: Any = None) -> None:
        self.reads, self.closes = reads, closes

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            yield GOOD
            if self.reads:
                self.reads()

        return pa.RecordBatchReader.from_batches(GOOD.schema, batches()).__arrow_c_stream__()

    def close(self) -> None:
        if self.closes:
            self.closes()


class SplitTable:
    """A connector of the user's."""

    schema = GOOD.schema

    def __init__(self, lists: Any = None, opens: Any = None, **stream: Any) -> None:
        self.lists, self.opens, self.stream = lists, opens, stream

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self, *arguments: Any) -> Iterator[Split]:
        yield SplitOf()
        if self.lists:
            self.lists()

    def open(self, *arguments: Any) -> Rows:
        if self.opens:
            self.opens()
        return Rows(**self.stream)


@dataclass
class Planned:
    plan: Any

    def build(self) -> Any:
        return self.plan


def scan(**how: Any) -> Planned:
    plan = PlanBuilder().scan("t", schema=GOOD.schema, id="culprit").build()
    return Planned(replace(plan, source=SplitTable(**how)))


def failed_future() -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(Failure("secret"))
    return future


def callback(answer: Callable[..., Any]) -> PlanBuilder:
    return values().callback(answer, id="culprit")


PLANS: dict[str, Callable[[], Any]] = {
    "pushed: needs_input": lambda: push_values(needs_input=fails),
    "pushed: needs_input gives text": lambda: push_values(needs_input=gives(Text("x"))),
    "pushed: add_input": lambda: push_values(add_input=fails),
    "pushed: add_input gives something": lambda: push_values(add_input=gives(Text("x"))),
    "pushed: get_output": lambda: push_values(get_output=fails),
    "pushed: get_output gives something": lambda: push_values(get_output=gives(Text("x"))),
    "pushed: is_blocked": lambda: push_values(is_blocked=fails),
    "pushed: is_blocked gives something": lambda: push_values(is_blocked=gives(Text("x"))),
    "pushed: its future fails": lambda: push_values(is_blocked=lambda self: Blocked("user", failed_future())),
    "pushed: no reason": lambda: push_values(is_blocked=lambda self: Blocked(Text("x"), failed_future())),
    "pushed: is_finishing": lambda: push_values(is_finishing=fails),
    "pushed: finish": lambda: push_values(finish=fails),
    "pushed: close": lambda: push_values(close=fails),
    "pushed: bind": lambda: push_values(bind=fails),
    "pushed: like ours": lambda: push_values(add_input=fails_as_ours),
    "pushed: like ours in close": lambda: push_values(close=fails_as_ours),
    "polled sink: poll_push": lambda: sink(poll_push=fails),
    "polled sink: gives something": lambda: sink(poll_push=gives(Text("x"))),
    "polled sink: finish": lambda: sink(finish=fails),
    "polled sink: finish gives something": lambda: sink(finish=gives(Text("x"))),
    "polled sink: close": lambda: sink(close=fails),
    "polled source: poll_pull": lambda: source(poll_pull=fails),
    "polled source: gives something": lambda: source(poll_pull=gives(Text("x"))),
    "polled source: init_global_state": lambda: source(init_global_state=fails),
    "polled source: init_local_state": lambda: source(init_local_state=fails),
    "polled source: close": lambda: source(close=fails),
    "stateless: execute": lambda: stateless(execute=fails),
    "stateless: gives something": lambda: stateless(execute=gives(Text("x"))),
    "stateless: like ours": lambda: stateless(execute=fails_as_ours),
    "iterator: next": lambda: iterator(next=fails),
    "iterator: gives something": lambda: iterator(next=gives(Text("x"))),
    "iterator: close": lambda: iterator(close=fails),
    "callback: raises": lambda: callback(fails),
    "callback: gives something": lambda: callback(gives(Text("x"))),
    "native: overflow": lambda: project_column("a * 9000000000000000"),
    "native: text that is no number": lambda: project_column("cast(cast(a as text) || 'x' as bigint)"),
    "native: a function of Python's": lambda: project_column("strptime(cast(a as text), '%Y-%m')"),
    "native: more than one row": lambda: values().enforce_single_row(id="culprit"),
    "native: memory": lambda: values().order_by("a", id="culprit"),
    "scan: splits": lambda: scan(lists=fails),
    "scan: open": lambda: scan(opens=fails),
    "scan: read": lambda: scan(reads=fails),
    "scan: close": lambda: scan(closes=fails),
}


def run(name: str, trap: Trap, drivers: int, how: str) -> qcore.QcoreError:
    """What the query ends with; it is an error in any case, and the state says so."""
    task = Task(PLANS[name]().build(), drivers=drivers, batch_rows=256, memory_limit=9000 if "memory" in name else None)
    error: BaseException | None = None
    with trap:
        try:
            if how == "iterator":
                rows = task.iterator()
                while rows.next() not in (IterOutcome.NONE, IterOutcome.STOP):
                    pass
                error = rows.error
                rows.close()
            else:
                list(task.batches(timeout=60) if how == "drivers" else task.run_on_caller())
        except BaseException as raised:
            error = raised
    assert error is not None, (name, trap.passed)
    assert task.state == "failed", (name, trap.passed, error)
    assert isinstance(error, qcore.QcoreError), (name, trap.passed, error)
    str(error), repr(error)
    error.__traceback__ = None
    return error


@pytest.mark.each_value
@pytest.mark.parametrize("how", ["drivers", "caller", "iterator"])
@pytest.mark.parametrize("name", PLANS)
def test_d9_whatever_raises_on_the_way_to_a_message(name: str, how: str) -> None:
    """D9: at every site, once and from then on; the error names operator and node."""
    drivers = 1 if how == "caller" else 2
    with errors_are_sites():
        counted = Trap()
        first = run(name, counted, drivers, how)
        assert (getattr(first, "operator", None), first.node_id) != (None, None), first  # type: ignore[attr-defined]
        n_sites = len(counted.passed)
        for nth in (n for n in range(1, n_sites + 1) if n <= FIRST or n > n_sites - LAST):
            for stays in (False, True):
                kind = KINDS[nth % len(KINDS)]
                if kind is KeyboardInterrupt and how == "caller":
                    kind = MemoryError  # there it is Ctrl-C
                error = run(name, Trap(nth, kind, stays), drivers, how)
                assert getattr(error, "node_id", None) == "culprit", (nth, stays, counted.passed, repr(error))
