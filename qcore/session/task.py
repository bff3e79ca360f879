"""The low-level handle on a running plan: splits in, batches out (SPEC V3, V4, D2, D3)."""

from __future__ import annotations

import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.connectors.alignment import Alignment
from qcore.connectors.base import Split
from qcore.errors import MemoryLimitError, PlanError, QcoreError, Timeout
from qcore.lowering.pipelines import Lowering
from qcore.lowering.recursion import RecursiveRows
from qcore.plan import nodes as p
from qcore.protocols import IterOutcome
from qcore.session.output_buffers import OutputBufferManager, OutputBuffers
from qcore.session.scans import Scans, SplitFeed, expand_views
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widened
from qcore_ext.execution.scheduler import Scheduler, WaitingForOthers
from qcore_ext.execution.task import Task as EngineTask
from qcore_ext.flow.batch_queue import QueueReader
from qcore_ext.ground.error_text import explain_failure
from qcore_ext.ground.memory import Account
from qcore_ext.ground.process import ProcessLock, check_not_leaving, current_process

# Waiting for a batch is done in slices, so that Ctrl-C is seen.
WAIT_SLICE_SECONDS = 0.05

_schedulers: dict[int, Scheduler] = {}
_schedulers_lock = ProcessLock()


def scheduler_of(threads: int) -> Scheduler:
    """The process's scheduler with this many threads, shared by all that ask for as many."""
    with _schedulers_lock:
        scheduler = _schedulers.get(threads)
        if scheduler is None or not scheduler.usable:
            scheduler = _schedulers[threads] = Scheduler(threads)
        return scheduler


class Handle:
    """What everything refers to by which a task can be read: with the last of them it goes, and the task is stopped.

    The scheduler keeps a task that runs; without this it would run on, out of anybody's reach.
    """

    def __init__(self, engine: EngineTask, feed: SplitFeed) -> None:
        # By weak references: the scheduler holds a task that runs, and the error that one ended with holds the handle.
        weakref.finalize(self, _forget, weakref.ref(engine), weakref.ref(feed)).atexit = False


def _forget(engine: weakref.ref[EngineTask], feed: weakref.ref[SplitFeed]) -> None:
    """Stop a task that nobody can read. It does not wait: it may be called on any thread, a driver's included."""
    running, feeding = engine(), feed()
    if running is not None and running.process != current_process():
        return
    if running is not None and running.state == "running":
        running.cancel("nobody has a handle on the task any more")
    if feeding is not None:
        feeding.leave_soon()


