"""Tasks: the low-level handle on a running plan, which takes splits and returns batches."""

from __future__ import annotations

import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.connectors.base import Split
from qcore.errors import MemoryLimitError, PlanError, QcoreError, Timeout
from qcore.lowering.lowered import LoweredPlan, Run
from qcore.lowering.pipelines import Lowering
from qcore.lowering.recursion import OrderedUnion, RecursiveRows
from qcore.plan import nodes as p
from qcore.session.output_buffers import OutputBufferManager, OutputBuffers
from qcore.session.scans import Scans, SplitFeed, expand_views
from qcore.session.task_iterator import TaskIterator
from qcore.writing.page_file import PageFile, PageFileWriter
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.execution.scheduler import WaitingForOthers, scheduler_of
from qcore_ext.execution.task import Task as EngineTask
from qcore_ext.flow.batch_queue import QueueReader
from qcore_ext.ground.error_text import explain_failure
from qcore_ext.ground.memory import Account
from qcore_ext.ground.process import check_not_leaving, current_process

# A wait for a batch is divided into slices of this length, so that Ctrl-C is noticed between them.
WAIT_SLICE_SECONDS = 0.05


class Handle:
    """Stops a task when it is freed. Every object through which the task can be read holds a reference to it.

    The scheduler keeps a running task alive. Without the handle, a task that can no longer be read would run on.
    """

    def __init__(self, engine: EngineTask, feed: SplitFeed) -> None:
        # Weak references: the scheduler holds a running task, and the error that ended a task holds the handle.
        weakref.finalize(self, _stop_unreachable, weakref.ref(engine), weakref.ref(feed)).atexit = False


def _stop_unreachable(engine: weakref.ref[EngineTask], feed: weakref.ref[SplitFeed]) -> None:
    """Stop a task whose last handle was freed. Does not wait, because it may run on any thread, also on a driver's."""
    running, feeding = engine(), feed()
    if running is not None and running.process != current_process():
        return
    if running is not None and running.state == "running":
        running.cancel("the last reference to the task was dropped")
    if feeding is not None:
        feeding.stop_soon()


