"""Queries whose drivers are disturbed in every way the contract allows, seed by seed. Run as: make fuzz.

A seed fixes the plan, the rows, how they are cut, how many drivers and threads there are, where operators that block,
yield, refuse, split and give empty batches are put between the engine's own, and what happens at which of their steps:
an error, a cancel, an early finish. Only how threads interleave is left to chance. Whatever happens, the rows are
DuckDB's or the injected error comes out, once; every operator is closed once, from the root to the leaf; and nothing is
left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import pyarrow as pa

import qcore
import qcore.execution.task
from conftest import held_by_engine, settles
from operator_plans import CASES, LEFT, RIGHT, random_rows
from polling import run_polled
from qcore import IterOutcome, PlanBuilder, PollPull, PollPush
from qcore.lowering.pipelines import Lowered, Lowering
from qcore_ext.data.schema import Schema
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.random_operator import Bell, RandomOperator
from random_plans import ROWS_MAX, random_plan

# A run takes milliseconds; one that is not over by then hangs.
HANG_SECONDS = 30.0
# In a long run what is left behind is looked for after this many: the seed reported then is the last of them.
CHECKED_RUNS = 20
WAYS = ("scheduler", "caller", "polled", "iterator")
FAULTS = (
    "none", "none", "error", "error in Python", "cancel", "early finish", "leave", "cancel from outside", "memory",
)  # fmt: skip
RANDOM_PLAN = "random plan"


class Injected(Exception):
    """The error put in."""


@dataclass
class Scenario:
    """What a seed stands for."""

    seed: int
    name: str
    drivers: int
    threads: int
    batch_rows: int
    way: str
    fault: str
    n_left: int
    n_right: int
    share: float  # of the places between operators that get a random one
    step: int  # at which the fault comes
    python: bool  # operators written in Python below the plan, too
    sink: str  # where the rows go: to the reader, or to a sink of one's own

    memory_limit: int | None


def scenario(seed: int) -> Scenario:
    rng = random.Random(seed)
    name = RANDOM_PLAN if rng.random() < 0.4 else rng.choice(sorted(CASES))
    size = rng.choice((0, 1, 30, ROWS_MAX) if name == RANDOM_PLAN else (0, 1, 30, 300, 1500))
    fault = rng.choice(FAULTS)
    return Scenario(
        seed,
        name,
        rng.choice((1, 1, 2, 3, 5, 8)),
        rng.choice((1, 2, 4)),
        rng.choice((32, 64, 256, 65536)),
        rng.choice(WAYS),
        fault,
        rng.randint(0, size),
        rng.randint(0, min(size, 200)),
        rng.choice((0.0, 0.3, 1.0)),
        rng.choice((1, 2, 5, 20, 60)),
        rng.random() < 0.5,
        rng.choice(("", "", "callback", "pushed", "polled")),
        rng.choice((1, 1000, 30_000, 10**6)) if fault == "memory" else None,
    )


@dataclass
class Disturbance:
    """What the random operators of one run share."""

    scenario: Scenario
    rng: random.Random
    injected: Injected
    bell: Bell = field(default_factory=Bell)
    log: list[Any] = field(default_factory=list)
    task: qcore.Task | None = None
    on_cancel: threading.Event = field(default_factory=threading.Event)

    def at_step(self, is_chosen: bool) -> dict[int, Any]:
        """What a random operator does, and when."""
        if not is_chosen:
            return {}
        fault = self.scenario.fault
        if fault == "error":
            return {self.scenario.step: self.injected}
        if fault == "early finish":
            return {self.scenario.step: None}
        if fault == "cancel":
            return {self.scenario.step: self.cancel}
        return {}

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.on_cancel.set()

    def place(self, lowered: Lowered) -> None:
        """Put random operators between the engine's."""
        places = [
            (number, position)
            for number, pipeline in enumerate(lowered.pipelines)
            for position in range(1, len(pipeline.steps))
        ]
        chosen = [place for place in places if self.rng.random() < self.scenario.share]
        if self.scenario.fault in ("error", "early finish", "cancel") and not chosen:
            chosen = [self.rng.choice(places)]
        faulty = self.rng.choice(chosen) if chosen else None
        memory = lowered.memory
        for number, position in sorted(chosen, reverse=True):
            pipeline = lowered.pipelines[number]
            faulty_driver = self.rng.randrange(pipeline.drivers) if (number, position) == faulty else -1
            seed = self.rng.getrandbits(32)

            def make(driver: int, at: Any = (number, position, faulty_driver, seed)) -> RandomOperator:
                number, position, faulty_driver, seed = at
                return RandomOperator(
                    (number, driver, position),
                    memory,
                    random.Random(seed + driver),
                    self.bell,
                    self.log,
                    self.at_step(driver == faulty_driver),
                )

            pipeline.steps.insert(position, make)
            pipeline.node_ids.insert(position, "random")


