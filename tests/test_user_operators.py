"""Operators written in Python, in each protocol, in chains with native ones.

SPEC V5, V9, V12, G1, G2, G4, G6, G7, D1, D2, H3.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import qcore
from qcore import IterOutcome, PlanBuilder, PollPull, PollPush, col

pytestmark = pytest.mark.timeout(120)
TABLE = pa.table({"a": pa.array(range(5000), pa.int64()), "s": pa.array([str(i % 7) for i in range(5000)])})
THREADS = [1, 2, 3, 8]


def rows(builder: PlanBuilder, threads: int = 2, **options: Any) -> list[dict[str, Any]]:
    """The rows of a plan, with small batches."""
    result = qcore.Session(threads=threads, batch_rows=512, **options).execute(builder.build())
    return result.to_arrow().to_pylist()


def numbers(threads: int = 2) -> PlanBuilder:
    """TABLE, divided among the drivers."""
    return PlanBuilder().values(TABLE).local_partition(drivers=threads)


def later(future: Future[None] | Any, seconds: float = 0.002) -> Any:
    """The future, which another thread completes soon."""
    threading.Timer(seconds, future.set_result, [None]).start()
    return future


class Doubled(qcore.Operator):
    """One output batch for each input batch."""

    held: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self.held is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        assert isinstance(batch, pa.RecordBatch) and self.held is None
        self.held = batch.set_column(0, "a", pc.multiply(batch.column(0), 2))

    def get_output(self) -> pa.RecordBatch | None:
        given, self.held = self.held, None
        return given


# --- V5 ---


@pytest.mark.parametrize("threads", THREADS)
def test_an_operator_stands_between_native_ones(threads: int) -> None:
    """V5, H3: below a filter and above a partition. It gets the columns that it knows, in order."""
    plan = numbers(threads).operator(Doubled).filter(col("a") < 100).project(["a"])
    assert sorted(row["a"] for row in rows(plan, threads)) == list(range(0, 100, 2))


def test_the_calls_an_operator_gets() -> None:
    """V5, D1: constructed without a schema, bound before the first batch, finished and closed at the end, each once."""
    calls: list[str] = []

    class Recording(Doubled):
        def __init__(self) -> None:
            calls.append("made")

        def bind(self, schema: pa.Schema) -> None:
            assert schema.names == ["a", "s"]
            calls.append("bind")

        def add_input(self, batch: pa.RecordBatch) -> None:
            calls.append("add_input")
            super().add_input(batch)

        def finish(self) -> None:  # without super().finish(): the engine notes the end itself
            calls.append("finish")

        def close(self) -> None:
            calls.append("close")

    assert len(rows(PlanBuilder().values(TABLE.slice(0, 600)).operator(Recording))) == 600
    assert calls == ["made", "bind", "add_input", "add_input", "finish", "close"]


def test_many_batches_for_one_and_one_at_the_end() -> None:
    """V5, V13: any number of output batches follows an input batch, also after finish. It declares its schema (D4)."""

    class Counting(qcore.Operator):
        def __init__(self) -> None:
            self.ready: list[int] = []
            self.total = 0

        def output_schema(self, schema: pa.Schema) -> pa.Schema:
            return pa.schema({"n": pa.int64()})

        def needs_input(self) -> bool:
            return not self.ready

        def add_input(self, batch: pa.RecordBatch) -> None:
            self.ready = [1, 2, 3]
            self.total += batch.num_rows

        def finish(self) -> None:
            self.ready = [self.total]

        def get_output(self) -> pa.RecordBatch | None:
            return pa.record_batch({"n": [self.ready.pop(0)]}) if self.ready else None

    builder = PlanBuilder().values(TABLE.slice(0, 1000)).operator(Counting)
    assert builder.build().schema == pa.schema({"n": pa.int64()})
    assert [row["n"] for row in rows(builder)] == [1, 2, 3, 1, 2, 3, 1000]
    # Also without input.
    assert rows(PlanBuilder().values(TABLE.slice(0, 0)).operator(Counting))[-1:] == [{"n": 0}]


@pytest.mark.parametrize("threads", THREADS)
def test_is_finishing_early_stops_the_input(threads: int) -> None:
    """V5, V8: an endless source stops below an operator that has enough rows, and below a native limit."""
    closed: list[str] = []

    class Endless(qcore.SourceOperator):
        def output_schema(self, schema: None) -> pa.Schema:
            return pa.schema({"a": pa.int64()})

        def poll_pull(self, cx: Any, local: Any, shared: Any, partition: int) -> PollPull:
            return PollPull.batch(pa.record_batch({"a": pa.array(range(10), pa.int64())}))

        def close(self, cx: Any, local: Any, shared: Any, partition: int) -> None:
            closed.append("source")

    class FirstBatch(Doubled):
        enough = False

        def add_input(self, batch: pa.RecordBatch) -> None:
            super().add_input(batch)
            self.enough = True

        def is_finishing(self) -> bool:
            return self.enough

        def close(self) -> None:
            closed.append("operator")

    assert len(rows(PlanBuilder().source(Endless()).operator(FirstBatch), threads)) == 10 * threads
    assert sorted(closed) == ["operator"] * threads + ["source"] * threads
    assert len(rows(PlanBuilder().source(Endless()).operator(Doubled).limit(25), threads)) == 25
    assert len(rows(PlanBuilder().source(Endless()).local_partition(["a"]).operator(Doubled).limit(25), threads)) == 25


@pytest.mark.parametrize("kind", ["concurrent", "done", "asyncio"])
def test_blocking_on_a_future(kind: str) -> None:
    """V5, V7: any kind of future, completed in any thread, resumes the driver. The wait is counted."""
    loop = asyncio.new_event_loop()
    runner = threading.Thread(target=loop.run_forever)
    runner.start()

    def future() -> Any:
        made: Any = loop.create_future() if kind == "asyncio" else Future()
        if kind == "done":
            made.set_result(None)
            return made
        if kind == "asyncio":
            loop.call_soon_threadsafe(loop.call_later, 0.002, made.set_result, None)
            return made
        return later(made)

    class Slow(Doubled):
        waits: Any = None

        def add_input(self, batch: pa.RecordBatch) -> None:
            super().add_input(batch)
            self.waits = future()

        def is_blocked(self) -> qcore.Blocked | None:
            waits, self.waits = self.waits, None
            return None if waits is None else qcore.Blocked(None, waits)

    result = qcore.Session(threads=2, batch_rows=512).execute(PlanBuilder().values(TABLE).operator(Slow).build())
    try:
        assert result.to_arrow().num_rows == 5000
    finally:
        loop.call_soon_threadsafe(loop.stop)
        runner.join()
        loop.close()
    slow = result.stats()["pipelines"][0]["operators"][1]
    assert slow["name"] == "Slow" and (slow["input_rows"], slow["output_rows"]) == (5000, 5000)
    # A future that completes before the driver reads it does not count as a wait.
    assert slow["blocked_times"].get("user", 0) in ([0] if kind == "done" else range(1, 11))


def test_blocking_holds_no_thread() -> None:
    """V7: more operators wait, for one another, than there are threads."""
    count = 8
    futures: list[Future[None]] = [Future() for _ in range(count)]

    class Chained(qcore.SourceOperator):
        partitions = count

        def init_local_state(self, cx: Any, shared: Any) -> dict[str, Any]:
            return {"step": 0}

        def poll_pull(self, cx: Any, local: dict[str, Any], shared: Any, partition: int) -> PollPull:
            if local["step"]:
                return PollPull.EXHAUSTED
            if partition < count - 1 and not futures[partition].done():
                waker = cx.waker()
                futures[partition].add_done_callback(lambda done: waker.wake())
                return PollPull.PENDING
            local["step"] = 1
            if partition:
                futures[partition - 1].set_result(None)
            return PollPull.batch(pa.record_batch({"a": [partition]}))

    plan = PlanBuilder().source(Chained(), schema=pa.schema({"a": pa.int64()}))
    assert sorted(row["a"] for row in rows(plan, 1)) == list(range(count))


def test_a_source_and_a_sink_in_the_pushed_protocol() -> None:
    """V5, V9: a source is never asked whether it needs input, and a sink returns nothing."""
    got: list[int] = []

    class Countdown(qcore.Operator):
        left = 3

        def needs_input(self) -> bool:
            raise AssertionError("asked of a source")

        def get_output(self) -> pa.RecordBatch | None:
            self.left -= 1
            return pa.record_batch({"a": [self.left]}) if self.left >= 0 else None

        def is_finishing(self) -> bool:
            return self.left < 0

    class Collecting(qcore.Operator):
        def add_input(self, batch: pa.RecordBatch) -> None:
            got.extend(batch.column(0).to_pylist())

    assert rows(PlanBuilder().source(Countdown, schema=pa.schema({"a": pa.int64()})).sink(Collecting)) == []
    assert got == [2, 1, 0]


def test_a_callback_waits_for_the_future_that_it_returns() -> None:
    """V12: a callback returns qcore.Blocked with a reason and a future."""
    got: list[int] = []

    def callback(batch: pa.RecordBatch) -> qcore.Blocked:
        got.append(batch.num_rows)
        return qcore.Blocked("consumer", later(Future()))

    assert rows(PlanBuilder().values(TABLE).callback(callback)) == []
    assert sum(got) == 5000


# --- G1–G4, G6, G7 ---


class Gathering(qcore.SinkOperator):
    """Counts rows in each partition, and adds the counts at the end."""

    def __init__(self, answer: Callable[[Any, dict[str, Any]], PollPush | None] = lambda cx, local: None) -> None:
        self.answer = answer
        self.lock = threading.Lock()
        self.calls: list[str] = []
        self.totals: list[int] = []

    def init_global_state(self, cx: Any) -> dict[str, int]:
        assert cx.partition is None
        self.calls.append("global")
        return {"rows": 0, "finished": 0}

    def init_local_state(self, cx: Any, global_state: Any) -> dict[str, Any]:
        assert 0 <= cx.partition < cx.partitions
        with self.lock:
            self.calls.append("local")
        return {"rows": 0, "seen": []}

    def poll_push(self, cx: Any, local: Any, global_state: Any, batch: pa.RecordBatch, partition: int) -> PollPush:
        local["seen"].append(batch)
        answer = self.answer(cx, local)
        if answer is None or answer is PollPush.PUSHED:
            local["rows"] += batch.num_rows
            return PollPush.PUSHED
        return answer

    def finish(self, cx: Any, local: Any, global_state: Any, partition: int) -> None:
        with self.lock:
            self.calls.append("finish")
            global_state["rows"] += local["rows"]
            global_state["finished"] += 1
            if global_state["finished"] == cx.partitions:
                self.totals.append(global_state["rows"])

    def close(self, cx: Any, local: Any, global_state: Any, partition: int) -> None:
        with self.lock:
            self.calls.append("close")


@pytest.mark.parametrize("threads", THREADS)
def test_states_are_made_once_and_shared(threads: int) -> None:
    """G2, G4: one object for all partitions, a global state a query, a local state a partition. finish merges them."""
    sink = Gathering()
    rows(numbers(threads).sink(sink), threads)
    assert sink.totals == [5000]
    assert sorted(sink.calls) == sorted(["global"] + ["local", "finish", "close"] * threads)


@pytest.mark.parametrize("threads", THREADS)
def test_a_pending_push_is_offered_again_unchanged(threads: int) -> None:
    """G1: the same batch is offered after the waker was fired, in any thread: at once, later, or twice."""
    turn = iter(range(10**9))

    def sometimes(cx: Any, local: dict[str, Any]) -> PollPush | None:
        batch = local["seen"][-1]
        if len(local["seen"]) > 1 and local["seen"][-2] is batch:
            local["seen"].clear()
            return None
        waker = cx.waker()
        which = next(turn) % 3
        if which == 0:
            waker.wake()
        else:
            for _ in range(which):
                threading.Timer(0.001, waker.wake).start()
        return PollPush.pending(batch)

    sink = Gathering(sometimes)
    rows(numbers(threads).sink(sink), threads)
    assert sink.totals == [5000]


def test_a_push_that_yields_again_and_again_is_not_stuck() -> None:
    """G1: an operator whose waker is fired during the poll is polled again, any number of times."""

    def at_the_500th(cx: Any, local: dict[str, Any]) -> PollPush | None:
        if len(local["seen"]) % 500 == 0:
            return None
        cx.waker().wake()
        return PollPush.pending(local["seen"][-1])

    sink = Gathering(at_the_500th)
    rows(PlanBuilder().values(TABLE).sink(sink), 1)
    assert sink.totals == [5000]


@pytest.mark.parametrize("threads", THREADS)
def test_break_finishes_at_once(threads: int) -> None:
    """G1: after BREAK finish is called once, and no batch is pushed."""

    def first_only(cx: Any, local: dict[str, Any]) -> PollPush | None:
        assert len(local["seen"]) == 1
        return PollPush.BREAK

    sink = Gathering(first_only)
    rows(numbers(threads).sink(sink), threads)
    assert sink.calls.count("finish") == sink.calls.count("close") == threads


def test_finish_may_wait_for_the_others() -> None:
    """G1, V7: two partitions wait in finish for each other, and hold no thread."""

    class Barrier(Gathering):
        def init_global_state(self, cx: Any) -> Any:
            return {"left": cx.partitions, "all": Future()}

        def finish(self, cx: Any, local: Any, global_state: Any, partition: int) -> Any:
            with self.lock:
                global_state["left"] -= 1
                last = global_state["left"] == 0
            if last:
                global_state["all"].set_result(None)
            return qcore.Blocked("peers", global_state["all"])

    task = qcore.Task(numbers(4).sink(Barrier()).build(), drivers=1)
    task.start()
    task.wait(20)
    assert task.stats()["pipelines"][-1]["operators"][-1]["blocked_times"]["peers"] >= 1


def test_a_stateless_operator() -> None:
    """G4: a batch or nothing for each input batch, with the session's settings (G6)."""

    class Even(qcore.StatelessOperator):
        def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch | None:
            assert cx.settings.memory_limit == 10**9 and cx.settings.batch_rows == 512
            kept = batch.filter(pc.equal(pc.bit_wise_and(batch.column(0), 1), 0))
            return kept if kept.num_rows and kept.column(0)[0].as_py() < 2000 else None

    expected = [a for a in range(5000) if a % 2 == 0 and a - a % 512 < 2000]
    for operator in (Even, Even()):
        plan = PlanBuilder().values(TABLE).operator(operator)
        assert [row["a"] for row in rows(plan, 1, memory_limit=10**9)] == expected