class Task:
    """A running plan: pipelines of drivers that read splits.

    The task is cancelled when the last reference to it, to its iterators and to its OutputBuffers is dropped.

    Parameters
    ----------
    plan : PlanNode
        A plan from PlanBuilder.build() or another frontend. Scans without a source wait for add_split.
    drivers : int, optional
        Number of drivers of each pipeline that can be split, and of threads; by default one for each processor.
    memory_limit : int or str, optional
        Memory that the task may use, in the units of Session's `memory_limit`; by default no limit.
    batch_rows : int, optional
        Number of rows that sources aim at for each batch; by default 65,536.
    id : str, optional
        The name of the task's output in OutputBufferManager; by default a random one.

    Attributes
    ----------
    schema : pyarrow.Schema
        Schema of the batches as the plan declares it: every column nullable, dictionaries as their values.
    memory : Account
        The account that everything the query keeps is charged to.

    Raises
    ------
    PlanError
        The plan cannot run, or another task's output has the same `id`.

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> plan = qcore.PlanBuilder().values(pa.table({"a": [1, 2, 3]})).filter(qcore.col("a") > 1).build()
    >>> task = qcore.Task(plan, drivers=2)
    >>> sum(batch.num_rows for batch in task.batches())
    2
    """

    def __init__(
        self,
        plan: p.PlanNode,
        drivers: int | None = None,
        *,
        memory_limit: int | str | None = None,
        batch_rows: int | None = None,
        id: str | None = None,
    ) -> None:
        settings = Settings.make(drivers, memory_limit, batch_rows, None)
        self._open(lower_plan(plan, settings.threads), settings, id)

    @classmethod
    def of_plan(cls, plan: p.PlanNode, settings: Settings, reader: Account | None = None) -> Task:
        """Make a task with a session's settings. If `reader`, a query's account, is given, it stops with that query."""
        return cls.of_lowered(lower_plan(plan, settings.threads), settings, reader)

    @classmethod
    def of_lowered(cls, lowered: LoweredPlan, settings: Settings, reader: Account | None = None) -> Task:
        """Make a task of a lowered plan, which other tasks may use too, with as many threads as it is lowered for."""
        task = cls.__new__(cls)
        task._open(lowered, settings, reader=reader)
        return task

    def _open(
        self, lowered: LoweredPlan, settings: Settings, id: str | None = None, reader: Account | None = None
    ) -> None:
        self.settings = settings
        self.id = uuid.uuid4().hex if id is None else id
        self.plan = plan = lowered.plan
        self.schema: pa.Schema = lowered.schema
        self._scans = Scans(lowered, settings)
        self._last_schema = self.schema
        run = Run(lowered, settings, self._scans.open, recursion_opener(settings), reader)
        self.memory: Account = run.memory
        self._reader: Any = None if run.results is None else QueueReader(run.results)
        self._engine = EngineTask(
            [run.chains(pipeline) for pipeline in lowered.pipelines], run.memory, split_queues=run.split_queues
        )
        self._feed = SplitFeed(self._scans, self._engine)
        self._handle = Handle(self._engine, self._feed)
        self._output: OutputBuffers | None = None
        self._page_file: PageFileWriter | None = None
        if isinstance(run.output, PageFileWriter):
            self._page_file = run.output
        elif run.output is not None:
            assert isinstance(plan, p.PartitionedOutput)
            self._output = OutputBuffers(
                self.id, plan.kind, run.output, self.schema, self._engine, self._handle, self.memory
            )
            OutputBufferManager.instance().add(self._output)

    def add_split(self, node_id: str, split: Split) -> None:
        """Add a split to a scan node, at any time before no_more_splits.

        Raises
        ------
        PlanError
            The plan has no such node, or the node takes no splits: its table lists them.
        """
        self._scans.check_takes(node_id)
        self._engine.add_split(node_id, split)

    def no_more_splits(self, node_id: str) -> None:
        """Declare that a scan node gets no further splits."""
        self._engine.no_more_splits(node_id)

    @property
    def is_of_this_process(self) -> bool:
        """Whether the task was made in this process, and not in one that this process was forked from."""
        return self._engine.process == current_process()

    @property
    def state(self) -> str:
        """The task's state: created, running, finished, failed or cancelled."""
        return str(self._engine.state)

    def start(self) -> None:
        """Start the task on the scheduler's threads and return immediately.

        Raises
        ------
        QcoreError
            The task was made in a process that this one was forked from, or the interpreter is shutting down.
        """
        self._engine.check_process()
        if self._engine.state == "created":
            self._feed.begin()
            if self._engine.state != "created":
                return  # cancelled meanwhile
            try:
                self._engine.start(scheduler_of(self.settings.threads))
            except QcoreError:
                if self._engine.error is None:
                    raise
                # Another thread cancelled the task, or a source failed there: the task raises this to its reader.

    def output_buffers(self) -> OutputBuffers:
        """Start the task if needed, and return the output buffers of a plan that ends in partitioned_output().

        Raises
        ------
        PlanError
            The plan ends in something else, or in partitioned_output() with a path.
        """
        if self._output is None:
            raise PlanError("the plan does not end in partitioned_output() without a path: it has no output buffers")
        self.start()
        return self._output

    @property
    def page_file(self) -> PageFile | None:
        """The file that partitioned output with `single_file` wrote; None before the task has finished."""
        return None if self._page_file is None else self._page_file.file

    def _expect_batches(self) -> None:
        if self._output is not None:
            raise PlanError("the plan ends in partitioned_output(): its rows come from task.output_buffers()")

    def run_on_caller(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the result's batches. All work is done on this thread, when the next batch is asked for."""
        self._expect_batches()
        self._engine.check_process()
        try:
            self._feed.begin()
            while not self._engine.run_on_caller(until=self._reader):
                batch = self._reader.next_batch(timeout=0)
                if batch is None:
                    # All batches have been returned; the remaining drivers must still be closed.
                    self._engine.run_on_caller()
                    break
                yield self._in_schema(batch)
            yield from self._rest()
        finally:
            self._leave()

    def _rest(self) -> Iterator[pa.RecordBatch]:
        if self._reader is None:
            return
        while (batch := self._reader.next_batch()) is not None:
            yield self._in_schema(batch)

    def _in_schema(self, batch: Any) -> pa.RecordBatch:
        """Convert a batch to the schema of the last one. If the batch does not fit into it, widen that schema first.

        Drivers may have seen different schemas. Without the conversion the result's schema would alternate.
        """
        try:
            rows = pa.record_batch(batch)
        except MemoryLimitError as error:
            raise explain_failure(error, "ResultSink", "result", "converting rows for the reader") from None
        if not rows.schema.equals(self._last_schema):
            wide = widen_schemas(Schema(self._last_schema), Schema(rows.schema))
            self._last_schema = pa.schema(wide)
            rows = pa.record_batch(Widener(Account()).widen(PyBatch.from_arrow(rows, None, True), wide))
        return rows

    def batches(self, timeout: float | None = None, deadline: float | None = None) -> Iterator[pa.RecordBatch]:
        """Start the task if needed, and iterate over the result's batches. Leaving the loop early cancels the task.

        Parameters
        ----------
        timeout : float, optional
            Seconds from the first next() to the end of the task; by default no limit.
        deadline : float, optional
            When the task stops, by time.monotonic(), if a part of `timeout` was used before.

        Raises
        ------
        QcoreError
            The error that the task failed with.
        Timeout
            The task ran longer than `timeout`. It is cancelled.
        """
        self._expect_batches()
        if deadline is None and timeout is not None:
            deadline = time.monotonic() + timeout
        try:
            self.start()
            while self._reader is not None:
                batch = self._next_batch(deadline, timeout)
                if batch is None:
                    break
                yield self._in_schema(batch)
            self._wait_until(deadline, timeout)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Cancel the task if it still runs, and free everything. A forked child does nothing: the parent runs it."""
        if not self.is_of_this_process:
            return
        if self._engine.state == "running":
            self._engine.cancel()
            with WaitingForOthers():
                self._engine.settle()
        try:
            self._feed.end()
        finally:
            if self._reader is not None:
                self._reader.close()

    def _next_batch(self, deadline: float | None, timeout: float | None) -> Any:
        while True:
            self._engine.check_process()
            if deadline is not None and time.monotonic() > deadline and self._engine.state == "running":
                raise Timeout(f"the query ran longer than its timeout of {timeout} s")
            # Read before the queue: a task that is over puts nothing more into it. Reading the queue first would lose
            # batches that arrive between the two reads.
            over = self._engine.state not in ("created", "running")
            if not over:
                check_not_leaving()
            left = WAIT_SLICE_SECONDS
            if deadline is not None and not over:
                left = min(left, max(0.0, deadline - time.monotonic()))
            try:
                if self._reader.ready:
                    return self._reader.next_batch(timeout=left)
                with WaitingForOthers():
                    return self._reader.next_batch(timeout=left)
            except Timeout:
                if over:
                    return None

    def _wait_until(self, deadline: float | None, timeout: float | None) -> None:
        try:
            with WaitingForOthers():
                self._engine.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except Timeout:
            raise Timeout(f"the query ran longer than its timeout of {timeout} s") from None

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of a started task.

        Raises
        ------
        QcoreError
            The error that the task failed with.
        Timeout
            The task still runs after `timeout` seconds. It is not cancelled.
        """
        try:
            with WaitingForOthers():
                self._engine.wait(timeout)
        finally:
            if self._engine.state != "running" and self.is_of_this_process:
                self._feed.end()

    def cancel(self) -> None:
        """Stop the task, within the batch that each driver works on. Readers get Cancelled. Any thread may call it."""
        self._engine.cancel()

    def iterator(self) -> TaskIterator:
        """Return the running query as an iterator of outcomes."""
        return TaskIterator(self)

    def had_data(self) -> bool:
        """Whether a source returned a batch, or has rows that its statistics alone showed to fail the filters."""
        if any(pipeline["operators"][0]["output_batches"] > 0 for pipeline in self.stats()["pipelines"]):
            return True
        sources = [scan.source for scan in self._scans.nodes.values() if scan.source is not None]
        return any((source.statistics().row_count or 0) > 0 for source in sources)

    def progress(self) -> tuple[int, int]:
        """Return the number of splits read to their end and the number of splits added, over all scans."""
        done, added = self._engine.progress()
        return int(done), int(added)

    def stats(self) -> dict[str, Any]:
        """Return the counters of every operator and driver so far: rows, batches, bytes, and times in ns."""
        stats: dict[str, Any] = self._engine.stats()
        return stats


def lower_plan(plan: p.PlanNode, threads: int) -> LoweredPlan:
    """Lower a plan whose scans may name views, for tasks of that many threads."""
    return Lowering(threads).finish(expand_views(plan))


class LoweredPlans:
    """A plan, lowered at most once for each number of threads. Any thread may use it."""

    def __init__(self, plan: p.PlanNode, output_names: Sequence[str] | None = None) -> None:
        self._plan = plan
        names = plan.schema.names if output_names is None else output_names
        fields = zip(pa.schema(Schema(plan.schema)), names, strict=True)
        #: The result's schema, with the names that the query gives its columns.
        self.schema: pa.Schema = pa.schema([field.with_name(name) for field, name in fields])
        self._by_threads: dict[int, LoweredPlan] = {}

    def get(self, threads: int) -> LoweredPlan:
        """Return the plan, lowered for tasks of that many threads. PlanError if it cannot run."""
        lowered = self._by_threads.get(threads)
        if lowered is None:
            lowered = self._by_threads.setdefault(threads, lower_plan(self._plan, threads))
        return lowered


def recursion_opener(settings: Settings) -> Callable[[p.RecursiveUnion | OrderedUnion, Account], RecursiveRows]:
    """Return a function that opens the rows of a recursive or an ordered union as a stream.

    The rounds or inputs run on the thread that reads the stream, and stop with the query of that reader. On the
    scheduler's threads they could wait for the thread that waits for it.
    """
    alone = replace(settings, threads=1, timeout=None)

    def open_rows(node: p.RecursiveUnion | OrderedUnion, reader: Account) -> RecursiveRows:
        def run(plan: p.PlanNode) -> Iterator[pa.RecordBatch]:
            return Task.of_plan(plan, alone, reader).run_on_caller()

        return RecursiveRows(node, run, settings.memory_limit, reader)

    return open_rows