def lowering_with(disturbance: Disturbance) -> type[Lowering]:
    class RandomLowering(Lowering):
        def finish(self, root: Any) -> Lowered:
            lowered = super().finish(root)
            disturbance.place(lowered)
            return lowered

    return RandomLowering


# --- operators written in Python ---


def pieces(batch: pa.RecordBatch, rng: random.Random) -> list[pa.RecordBatch]:
    """The batch cut at random, with empty ones in between."""
    cuts = sorted(rng.randint(0, batch.num_rows) for _ in range(rng.randint(0, 3)))
    ends = [0, *cuts, batch.num_rows]
    return [batch.slice(start, end - start) for start, end in itertools.pairwise(ends)]


class Pushed(qcore.Operator):
    """Passes rows on; blocks now and then."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.held: list[pa.RecordBatch] = []

    def needs_input(self) -> bool:
        return len(self.held) < 3

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held += pieces(batch, self.rng)

    def get_output(self) -> pa.RecordBatch | None:
        return self.held.pop(0) if self.held and (self.finish_called or self.rng.random() < 0.8) else None

    def is_finishing(self) -> bool:
        return self.finish_called and not self.held

    def is_blocked(self) -> qcore.Blocked | None:
        if self.rng.random() < 0.8:
            return None
        return short_wait(self.rng, self.rng.choice(("user", "consumer", "memory")))


class Iterated(qcore.BatchIterator):
    """Passes rows on, in pieces."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.held: list[pa.RecordBatch] = []

    def next(self) -> IterOutcome | qcore.Blocked:
        if self.rng.random() < 0.1:
            return short_wait(self.rng, "user")
        if not self.held:
            outcome: IterOutcome = self.child.next()
            if outcome not in (IterOutcome.OK, IterOutcome.OK_NEW_SCHEMA):
                return outcome
            self.held = pieces(self.child.batch, self.rng)
        self.batch = self.held.pop(0)
        return IterOutcome.OK


class Polled(qcore.SourceOperator):
    """Gives a table's rows to its partitions, first come, first served."""

    def __init__(self, table: pa.Table, partitions: int, seed: int) -> None:
        self.table = table
        self.partitions = partitions
        self.seed = seed

    def init_global_state(self, cx: Any) -> Any:
        rng = random.Random(self.seed)
        return iter([piece for batch in self.table.to_batches(max_chunksize=100) for piece in pieces(batch, rng)])

    def init_local_state(self, cx: Any, global_state: Any) -> random.Random:
        return random.Random(self.seed + cx.partition)

    def poll_pull(self, cx: Any, local: random.Random, global_state: Any, partition: int) -> PollPull:
        chance = local.random()
        if chance < 0.1:
            cx.waker().wake()
            return PollPull.PENDING
        if chance < 0.2:
            threading.Timer(local.random() * 0.002, cx.waker().wake).start()
            return PollPull.PENDING
        batch = next(global_state, None)
        return PollPull.EXHAUSTED if batch is None else PollPull.batch(batch)