class Task:
    """A plan being run: pipelines of drivers, fed with splits.

    It is cancelled when nobody has it any more: not the task, none of its iterators, and no OutputBuffers of it.

    Parameters
    ----------
    plan : PlanNode
        From PlanBuilder.build() or another frontend. Scans without a source wait for add_split.
    drivers : int, optional
        Drivers of each pipeline that can be split, and threads; by default one a processor.
    memory_limit : int or str, optional
        Memory that it may take, as Session's.
    batch_rows : int, optional
        Rows of a batch that sources aim at.
    id : str, optional
        By which OutputBufferManager knows its output; by default one of its own.

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
        self._open(plan, Settings.make(drivers, memory_limit, batch_rows, None), id)

    @classmethod
    def of_plan(cls, plan: p.PlanNode, settings: Settings, reader: Account | None = None) -> Task:
        """A task under a session's settings. It stops with the query of the account `reader`, if that is given."""
        task = cls.__new__(cls)
        task._open(plan, settings, reader=reader)
        return task

    def _open(self, plan: p.PlanNode, settings: Settings, id: str | None = None, reader: Account | None = None) -> None:
        self.settings = settings
        self.id = uuid.uuid4().hex if id is None else id
        self.plan = plan = expand_views(plan)
        #: Schema of the batches, as the engine gives them: every column nullable, dictionaries as their values.
        self.schema: pa.Schema = pa.schema(Schema(plan.schema))
        self._scans = Scans(plan, settings)
        self._told = self.schema
        lowering = Lowering(settings, self._scans.open, recursion_opener(settings), reader)
        lowered = lowering.finish(plan)
        #: What the query keeps is charged here.
        self.memory: Account = lowered.memory
        self._reader: Any = None if lowered.results is None else QueueReader(lowered.results)
        self._engine = EngineTask(
            [pipeline.chains(lowered.memory) for pipeline in lowered.pipelines],
            lowered.memory,
            split_queues=lowered.split_queues,
        )
        self._feed = SplitFeed(self._scans, self._engine)
        self._handle = Handle(self._engine, self._feed)
        self._output: OutputBuffers | None = None
        if lowered.output is not None:
            assert isinstance(plan, p.PartitionedOutput)
            self._output = OutputBuffers(self.id, plan.kind, lowered.output, self.schema, self._engine, self._handle)
            OutputBufferManager.instance().add(self._output)

    # --- splits ---

    def add_split(self, node_id: str, split: Split) -> None:
        """Give a scan node one more split, at any time until no_more_splits. PlanError for a node that takes none."""
        self._engine.add_split(node_id, split)

    def no_more_splits(self, node_id: str) -> None:
        """Say that a scan node gets no further split."""
        self._engine.no_more_splits(node_id)

    # --- running ---

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was made here, and not in a process that this one was forked from."""
        return self._engine.process == current_process()

    @property
    def state(self) -> str:
        """created, running, finished, failed or cancelled."""
        return str(self._engine.state)

    def start(self) -> None:
        """Let the scheduler's threads run it; returns at once.

        Raises
        ------
        QcoreError
            The task was made in the process that this one was forked from, or the interpreter is shutting down.
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
                # Another thread cancelled it, or a source failed there: whoever waits for it learns that.

    def output_buffers(self) -> OutputBuffers:
        """The pages of a plan that ends in partitioned_output(); starts the task if need be (SPEC V11).

        Raises
        ------
        PlanError
            The plan ends otherwise, or in files.
        """
        if self._output is None:
            raise PlanError("the plan does not end in partitioned_output() without a path: it has no output buffers")
        self.start()
        return self._output

    def _expect_batches(self) -> None:
        if self._output is not None:
            raise PlanError("the plan ends in partitioned_output(): its rows come from task.output_buffers()")

    def run_on_caller(self) -> Iterator[pa.RecordBatch]:
        """The result's batches, computed on this thread alone as they are asked for (SPEC D3)."""
        self._expect_batches()
        self._engine.check_process()
        try:
            self._feed.begin()
            while not self._engine.run_on_caller(until=self._reader):
                batch = self._reader.next_batch(timeout=0)
                if batch is None:
                    # All batches are out, but drivers are left to be closed.
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
        """The batch under the schema of the last one, which grows where the batch does not go into it (SPEC D6).

        Drivers may have seen different schemas: told as they come, one would change to another and back.
        """
        try:
            rows = pa.record_batch(batch)
        except MemoryLimitError as error:
            raise explain_failure(error, "ResultSink", "result", "laying rows out for the reader") from None
        if not rows.schema.equals(self._told):
            self._told = pa.schema(widened(Schema(self._told), Schema(rows.schema)))
            alignment = Alignment(rows.schema, list(self._told), "the result", absent_is_null=True)
            rows = alignment.batch(rows).cast(self._told)
        return rows

    def batches(self, timeout: float | None = None) -> Iterator[pa.RecordBatch]:
        """The result's batches as they come; starts the task if need be.

        Raises
        ------
        QcoreError
            What the task failed with. Leaving the loop early cancels the task.
        Timeout
            `timeout` seconds after the first batch was asked for, the task is still running; it is cancelled.
        """
        self._expect_batches()
        deadline = None if timeout is None else time.monotonic() + timeout
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
        """End what still runs, and free everything. In a forked child it runs on in the parent."""
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
            # Asked before the queue is: a task that was over by then puts nothing more into it. The other way round,
            # batches that came between would be lost.
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
        """Wait for the end of a started task; raises what it failed with, or Timeout after `timeout` seconds."""
        try:
            with WaitingForOthers():
                self._engine.wait(timeout)
        finally:
            if self._engine.state != "running" and self.is_of_this_process:
                self._feed.end()

    def cancel(self) -> None:
        """Stop it, from any thread, within the batch it works on; whoever waits for it gets Cancelled."""
        self._engine.cancel()

    def iterator(self) -> TaskIterator:
        """The running query as an iterator of outcomes (SPEC D2)."""
        return TaskIterator(self)

    def had_data(self) -> bool:
        """Whether a source gave a batch, or would have if statistics had not shown that none of its rows can pass."""
        if any(pipeline["operators"][0]["output_batches"] > 0 for pipeline in self.stats()["pipelines"]):
            return True
        sources = [scan.source for scan in self._scans.nodes.values() if scan.source is not None]
        return any((source.statistics().row_count or 0) > 0 for source in sources)

    # --- counters ---

    def progress(self) -> tuple[int, int]:
        """Splits read to their end, and splits added, of all scans together."""
        done, added = self._engine.progress()
        return int(done), int(added)

    def stats(self) -> dict[str, Any]:
        """Figures of every operator and driver (SPEC V14), at any time."""
        stats: dict[str, Any] = self._engine.stats()
        return stats