def test_each_explains_itself() -> None:
    """G7."""

    class Named(qcore.SourceOperator):
        def output_schema(self, schema: None) -> pa.Schema:
            return TABLE.schema

        def explain(self) -> str:
            return "of nothing"

    text = qcore.Session().execute(PlanBuilder().source(Named()).operator(Doubled).sink(Gathering()).build()).explain()
    assert "UserSource Named of nothing" in text and "UserOperator Doubled" in text and "UserSink Gathering" in text


# --- D2 ---


class Halves(qcore.BatchIterator):
    """Returns each input batch in two parts."""

    rest: pa.RecordBatch | None = None

    def next(self) -> IterOutcome:
        if self.rest is not None:
            self.batch, self.rest = self.rest, None
            return IterOutcome.OK
        outcome = self.child.next()
        if outcome in (IterOutcome.OK, IterOutcome.OK_NEW_SCHEMA):
            middle = self.child.batch.num_rows // 2
            self.batch, self.rest = self.child.batch.slice(0, middle), self.child.batch.slice(middle)
        return outcome


@pytest.mark.parametrize("threads", THREADS)
def test_an_iterator_over_its_input(threads: int) -> None:
    """D2, H3: OK_NEW_SCHEMA first, then OK, then NONE, in a chain with pushed and native operators."""
    plan = numbers(threads).operator(Halves).operator(Doubled)
    assert sorted(row["a"] for row in rows(plan, threads)) == list(range(0, 10000, 2))