class Collected:
    """Rows that sinks got, from any driver."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lock = threading.Lock()
        self.batches: list[pa.RecordBatch] = []

    def take(self, batch: pa.RecordBatch) -> qcore.Blocked | None:
        """As a callback: now and then it has to be waited for."""
        with self.lock:
            self.batches.append(batch)
            return short_wait(self.rng, "consumer") if self.rng.random() < 0.2 else None

    def end(self, kind: str, builder: PlanBuilder) -> PlanBuilder:
        """The plan with a sink of this kind."""
        if kind == "callback":
            return builder.callback(self.take)
        return builder.sink(PolledSink(self) if kind == "polled" else lambda: PushedSink(self))


class PushedSink(qcore.Operator):
    """Collects, and waits at times."""

    def __init__(self, collected: Collected) -> None:
        self.collected = collected
        self.wait: qcore.Blocked | None = None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.wait = self.collected.take(batch)

    def is_blocked(self) -> qcore.Blocked | None:
        wait, self.wait = self.wait, None
        return wait


class PolledSink(qcore.SinkOperator):
    """Collects, and is pending at times; at the end its partitions wait for one another."""

    def __init__(self, collected: Collected) -> None:
        self.collected = collected

    def init_global_state(self, cx: Any) -> Any:
        return {"left": cx.partitions, "all": Future()}

    def init_local_state(self, cx: Any, global_state: Any) -> random.Random:
        return random.Random(cx.partition)

    def poll_push(self, cx: Any, local: random.Random, global_state: Any, batch: Any, partition: int) -> PollPush:
        if local.random() < 0.3:
            threading.Timer(local.random() * 0.002, cx.waker().wake).start()
            return PollPush.pending(batch)
        self.collected.take(batch)
        return PollPush.PUSHED

    def finish(self, cx: Any, local: Any, global_state: Any, partition: int) -> qcore.Blocked:
        with self.collected.lock:
            global_state["left"] -= 1
            if global_state["left"] == 0:
                global_state["all"].set_result(None)
        return qcore.Blocked("peers", global_state["all"])


def short_wait(rng: random.Random, reason: str) -> qcore.Blocked:
    """For a future that is done at once or soon, by another thread."""
    future: Future[None] = Future()
    if rng.random() < 0.5:
        threading.Timer(rng.random() * 0.002, future.set_result, [None]).start()
    else:
        future.set_result(None)
    return qcore.Blocked(reason, future)


class Raising:
    """Operators that pass rows on until, all together, they got `left` batches; then one of them raises."""

    def __init__(self, left: int, error: Injected) -> None:
        self.left = itertools.count(left, -1)
        self.error = error

    def step(self) -> None:
        if next(self.left) == 0:
            raise self.error

    def put(self, builder: PlanBuilder, rng: random.Random) -> PlanBuilder:
        """The plan with one more operator, in one of the protocols."""
        step = self.step

        class RaisingPushed(Pushed):
            def add_input(self, batch: pa.RecordBatch) -> None:
                step()
                super().add_input(batch)

        class RaisingIterated(Iterated):
            def next(self) -> IterOutcome | qcore.Blocked:
                step()
                return super().next()

        class RaisingStateless(qcore.StatelessOperator):
            def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
                step()
                return batch

        seed = rng.getrandbits(32)
        made = rng.choice((lambda: RaisingPushed(seed), lambda: RaisingIterated(seed), RaisingStateless()))
        return builder.operator(made)


def source(name: str, table: pa.Table, rng: random.Random, python: bool) -> PlanBuilder:
    """The rows, cut at random, from one of several kinds of sources."""
    batches = [piece for batch in table.to_batches(max_chunksize=200) for piece in pieces(batch, rng)]
    cut = pa.Table.from_batches(batches, table.schema)
    kind = rng.choice(("scan", "values", "polled") if python else ("scan", "values"))
    seed = rng.getrandbits(32)
    if kind == "polled":
        builder = PlanBuilder().source(Polled(cut, rng.randint(1, 4), seed), schema=cut.schema)
    elif kind == "values":
        builder = PlanBuilder().values(cut)
    else:
        builder = PlanBuilder().scan(name, source=cut)
    if python:
        for made in (Pushed, Iterated):
            if rng.random() < 0.4:
                builder = builder.operator(lambda made=made: made(seed))
    if rng.random() < 0.3:
        builder = builder.local_partition(drivers=rng.randint(1, 4))
    return builder


# --- a run ---


_schedulers: dict[int, Scheduler] = {}


def scheduler_with(threads: int) -> Scheduler:
    if threads not in _schedulers or not _schedulers[threads].usable:
        _schedulers[threads] = Scheduler(threads)
    return _schedulers[threads]


@contextlib.contextmanager
def ringing(bell: Bell, rng: random.Random) -> Iterator[None]:
    """Another thread rings the bell all the while."""
    stopped = threading.Event()

    def ring() -> None:
        while not stopped.wait(rng.random() * 0.001):
            bell.ring()

    thread = threading.Thread(target=ring)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def batches_of(task: qcore.Task, plan: Scenario, rng: random.Random) -> Iterator[pa.RecordBatch]:
    """The result, by the scenario's way."""
    if plan.way == "caller":
        yield from task.run_on_caller()
    elif plan.way == "iterator":
        it = task.iterator()
        try:
            while (outcome := it.next()) in (IterOutcome.OK, IterOutcome.OK_NEW_SCHEMA):
                yield it.batch
            if outcome is IterOutcome.STOP:
                raise it.error
        finally:
            it.close()
    else:
        yield from task.batches(timeout=HANG_SECONDS)