class TaskIterator:
    """next() → IterOutcome; then `batch` and `schema`. close() at the end, or earlier (SPEC D2, D5, D7, D8)."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._batches = task.batches()
        self._outcome: IterOutcome | None = None
        #: The rows of the last OK or OK_NEW_SCHEMA; None otherwise.
        self.batch: pa.RecordBatch | None = None
        #: The schema of the last rows; the declared one before the first.
        self.schema: pa.Schema = task.schema
        #: What STOP is about.
        self.error: BaseException | None = None

    def next(self) -> IterOutcome:
        """Go on to the next batch. After NONE or STOP it stays so.

        STOP is about an ExecutionError that names the operator, whatever the operator raised: SystemExit, GeneratorExit
        and CancelledError too, which would otherwise end the program, generator or coroutine that reads the query. What
        is raised in the thread that calls next(), Ctrl-C above all, is raised here, and next() is STOP from then on.
        """
        self.batch = None
        if self._outcome in (IterOutcome.NONE, IterOutcome.STOP):
            return self._outcome
        first = self._outcome is None
        # Until it has come to another end: a generator that raised would say that there is no more, and so NONE.
        self._outcome = IterOutcome.STOP
        try:
            batch = next(self._batches, None)
            had_data = batch is None and first and self._task.had_data()
        except BaseException as error:
            self.error = error
            if isinstance(error, Exception):
                return self._outcome
            raise
        if batch is None:
            self._outcome = IterOutcome.NONE
            if had_data:
                # All rows were filtered away: who asks learns the schema (SPEC D5).
                self.batch = pa.RecordBatch.from_pylist([], schema=self.schema)
                self._outcome = IterOutcome.OK_NEW_SCHEMA
            return self._outcome
        changed = first or not batch.schema.equals(self.schema)
        self.batch = batch
        self.schema = batch.schema
        self._outcome = IterOutcome.OK_NEW_SCHEMA if changed else IterOutcome.OK
        return self._outcome

    def close(self) -> None:
        """End the query, if it still runs, and free everything. May be called again."""
        self.batch = None
        if self._outcome is None:
            # Not begun: the generator has nothing to end.
            self._task.cancel()
        self._batches.close()  # type: ignore[attr-defined]
        if self._outcome is not IterOutcome.STOP:
            self._outcome = IterOutcome.NONE


def recursion_opener(settings: Settings) -> Callable[[p.RecursiveUnion, Account], RecursiveRows]:
    """What opens the rows of a RecursiveUnion as a stream. Its rounds run on the thread that reads it: a round that
    waited for the scheduler's threads could wait for the one it is on. They stop with the query that reads them.
    """
    alone = replace(settings, threads=1, timeout=None)

    def opened(node: p.RecursiveUnion, reader: Account) -> RecursiveRows:
        def run(plan: p.PlanNode) -> Iterator[pa.RecordBatch]:
            return Task.of_plan(plan, alone, reader).run_on_caller()

        return RecursiveRows(node, run, settings.memory_limit, reader)

    return opened
