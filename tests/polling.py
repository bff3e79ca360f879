"""A small scheduler over qcore.polled(): one thread polls one partition at a time, and only wakers continue a query."""

from __future__ import annotations

import random
import time
from typing import Any

import pyarrow as pa

import qcore
from qcore import NativeOperator, PollPull, PollPush


class Chain:
    """One partition of one pipeline, polled from its sink upstream."""

    def __init__(self, pipeline: tuple[NativeOperator, ...], shared: list[Any], partition: int) -> None:
        self.steps = pipeline
        self.shared = shared
        self.partition = partition
        self.cx = pipeline[0].context(partition)
        self.locals = [step.init_local_state(self.cx, state) for step, state in zip(pipeline, shared, strict=True)]
        self.offered: list[pa.RecordBatch | None] = [None] * len(pipeline)
        self.input_over = [False] * len(pipeline)
        self.done = [False] * len(pipeline)
        self.idle = False

    def states(self, position: int) -> tuple[Any, Any, Any]:
        return self.cx, self.locals[position], self.shared[position]

    @property
    def is_done(self) -> bool:
        return self.done[-1]

    def poll(self) -> None:
        """Poll all operators once. Sets `idle` if nothing changed: then only a wake-up makes another poll useful."""
        self.cx.waker().rearm()
        moved = [self._advance(position) for position in range(len(self.steps) - 1, 0, -1)]
        self.idle = not any(moved)
        if self.is_done:
            for position in range(len(self.steps) - 1, -1, -1):
                self.steps[position].close(*self.states(position), self.partition)

    def _advance(self, position: int) -> bool:
        """Push the output of the operator before to this one. Returns whether anything changed."""
        if self.done[position]:
            return False
        if self.input_over[position]:
            return self.steps[position].role == "sink" and self._finish(position)
        if self.offered[position] is None:
            pulled = self.steps[position - 1].poll_pull(*self.states(position - 1), self.partition)
            if pulled is PollPull.PENDING:
                return False
            if pulled is PollPull.EXHAUSTED:
                # FINISHED is returned again (D7).
                assert self.steps[position - 1].poll_pull(*self.states(position - 1), self.partition) is pulled
                self.done[position - 1] = True
                return self._finish(position)
            self.offered[position] = pulled.given
        offered = self.offered[position]
        assert offered is not None
        pushed = self.steps[position].poll_push(*self.states(position), offered, self.partition)
        if pushed is not PollPush.PUSHED and pushed is not PollPush.BREAK:
            assert pushed.refused is offered
            return False
        self.offered[position] = None
        if pushed is PollPush.BREAK:
            for above in range(position):
                self.done[above] = True
                self.steps[above].abandon(*self.states(above), self.partition)
            self._finish(position)
        return True

    def _finish(self, position: int) -> bool:
        """Finish an operator. Returns whether anything changed."""
        is_news = not self.input_over[position]
        self.input_over[position] = True
        blocked = self.steps[position].finish(*self.states(position), self.partition)
        if self.steps[position].role == "sink" and blocked is None:
            self.done[position] = True
            return True
        return is_news


def run_polled(
    plan: Any, partitions: int, rng: random.Random, timeout: float = 20, **options: Any
) -> list[pa.RecordBatch]:
    """Run a plan by polls only, with partitions in random order. Fails if no waker would let it continue."""
    deadline = time.monotonic() + timeout
    with qcore.polled(plan, partitions, **options) as query:
        chains = []
        for pipeline in query.pipelines:
            shared = [step.init_global_state(step.context()) for step in pipeline]
            chains.append([Chain(pipeline, shared, partition) for partition in range(pipeline[0].partitions)])
        rows: list[pa.RecordBatch] = []
        while not all(chain.is_done for chain in chains[-1]):
            ready = [
                chain
                for of in chains
                for chain in of
                if not chain.is_done and (not chain.idle or chain.cx.waker().woken)
            ]
            assert ready or time.monotonic() < deadline, "nobody was woken: a wake-up is lost"
            if ready:
                rng.choice(ready).poll()
            else:
                time.sleep(0.001)
            if rng.random() < 0.3 or not ready:
                rows += query.results()
        return rows + list(query.results())
