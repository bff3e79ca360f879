"""The engine's own operators in the polled protocol, for embedding and testing (SPEC G1, G2, G4).

`polled(plan, partitions)` lowers a plan as a Task does, but runs nothing: whoever embeds it pushes, pulls and finishes
each partition of each operator on threads of its own choosing, in its own event loop, one operator alone if it likes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.connectors.base import Split
from qcore.errors import PlanError, QcoreError
from qcore.lowering.pipelines import Lowered, Lowering, Pipeline
from qcore.plan import nodes as p
from qcore.protocols import Blocked, Context, PollPull, PollPush
from qcore.session.scans import Scans, expand_views
from qcore.session.task import recursion_opener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.execution.polled import Polled, PolledPartition
from qcore_ext.flow.batch_queue import QueueReader
from qcore_ext.ground.memory import Account
from qcore_ext.ground.process import check_not_leaving, check_process, current_process


class _Embedded:
    """What the operators of one polled query share: its sources, what was opened, what failed.

    The query has its operators and they have this: nobody refers back, so nothing waits for the garbage collector.
    """

    def __init__(self, plan: p.PlanNode, settings: Settings) -> None:
        self.settings = settings
        self.process = current_process()
        self.scans = Scans(plan, settings)
        self.queues: dict[str, Any] = {}
        self.opened: list[PolledPartition] = []

    def check_usable(self) -> None:
        """QcoreError in a child of the process that made it, and once the interpreter is leaving."""
        check_process(self.process)
        check_not_leaving()

    def queue(self, node_id: str) -> Any:
        self.check_usable()
        if node_id not in self.queues:
            known = ", ".join(map(repr, self.queues)) or "none"
            raise PlanError(f"no source node {node_id!r} takes splits; nodes that do: {known}")
        return self.queues[node_id]

    def feed(self, node_id: str) -> None:
        scan = self.scans.nodes.get(node_id)
        if scan is not None and scan.source is not None:
            for split in self.scans.splits(scan):
                self.queue(node_id).add(split)
            self.queue(node_id).no_more()


class NativeState:
    """What the partitions of a native operator share: opaque, from init_global_state."""

    def __init__(self, operators: list[Any]) -> None:
        self.operators: list[Any | None] = list(operators)


class NativeOperator:
    """One operator of the engine for all its partitions; what changes lies in the states (SPEC G2).

    Partitions are independent: different threads may poll different ones at the same time, each one partition at a
    time. Before it polls, the caller rearms the partition's waker; a poll that answers PENDING is worth repeating
    after a wake, and after the operator's other side was polled.

    Attributes
    ----------
    name : str
        Class of operator, such as 'HashProbe'.
    node_id : str
        Plan node it belongs to.
    role : str
        'source' (poll_pull), 'sink' (poll_push, finish) or 'operator' (all three).
    partitions : int
        Each of them must be polled to its end, abandoned or closed: others may wait for it.
    """

    def __init__(self, embedded: _Embedded, role: str, node_id: str, operators: list[Any]) -> None:
        self._embedded = embedded
        self._unmade: NativeState | None = NativeState(operators)
        self.name: str = operators[0].name
        self.node_id = node_id
        self.role = role
        self.partitions = len(operators)

    def __repr__(self) -> str:
        return f"{self.name} (node {self.node_id}): {self.role}, {self.partitions} partitions"

    def explain(self) -> str:
        """Class, node and role."""
        return repr(self)

    def context(self, partition: int | None = None) -> Context:
        """A context for the states and polls of one partition; None: for init_global_state."""
        if partition is not None and not 0 <= partition < self.partitions:
            raise ValueError(f"{self.name} has partitions 0 to {self.partitions - 1}, not {partition}")
        return Context(self._embedded.settings, partition, self.partitions)

    def init_global_state(self, cx: Context) -> NativeState:
        """What the partitions share; once a query. A scan of a source gets its splits here.

        Raises
        ------
        PlanError
            It was made before. A second run takes a second polled().
        """
        self._embedded.check_usable()
        shared, self._unmade = self._unmade, None
        if shared is None:
            raise PlanError(f"{self.name} (node {self.node_id}): the global state was made before; call polled() again")
        if self.role == "source":
            self._embedded.feed(self.node_id)
        return shared

    def init_local_state(self, cx: Context, global_state: NativeState) -> PolledPartition:
        """One partition's state; once a partition (`cx.partition`). It wakes `cx.waker()`."""
        if cx.partition is None:
            raise PlanError(f"{self.name} (node {self.node_id}): init_local_state needs the context of a partition")
        self._embedded.check_usable()
        operator, global_state.operators[cx.partition] = global_state.operators[cx.partition], None
        if operator is None:
            raise PlanError(
                f"{self.name} (node {self.node_id}): the local state of partition {cx.partition} was made before"
            )
        local = PolledPartition(operator, self.role, cx.waker())
        self._embedded.opened.append(local)
        return local

    def poll_push(
        self, cx: Context, local: PolledPartition, global_state: NativeState, batch: pa.RecordBatch, partition: int
    ) -> PollPush:
        """Offer a batch: PUSHED; pending(batch) to have the same offered again; BREAK: no more, call finish()."""
        answer = local.push(PyBatch.from_arrow(batch))
        if answer == Polled.PENDING:
            return PollPush.pending(batch)
        return PollPush.PUSHED if answer == Polled.PUSHED else PollPush.BREAK

    def poll_pull(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> PollPull:
        """The next batch(b); PENDING: it waits, or needs a push; EXHAUSTED: the end, again and again."""
        answer = local.pull()
        if isinstance(answer, PyBatch):
            return PollPull.batch(pa.record_batch(answer))
        return PollPull.PENDING if answer == Polled.PENDING else PollPull.EXHAUSTED

    def finish(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> Blocked | None:
        """No further push comes. None: done, but for what is left to pull; a Blocked: call again once it is over."""
        if local.finish():
            return None
        woken: Future[None] = Future()
        cx.waker().when_woken(lambda waker: None if woken.done() else woken.set_result(None))
        return Blocked(local.waits_for, woken)

    def abandon(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> None:
        """Nobody wants more of this partition: it leaves what others wait at. Only close() may follow."""
        local.close()

    def close(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> None:
        """Release what the partition holds. Raises what a user's operator raised in its own close."""
        local.close()

    def stats(self, local: PolledPartition) -> dict[str, Any]:
        """One partition's counters so far (SPEC V14)."""
        return local.stats()


class PolledQuery:
    """A plan as operators to be polled: made by polled().

    Attributes
    ----------
    pipelines : tuple of tuples of NativeOperator
        Source first, in the order in which they were cut: none feeds one before it. The operators of a pipeline have
        as many partitions. The last pipeline ends in a ResultSink, whose batches `results` gives; who pulls from the
        operator before it may leave the sink alone.
    schema : pyarrow.Schema
        Of the result.
    settings : Settings
        Operators written in Python see them in their context (SPEC G6).
    """

    def __init__(self, plan: p.PlanNode, settings: Settings) -> None:
        plan = expand_views(plan)
        self.settings = settings
        self.schema: pa.Schema = pa.schema(Schema(plan.schema))
        self._embedded = embedded = _Embedded(plan, settings)
        lowered: Lowered = Lowering(settings, embedded.scans.open, recursion_opener(settings)).finish(plan)
        if lowered.output is not None:
            raise PlanError("polled() over partitioned_output() needs a path: pages in memory are fetched from a Task")
        embedded.queues = lowered.split_queues
        self._reader = None if lowered.results is None else QueueReader(lowered.results)
        self.pipelines = tuple(self._definitions(pipeline, lowered.memory) for pipeline in lowered.pipelines)

    def _definitions(self, pipeline: Pipeline, memory: Account) -> tuple[NativeOperator, ...]:
        steps = zip(pipeline.node_ids, zip(*pipeline.chains(memory), strict=True), strict=True)
        last = len(pipeline.node_ids) - 1
        roles = {0: "source", last: "sink"}
        return tuple(
            NativeOperator(self._embedded, roles.get(position, "operator"), node_id, list(operators))
            for position, (node_id, operators) in enumerate(steps)
        )

    def add_split(self, node_id: str, split: Split) -> None:
        """Give a scan node one more split, at any time until no_more_splits."""
        self._embedded.queue(node_id).add(split)

    def no_more_splits(self, node_id: str) -> None:
        """Say that a scan node gets no further split."""
        self._embedded.queue(node_id).no_more()

    def results(self) -> Iterator[pa.RecordBatch]:
        """The batches that the result sink was pushed and nobody took yet; never waits."""
        while self._reader is not None and self._reader.ready and (batch := self._reader.next_batch(0)) is not None:
            yield pa.record_batch(batch)

    def close(self) -> None:
        """Close every partition not closed yet, those never begun included. May be called again.

        Raises, once all are closed, the first of what users' operators raised in their own close. In a child of the
        process that made it nothing is closed: that process does so.
        """
        if self._embedded.process != current_process():
            return
        partitions: list[PolledPartition] = []
        for pipeline in self.pipelines:
            for definition in pipeline:
                unmade, definition._unmade = definition._unmade, None
                for operator in [] if unmade is None else filter(None, unmade.operators):
                    partitions.append(PolledPartition(operator, definition.role, threading.Event()))
        opened = self._embedded.opened
        while opened:
            partitions.append(opened.pop())
        raised: list[BaseException] = []
        for partition in partitions:
            try:
                partition.close()
            except BaseException as error:
                raised.append(error)
        if self._reader is not None:
            self._reader.close()
        if raised:
            raise raised[0]

    def __enter__(self) -> PolledQuery:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        except QcoreError:
            if error[0] is None:
                raise


def polled(
    plan: p.PlanNode,
    partitions: int | None = None,
    *,
    memory_limit: int | str | None = None,
    batch_rows: int | None = None,
) -> PolledQuery:
    """A plan's operators, to be pushed and pulled by hand (SPEC G1, G2).

    Parameters
    ----------
    plan : PlanNode
        From PlanBuilder.build().
    partitions : int, optional
        Of each pipeline that can be split; by default one a processor.
    memory_limit, batch_rows
        As Task's.

    Examples
    --------
    One operator alone, fed by hand:

    >>> import pyarrow as pa, qcore
    >>> rows = pa.record_batch({"a": [1, 2, 3]})
    >>> plan = qcore.PlanBuilder().scan("t", schema=rows.schema).filter(qcore.col("a") > 1).build()
    >>> with qcore.polled(plan, partitions=1) as query:
    ...     scan, only, sink = query.pipelines[0]
    ...     cx = only.context(0)
    ...     shared = only.init_global_state(cx)
    ...     local = only.init_local_state(cx, shared)
    ...     only.poll_push(cx, local, shared, rows, 0), only.poll_pull(cx, local, shared, 0).given.to_pydict()
    (PollPush.PUSHED, {'a': [2, 3]})
    """
    return PolledQuery(plan, Settings.make(partitions, memory_limit, batch_rows, None))
