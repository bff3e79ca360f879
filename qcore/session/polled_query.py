"""The engine's own operators in the polled protocol, for embedding and testing.

`polled(plan, partitions)` lowers a plan as a Task does, but runs nothing. The caller pushes, pulls and finishes each
partition of each operator, on its own threads and in its own event loop. It may also run a single operator.
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
from qcore.lowering.lowered import Pipeline, Run
from qcore.plan import nodes as p
from qcore.protocols import Blocked, Context, PollPull, PollPush
from qcore.session.scans import Scans
from qcore.session.task import lower_plan, recursion_opener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.execution.polled import Polled, PolledPartition
from qcore_ext.flow.batch_queue import QueueReader
from qcore_ext.ground.process import check_not_leaving, check_process, current_process


class _Embedded:
    """The state that the operators of one polled query share: its scans, its split queues, the opened partitions.

    A query refers to its operators and these refer to this object. Nothing refers back, so no reference cycle keeps
    them alive.
    """

    def __init__(self, scans: Scans, settings: Settings) -> None:
        self.settings = settings
        self.process = current_process()
        self.scans = scans
        self.queues: dict[str, Any] = {}
        self.opened: list[PolledPartition] = []

    def check_usable(self) -> None:
        """Raise QcoreError in a child of the process that made the query, and while the interpreter shuts down."""
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
    """The state that the partitions of a native operator share: opaque, made by init_global_state."""

    def __init__(self, operators: list[Any]) -> None:
        self.operators: list[Any | None] = list(operators)


class NativeOperator:
    """One operator of the engine with all its partitions. Everything that changes is in the global and local states.

    Several threads may poll different partitions at the same time, but each partition only one thread at a time. Before
    each poll the caller rearms the partition's waker. After PENDING another poll can make progress when the waker
    fired, or when the other side of the operator was polled.

    Attributes
    ----------
    name : str
        The operator's class, such as 'HashProbe'.
    node_id : str
        The plan node that the operator belongs to.
    role : str
        'source' (poll_pull), 'sink' (poll_push, finish) or 'operator' (all three).
    partitions : int
        Number of partitions. Each must be polled to its end, abandoned or closed, because others may wait for it.
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
        """Return the operator's class, node and role as text."""
        return repr(self)

    def context(self, partition: int | None = None) -> Context:
        """Return a context for the states and polls of one partition; with None, for init_global_state."""
        if partition is not None and not 0 <= partition < self.partitions:
            raise ValueError(f"{self.name} has partitions 0 to {self.partitions - 1}, not {partition}")
        return Context(self._embedded.settings, partition, self.partitions)

    def init_global_state(self, cx: Context) -> NativeState:
        """Return the state that the partitions share. Called once a query. A scan with a source gets its splits here.

        Raises
        ------
        PlanError
            The state was made before. Call polled() again for a second run.
        """
        self._embedded.check_usable()
        shared, self._unmade = self._unmade, None
        if shared is None:
            raise PlanError(f"{self.name} (node {self.node_id}): the global state was made before; call polled() again")
        if self.role == "source":
            self._embedded.feed(self.node_id)
        return shared

    def init_local_state(self, cx: Context, global_state: NativeState) -> PolledPartition:
        """Return the state of the partition `cx.partition`. Called once a partition. It wakes `cx.waker()`.

        Raises
        ------
        PlanError
            `cx` is the context of no partition, or the partition's state was made before.
        """
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
        """Offer a batch.

        Returns
        -------
        PollPush
            PUSHED: taken. `pending(batch)`: offer the same batch again. BREAK: no more are wanted; call finish().
        """
        answer = local.push(PyBatch.from_arrow(batch))
        if answer == Polled.PENDING:
            return PollPush.pending(batch)
        return PollPush.PUSHED if answer == Polled.PUSHED else PollPush.BREAK

    def poll_pull(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> PollPull:
        """Ask for the next batch.

        Returns
        -------
        PollPull
            `batch(b)`: a batch. PENDING: the operator waits, or needs a push. EXHAUSTED: the end; repeated calls return
            it again.
        """
        answer = local.pull()
        if isinstance(answer, PyBatch):
            return PollPull.batch(pa.record_batch(answer))
        return PollPull.PENDING if answer == Polled.PENDING else PollPull.EXHAUSTED

    def finish(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> Blocked | None:
        """End the partition's input.

        Returns
        -------
        Blocked or None
            None: done; pull the remaining batches. A Blocked: call finish() again when its future is done.
        """
        if local.finish():
            return None
        woken: Future[None] = Future()
        cx.waker().when_woken(lambda waker: None if woken.done() else woken.set_result(None))
        return Blocked(local.waits_for, woken)

    def abandon(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> None:
        """Stop the partition: no more output is wanted, and it leaves what others wait at. Only close() may follow."""
        local.close()

    def close(self, cx: Context, local: PolledPartition, global_state: NativeState, partition: int) -> None:
        """Release what the partition holds. Raises the error that a user's operator raised in its own close()."""
        local.close()

    def stats(self, local: PolledPartition) -> dict[str, Any]:
        """Return one partition's counters so far."""
        return local.stats()

    def take_unopened(self) -> list[PolledPartition]:
        """Take the partitions of a global state that was never asked for, to be closed. Later calls return none."""
        unmade, self._unmade = self._unmade, None
        operators = [] if unmade is None else filter(None, unmade.operators)
        return [PolledPartition(operator, self.role, threading.Event()) for operator in operators]


class PolledQuery:
    """A plan as operators that the caller polls; made by polled().

    Attributes
    ----------
    pipelines : tuple of tuples of NativeOperator
        The operators of each pipeline, source first. No pipeline feeds an earlier one. All operators of a pipeline have
        the same number of partitions. The last pipeline ends in a ResultSink, whose batches `results` returns. A caller
        that pulls from the operator in front of it need not use the sink.
    schema : pyarrow.Schema
        Schema of the result.
    settings : Settings
        The settings in the contexts of operators written in Python.
    """

    def __init__(self, plan: p.PlanNode, settings: Settings) -> None:
        lowered = lower_plan(plan, settings.threads)
        if lowered.output is not None:
            raise PlanError("polled() over partitioned_output() needs a path: pages in memory are fetched from a Task")
        self.settings = settings
        self.schema: pa.Schema = lowered.schema
        self._embedded = embedded = _Embedded(Scans(lowered, settings), settings)
        run = Run(lowered, settings, embedded.scans.open, recursion_opener(settings))
        embedded.queues = run.split_queues
        self._reader = None if run.results is None else QueueReader(run.results)
        self.pipelines = tuple(self._definitions(pipeline, run) for pipeline in lowered.pipelines)

    def _definitions(self, pipeline: Pipeline, run: Run) -> tuple[NativeOperator, ...]:
        steps = zip(pipeline.node_ids, zip(*run.chains(pipeline), strict=True), strict=True)
        last = len(pipeline.node_ids) - 1
        roles = {0: "source", last: "sink"}
        return tuple(
            NativeOperator(self._embedded, roles.get(position, "operator"), node_id, list(operators))
            for position, (node_id, operators) in enumerate(steps)
        )

    def add_split(self, node_id: str, split: Split) -> None:
        """Add a split to a scan node, at any time before no_more_splits.

        Raises
        ------
        PlanError
            The plan has no such node, or the node takes no splits: its table lists them.
        """
        self._embedded.scans.check_takes(node_id)
        self._embedded.queue(node_id).add(split)

    def no_more_splits(self, node_id: str) -> None:
        """Declare that a scan node gets no further splits."""
        self._embedded.queue(node_id).no_more()

    def results(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches that were pushed to the result sink and not taken yet. Never waits."""
        while self._reader is not None and self._reader.ready and (batch := self._reader.next_batch(0)) is not None:
            yield pa.record_batch(batch)

    def close(self) -> None:
        """Close every partition that is not closed yet, also those never begun. May be called again.

        In a forked child it does nothing: the process that made the query closes it.

        Raises
        ------
        QcoreError
            The first error that a user's operator raised in its own close(). All partitions are closed nevertheless.
        """
        if self._embedded.process != current_process():
            return
        partitions = [
            partition for pipeline in self.pipelines for operator in pipeline for partition in operator.take_unopened()
        ]
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
    """Return the operators of a plan, for the caller to push to and pull from.

    Parameters
    ----------
    plan : PlanNode
        A plan from PlanBuilder.build().
    partitions : int, optional
        Number of partitions of each pipeline that can be split; by default one for each processor.
    memory_limit, batch_rows
        As the parameters of Task.

    Raises
    ------
    PlanError
        The plan cannot run, or ends in partitioned_output() without a path.

    Examples
    --------
    A single operator, fed by the caller:

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