def run(seed: int) -> str:
    """Run one seed; AssertionError says what was wrong. Returns how the query ended."""
    return run_scenario(scenario(seed), random.Random(seed + 1))


def check_nothing_is_left() -> None:
    """After any number of runs: looking through all of Python's objects takes longer than most of them."""
    assert settles(held_by_engine), f"left behind: {held_by_engine()}"


def run_scenario(plan: Scenario, rng: random.Random) -> str:
    left, right = random_rows(LEFT, plan.n_left, rng), random_rows(RIGHT, plan.n_right, rng)
    injected = Injected(f"seed {plan.seed}")
    raising = Raising(plan.step, injected) if plan.fault == "error in Python" else None

    def read(name: str, table: pa.Table) -> PlanBuilder:
        builder = source(name, table, rng, plan.python)
        return builder if raising is None else raising.put(builder, rng)

    if plan.name == RANDOM_PLAN:
        builder, case = random_plan(plan.seed, lambda: read("l", left))
    else:
        case = CASES[plan.name]
        builder = case.build(read("l", left), read("r", right))
    schema = pa.schema(Schema(builder.build().schema))
    collected = Collected(plan.seed)
    if plan.sink:
        builder = collected.end(plan.sink, builder)
        # What several drivers bring to a sink has no order.
        case = replace(case, ordered=False)
    ended = (run_by_polls if plan.way == "polled" else run_task)(plan, builder, collected.batches, rng, injected)
    if ended in ("polled", "finished") and (plan.fault != "early finish" or plan.way == "polled"):
        case.check(collected.batches, schema, case.expected(left, right))
    return ended


def run_by_polls(
    plan: Scenario, builder: PlanBuilder, got: list[pa.RecordBatch], rng: random.Random, injected: Injected
) -> str:
    options = {"batch_rows": plan.batch_rows, "memory_limit": plan.memory_limit}
    try:
        got += run_polled(builder.build(), plan.drivers, rng, HANG_SECONDS, **options)
    except qcore.QcoreError as error:
        return check_error(plan, injected, error)
    return "polled"