def test_an_iterator_as_a_source_that_waits() -> None:
    """D2: after a Blocked next() is called again. NONE ends the source."""

    class Ticking(qcore.BatchIterator):
        left = 3
        waited = False

        def next(self) -> IterOutcome | qcore.Blocked:
            assert self.child is None
            if self.left == 0:
                return IterOutcome.NONE
            self.waited = not self.waited
            if self.waited:
                return qcore.Blocked("user", later(Future()))
            self.left -= 1
            self.batch = pa.record_batch({"a": [self.left]})
            return IterOutcome.OK

    assert [row["a"] for row in rows(PlanBuilder().source(Ticking, schema=pa.schema({"a": pa.int64()})))] == [2, 1, 0]


# --- what goes wrong ---


def make_broken(**methods: Any) -> type:
    """A class like Doubled with some methods replaced."""
    return type("Broken", (Doubled,), methods)


def never_anything(**more: Any) -> type:
    return make_broken(needs_input=lambda self: False, get_output=lambda self: None, **more)


DONE: Future[None] = Future()
DONE.set_result(None)
TOO_MANY = iter([None, pa.record_batch({"b": [1]})])
FAULTS: dict[str, tuple[Any, str]] = {
    "wrong type": (make_broken(get_output=lambda self: 17), r"get_output\(\) returned a int"),
    "other schema": (
        make_broken(get_output=lambda self: pa.record_batch({"b": [1]})),
        "another schema than output_schema",
    ),
    "None forever": (never_anything(), "stuck: it returns no output"),
    "input after finish": (make_broken(is_finishing=lambda self: False), "asks for input after finish"),
    "needs_input gives None": (make_broken(needs_input=lambda self: None), r"needs_input\(\) returned None"),
    "add_input gives": (make_broken(add_input=lambda self, batch: 1), r"add_input\(\) returned a int"),
    "raises in add_input": (make_broken(add_input=lambda self, batch: 1 // 0), "ZeroDivisionError"),
    "raises in bind": (make_broken(bind=lambda self, schema: 1 // 0), "ZeroDivisionError"),
    "raises in finish": (make_broken(finish=lambda self: 1 // 0), "ZeroDivisionError"),
    "raises in close": (make_broken(close=lambda self: 1 // 0), r"failed in close\(\): ZeroDivisionError"),
    "blocked on nothing": (make_broken(is_blocked=lambda self: 3), "future that has add_done_callback"),
    "blocked, no reason": (
        make_broken(is_blocked=lambda self: qcore.Blocked("boredom", Future())),
        "not a block reason",
    ),
    "spins on a done future": (
        never_anything(is_blocked=lambda self: qcore.Blocked("user", DONE)),
        "stuck",
    ),
    "batch after the end": (
        make_broken(
            is_finishing=lambda self: True,
            get_output=lambda self: next(TOO_MANY),
        ),
        "return None only when no batch is left",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_class_and_node(fault: str) -> None:
    """D9, H3: one ExecutionError. Other queries continue."""
    operator, message = FAULTS[fault]
    with pytest.raises(qcore.ExecutionError, match=r"Broken \(node culprit\)[\s\S]*" + message) as raised:
        rows(PlanBuilder().values(TABLE).operator(operator, id="culprit").limit(5001), 1)
    assert (raised.value.operator, raised.value.node_id) == ("Broken", "culprit")
    assert len(rows(numbers())) == 5000


def test_a_sink_that_gives_a_batch() -> None:
    """V9."""
    with pytest.raises(qcore.ExecutionError, match="returned a batch, but it is the sink"):
        rows(PlanBuilder().values(TABLE).sink(Doubled))


@pytest.mark.parametrize(
    ("answer", "message"),
    [(None, "instead of a qcore.PollPush"), (PollPush.pending(TABLE.to_batches()[0]), "another batch")],
)
def test_polled_answers_that_make_no_sense(answer: Any, message: str) -> None:
    """G1."""

    class Odd(qcore.SinkOperator):
        def poll_push(self, cx: Any, local: Any, global_state: Any, batch: Any, partition: int) -> Any:
            return answer

    with pytest.raises(qcore.ExecutionError, match=rf"Odd \(node \d\): poll_push\(\) returned.*{message}"):
        rows(PlanBuilder().values(TABLE).sink(Odd()))


def test_a_future_that_fails_or_is_cancelled() -> None:
    """V7, D9."""
    failed: Future[None] = Future()
    failed.set_exception(ConnectionError("the peer is gone"))
    cancelled: Future[None] = Future()
    cancelled.cancel()
    for future, message in ((failed, "the peer is gone"), (cancelled, "future it waited for was cancelled")):
        operator = make_broken(is_blocked=lambda self, future=future: qcore.Blocked("user", future))
        with pytest.raises(qcore.ExecutionError, match=message):
            rows(PlanBuilder().values(TABLE).operator(operator))


def test_cancel_while_it_waits_for_a_future_that_never_comes() -> None:
    """V7, D8, D9: operators are closed once, and a later wake-up has no effect."""
    never: Future[None] = Future()
    waits = threading.Event()
    closed: list[int] = []

    def is_blocked(self: Any) -> qcore.Blocked:
        waits.set()
        return qcore.Blocked("user", never)

    operator = make_broken(is_blocked=is_blocked, close=lambda self: closed.append(1))
    task = qcore.Task(PlanBuilder().values(TABLE).operator(operator).build(), drivers=2)
    task.start()
    assert waits.wait(10)
    task.cancel()
    with pytest.raises(qcore.Cancelled):
        task.wait(10)
    assert closed == [1]
    never.set_result(None)


WRONG_PLANS: dict[str, tuple[Callable[[], Any], str]] = {
    "an instance": (lambda: PlanBuilder().values(TABLE).operator(Doubled()), "serves one driver only"),
    "a sink as an operator": (lambda: PlanBuilder().values(TABLE).operator(Gathering()), "not a Gathering"),
    "not callable": (lambda: PlanBuilder().values(TABLE).operator(3), "not a int"),
    "makes something else": (lambda: PlanBuilder().values(TABLE).operator(dict), "returned a dict, not an Operator"),
    "no schema": (lambda: PlanBuilder().source(Halves), "needs schema="),
    "after a sink": (lambda: PlanBuilder().values(TABLE).sink(Gathering()).limit(1), "a sink ends the plan"),
}


@pytest.mark.parametrize("case", WRONG_PLANS)
def test_plans_that_cannot_be(case: str) -> None:
    build, message = WRONG_PLANS[case]
    with pytest.raises(qcore.PlanError, match=message):
        build()
