"""Operators written in Python that take random choices among those of their protocols: V5, G1 to G4, D2."""

from __future__ import annotations

import itertools
import random
import threading
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

import qcore
from qcore import IterOutcome, PlanBuilder, PollPull, PollPush


class Injected(Exception):
    """The injected error."""


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
    """A source of a table's rows. Each batch goes to the partition that reads next."""

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
        """A callback. Sometimes it returns a future that is not done."""
        with self.lock:
            self.batches.append(batch)
            return short_wait(self.rng, "consumer") if self.rng.random() < 0.2 else None

    def end(self, kind: str, builder: PlanBuilder) -> PlanBuilder:
        """The plan with a sink of this kind."""
        if kind == "callback":
            return builder.callback(self.take)
        return builder.sink(PolledSink(self) if kind == "polled" else lambda: PushedSink(self))


class PushedSink(qcore.Operator):
    """Collects rows, and blocks sometimes."""

    def __init__(self, collected: Collected) -> None:
        self.collected = collected
        self.wait: qcore.Blocked | None = None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.wait = self.collected.take(batch)

    def is_blocked(self) -> qcore.Blocked | None:
        wait, self.wait = self.wait, None
        return wait


class PolledSink(qcore.SinkOperator):
    """Collects rows, and is pending sometimes. At the end its partitions wait for one another."""

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
    """A Blocked with a future that is done at once, or soon by another thread."""
    future: Future[None] = Future()
    if rng.random() < 0.5:
        threading.Timer(rng.random() * 0.002, future.set_result, [None]).start()
    else:
        future.set_result(None)
    return qcore.Blocked(reason, future)


class Raising:
    """Operators that pass rows on. When together they got `left` batches, one of them raises."""

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