def run_task(
    plan: Scenario, builder: PlanBuilder, got: list[pa.RecordBatch], rng: random.Random, injected: Injected
) -> str:
    disturbance = Disturbance(plan, rng, injected)
    with (
        mock.patch.object(qcore.execution.task, "Lowering", lowering_with(disturbance)),
        mock.patch.object(qcore.execution.task, "scheduler_of", return_value=scheduler_with(plan.threads)),
    ):
        options = {"batch_rows": plan.batch_rows, "memory_limit": plan.memory_limit}
        task = qcore.Task(builder.build(), drivers=plan.drivers, **options)
    disturbance.task = task
    watchdog = threading.Timer(HANG_SECONDS, task.cancel, ["it hangs"])
    watchdog.daemon = True
    watchdog.start()
    canceller = None
    if plan.fault == "cancel from outside":
        canceller = threading.Timer(rng.random() * 0.03, task.cancel)
        canceller.start()
    n_read = 0
    try:
        with (
            ringing(disturbance.bell, random.Random(plan.seed)),
            contextlib.closing(batches_of(task, plan, rng)) as rows,
        ):
            for batch in rows:
                got.append(batch)
                n_read += 1
                if plan.fault == "leave" and n_read == plan.step:
                    break
        ended = "left" if plan.fault == "leave" and n_read == plan.step else "finished"
    except qcore.QcoreError as error:
        ended = check_error(plan, injected, error, task)
    finally:
        watchdog.cancel()
        if canceller is not None:
            canceller.join()
    check_log(disturbance.log)
    disturbance.task = None
    return ended


def check_error(plan: Scenario, injected: Injected, error: qcore.QcoreError, task: qcore.Task | None = None) -> str:
    """Only what was put in may come out, and it names its operator once."""
    assert task is None or "it hangs" not in str(error), f"hangs: {waiting(task)}"
    if isinstance(error, qcore.Cancelled):
        assert plan.fault in ("cancel", "cancel from outside"), f"cancelled by nobody: {error}"
        return "cancelled"
    if plan.fault == "memory":
        assert isinstance(error, qcore.MemoryLimitError), f"{type(error).__name__}: {error}"
    else:
        assert error.__cause__ is injected, f"{type(error).__name__}: {error}"
        assert isinstance(error, qcore.ExecutionError)
        assert (error.operator or "").startswith("Rai" if plan.fault == "error in Python" else "RandomOperator")
    assert error.node_id is not None and str(error).count(f"(node {error.node_id})") == 1, str(error)
    return "failed"


def waiting(task: qcore.Task) -> list[Any]:
    """Who waits for what."""
    return [
        (number, operator["name"], operator["blocked_times"], operator["input_rows"], operator["output_rows"])
        for number, pipeline in enumerate(task.stats()["pipelines"])
        for operator in pipeline["operators"]
    ]


def check_log(log: list[Any]) -> None:
    """Calls in order, each operator closed once, and those of a driver from the root to the leaf."""
    known = {"open", "finish", "abandon", "close"}
    assert not [entry for entry in log if entry[1] not in known], log
    counts = Counter(log)
    assert not counts or max(counts.values()) == 1, counts.most_common(3)
    places = {place for place, _ in log}
    assert {place for place, call in log if call == "close"} == places
    closes = [place for place, call in log if call == "close"]
    for number, driver in {place[:2] for place in places}:
        positions = [place[2] for place in closes if place[:2] == (number, driver)]
        assert positions == sorted(positions, reverse=True), (number, driver, positions)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="where to begin; by default the clock says")
    parser.add_argument("--runs", type=int, default=0, help="how many seeds, one after the other")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, unless --runs is given")
    options = parser.parse_args()
    first = int(time.time()) if options.seed is None else options.seed
    until = time.monotonic() + options.seconds
    ends: Counter[str] = Counter()
    failed = seed = 0
    for seed in range(first, first + options.runs) if options.runs else range(first, first + 10**9):
        if not options.runs and time.monotonic() > until:
            break
        try:
            ends[run(seed)] += 1
            if (seed - first) % CHECKED_RUNS == CHECKED_RUNS - 1 or options.runs:
                check_nothing_is_left()
        except Exception:
            failed += 1
            sys.stdout.write(
                f"{scenario(seed)}\n{traceback.format_exc()}\nagain: make fuzz ARGS='--seed {seed} --runs 1'\n"
            )
            sys.stdout.flush()
    sys.stdout.write(f"seeds {first} to {seed}: {failed} failed; {dict(ends)}\n")
    for scheduler in _schedulers.values():
        scheduler.shutdown()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
