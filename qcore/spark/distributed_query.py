"""A query on Spark: its stages as Spark jobs, decided one after another by the sizes of what was written before."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from qcore.config import Settings, bytes_of
from qcore.connectors.base import Split
from qcore.errors import Cancelled, PlanError, Timeout
from qcore.lowering.runtime_filters import source_filter
from qcore.plan import nodes as p
from qcore.session.explain import explain_plan
from qcore.session.plan_cache import PlannedQuery
from qcore.session.result import Result
from qcore.spark.carriers import Carrier, FolderCarrier, carrier_of
from qcore.spark.driver_job import DriverJob
from qcore.spark.exchange import shared_folder
from qcore.spark.file_assignment import (
    assign_splits,
    bytes_of_splits,
    group_partitions,
    n_tasks_for,
    split_bytes,
)
from qcore.spark.fragments import Limits, estimated_rows, next_stages, with_output
from qcore.spark.frames import frame_of_files, frame_of_rows, spark_arrow_schema
from qcore.spark.page_files import PagesTable, QueryFolder, sweep
from qcore.spark.plan_bytes import plan_to_bytes
from qcore.spark.spark_job import SparkJob, is_connect
from qcore.spark.stage_parts import ALL, PARTITION, Stage
from qcore.spark.stage_stats import StageRun, describe, stages_text
from qcore.spark.stage_task import StageWork, TaskReport, TaskWork
from qcore.writing.key_filter_file import write_key_filter
from qcore_ext.execution.scheduler import WaitingForOthers
from qcore_ext.ground.process import ProcessLock

if TYPE_CHECKING:
    import pandas

# Settings of Spark's session, with the fields of Limits that they set.
TASKS_CONF = "spark.qcore.tasks"
BYTES_CONFS = {
    "spark.qcore.broadcast.bytes": "broadcast_bytes",
    "spark.qcore.driver.bytes": "driver_bytes",
    "spark.qcore.partition.bytes": "partition_bytes",
}
# Bytes a second that one task writes to the exchange's folder and reads. If that is slow, more pages are compressed.
SPEED_CONF = "spark.qcore.exchange.speed"
# The rate of a local disk with its cache, and of 10 Gbit/s shared by the eight cores of a machine.
LOCAL_SPEED, SHARED_SPEED = 10**9, 125 * 10**6
# Splits asked of a table for each task.
SPLITS_PER_TASK = 8
# A byte of files counts as this many bytes of pages, where a stage runs in this process because it reads few.
FILES_SHARE = 4
# A wait is cut into slices of this length, so that Ctrl-C and a cancel from another thread are seen.
WAIT_SLICE_SECONDS = 0.1

StageJob: TypeAlias = "SparkJob[list[TaskReport]] | DriverJob"


def limits_of(session: Any) -> Limits:
    """Return how plans are cut on a session of Spark: by its cores, and by its settings."""
    sizes: dict[str, int] = {}
    for name, field in BYTES_CONFS.items():
        n_bytes = bytes_of(session.conf.get(name, None), name)
        if n_bytes is not None:
            sizes[field] = n_bytes
    speed = bytes_of(session.conf.get(SPEED_CONF, None), SPEED_CONF)
    if speed is None:
        is_local = (session.conf.get("spark.master", None) or "").startswith("local")
        speed = LOCAL_SPEED if is_local else SHARED_SPEED
    return Limits(n_tasks=n_slots(session), byte_nanos=2e9 / speed, **sizes)


def n_slots(session: Any) -> int:
    """Return how many tasks can run at once.

    Raises
    ------
    PlanError
        `spark.qcore.tasks` is no positive number; or it is missing, and Spark Connect does not tell the cores.
    """
    given = session.conf.get(TASKS_CONF, None)
    if given is not None:
        if not str(given).isdecimal() or int(given) < 1:
            raise PlanError(f"{TASKS_CONF} is {given!r}: it is the number of tasks that run at once, such as 16")
        return int(given)
    cpus = max(1, int(session.conf.get("spark.task.cpus", None) or 1))
    if not is_connect(session):
        return max(1, int(session.sparkContext.defaultParallelism) // cpus)
    parallelism = session.conf.get("spark.default.parallelism", None)
    if parallelism is None:
        raise PlanError(
            f"Spark Connect does not tell how many cores there are: set {TASKS_CONF} to the number of tasks that can "
            "run at once"
        )
    return max(1, int(parallelism) // cpus)


class StageLoop:
    """Runs the stages of one query. One thread runs it; any thread may cancel it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session that runs the stages.
    plan : PlanNode
        An optimized plan.
    settings : Settings
        The settings of the query.
    folder : QueryFolder
        The folder for the files of tasks and of stages in this process.
    carrier : Carrier, optional
        How pages go between stages. Default: as files in the folder.
    """

    def __init__(
        self, session: Any, plan: p.PlanNode, settings: Settings, folder: QueryFolder, carrier: Carrier | None = None
    ) -> None:
        #: The stages that ran or run.
        self.runs: list[StageRun] = []
        self._session = session
        self._plan = plan
        self._settings = settings
        self._folder = folder
        self._carrier = FolderCarrier(session) if carrier is None else carrier
        self._limits = limits_of(session)
        self._planned = estimated_rows(plan)
        #: Stages that run, with their jobs. Stages of this process run one after another.
        self._running: list[tuple[StageRun, StageJob]] = []
        self._waiting: deque[tuple[StageRun, DriverJob]] = deque()
        self._cancelled = False
        #: Set when a job has ended or the query was cancelled.
        self._news = threading.Event()

    def run(self, deadline: float | None) -> p.PlanNode:
        """Run all stages. Return the rest of the plan, which reads their rows.

        A stage starts as soon as the stages whose rows it reads have ended.

        Raises
        ------
        QcoreError
            A stage failed; Cancelled or Timeout if it was stopped. No job runs afterwards.
        """
        plan = self._plan
        try:
            while True:
                under_way = {run.stage.replaces for run in self.runs if run.table is None}
                for stage in next_stages(plan, self._limits, len(self.runs) + 1, under_way, self._planned):
                    self._check(deadline)
                    self._start(stage, deadline)
                if not self._running:
                    return self._with_local_tables(plan, deadline)
                for run in self._wait_for_stages(deadline):
                    assert run.table is not None
                    plan = with_output(plan, run.stage, run.table)
        finally:
            for _, job in self._running:
                job.stop()
            self._carrier.close()

    def cancel(self) -> None:
        """Stop the stages that run. Any thread may call it."""
        self._cancelled = True
        for _, job in list(self._running):
            job.cancel()
        self._news.set()

    def progress(self) -> tuple[int, int]:
        """Return how many tasks have ended, and how many have been started."""
        done = sum(run.n_tasks for run in self.runs if run.table is not None)
        running = [job for run, job in list(self._running) if run.table is None]
        return done + sum(job.progress()[0] for job in running), sum(run.n_tasks for run in self.runs)

    def _start(self, stage: Stage, deadline: float | None) -> None:
        """Start a stage. One of this process waits for the end of the one before."""
        if not self._carrier.shares_files:
            # Filters are files of this process, which tasks could not read.
            stage = stage.without_key_filter()
        elif stage.filtered_by is not None:
            stage = stage.with_key_filter(write_key_filter(stage.filtered_by.files, self._folder.new_file()))
        tasks = self._tasks(stage)
        here = stage.on_driver or self._is_small(stage, tasks) or not self._carrier.can_run(stage)
        for table in self._carrier.to_fetch(stage, len(tasks), here):
            self._fetch(table, deadline)
        tasks = self._carrier.place(stage, tasks)
        run = StageRun(stage, 1 if here else len(tasks), here)
        self.runs.append(run)
        if here:
            work, path = together(stage, tasks), self._folder.new_file()
            self._waiting.append((run, DriverJob(stage, work, path, self._settings, self._news.set)))
            self._start_waiting()
            return
        title = f"qcore, stage {stage.number}: {describe(stage)}"
        job = self._carrier.job(title, stage, self._work(stage), tasks, self._news.set)
        self._running.append((run, job))
        job.start()

    def _fetch(self, table: PagesTable, deadline: float | None) -> None:
        """Copy what tasks wrote to this process."""
        job = self._carrier.fetch_job(table, self._folder)
        job.start()
        try:
            with WaitingForOthers():
                while not job.wait(WAIT_SLICE_SECONDS):
                    self._check(deadline)
        finally:
            job.stop()
        job.result()

    def _with_local_tables(self, node: p.PlanNode, deadline: float | None) -> p.PlanNode:
        """Return a plan whose tables of stages can be read by this process."""
        if isinstance(node, p.Scan):
            if not isinstance(node.source, PagesTable):
                return node
            if self._carrier.local(node.source) is None:
                self._fetch(node.source, deadline)
            return node.with_fields(source=self._carrier.local(node.source))
        if not node.children:
            return node
        return node.with_children(*(self._with_local_tables(child, deadline) for child in node.children))

    def _start_waiting(self) -> None:
        """Start the next stage of this process, if none runs."""
        if self._waiting and not any(run.on_driver for run, _ in self._running):
            run, job = self._waiting.popleft()
            run.started = time.monotonic()
            self._running.append((run, job))
            job.start()

    def _wait_for_stages(self, deadline: float | None) -> list[StageRun]:
        """Wait until stages have ended, and return them."""
        while True:
            with WaitingForOthers():
                self._news.wait(WAIT_SLICE_SECONDS)
            self._check(deadline)
            self._news.clear()
            ended = {run.stage.number: (run, job) for run, job in self._running if job.is_done}
            for run, job in ended.values():
                self._finish(run, job.result())
            if ended:
                self._running = [held for held in self._running if held[0].stage.number not in ended]
                self._start_waiting()
                return [run for run, _ in ended.values()]

    def _check(self, deadline: float | None) -> None:
        if self._cancelled:
            raise Cancelled("the query was cancelled")
        if deadline is not None and time.monotonic() > deadline:
            raise Timeout(f"the query ran longer than its timeout of {self._settings.timeout} s")

    def _finish(self, run: StageRun, reports: list[TaskReport]) -> None:
        stage = run.stage
        run.reports = reports
        run.wall_seconds = time.monotonic() - run.started
        files = [report.file for report in reports]
        run.table = PagesTable(stage.plan.schema, files, stage.n_partitions, stage.keys)

    def _work(self, stage: Stage) -> StageWork:
        plan = plan_to_bytes(stage.plan)
        return StageWork(stage.number, plan, self._folder.path, self._settings.memory_limit, self._settings.batch_rows)

    def _tasks(self, stage: Stage) -> list[TaskWork]:
        """Return what each task of a stage reads."""
        listed: dict[str, list[Split]] = {}
        for scan, how in stage.reads.items():
            if how != PARTITION:
                listed[scan] = self._splits(stage.scans[scan])
        shared = [splits for scan, splits in listed.items() if stage.reads[scan] != ALL]
        groups = self._group_partitions(stage)
        n_tasks = len(groups) or stage.n_tasks or self._carrier.n_tasks(stage)
        if n_tasks is None:
            sizes = [sum(bytes_of_splits(splits)) for splits in shared]
            n_tasks = n_tasks_for(sum(sizes), max(map(len, shared), default=0), self._limits.n_tasks)
        given: list[dict[str, list[Split]]] = [{} for _ in range(n_tasks)]
        for scan, how in stage.reads.items():
            if how == PARTITION:
                for task, group in enumerate(groups):
                    given[task][scan] = stage.scans[scan].source.splits_of(*group)
            else:
                shares = [listed[scan]] * n_tasks if how == ALL else assign_splits(listed[scan], n_tasks)
                for task in range(n_tasks):
                    given[task][scan] = shares[task]
        return [TaskWork(task, splits) for task, splits in enumerate(given)]

    def _group_partitions(self, stage: Stage) -> list[list[int]]:
        """The partitions that each task reads; empty if the stage reads none."""
        sizes = stage.partition_bytes()
        if not self._carrier.shares_files:
            # A task reads the slot of its number from Spark's shuffle.
            return [[partition] for partition in range(len(sizes))]
        return group_partitions(sizes, self._limits.n_tasks, self._limits.partition_bytes)

    def _splits(self, scan: p.Scan) -> list[Split]:
        target = self._limits.n_tasks * SPLITS_PER_TASK
        splits = scan.source.splits(scan.columns, source_filter(scan), target)
        try:
            return list(splits)
        finally:
            close = getattr(splits, "close", None)
            if close is not None:
                close()

    def _is_small(self, stage: Stage, tasks: Sequence[TaskWork]) -> bool:
        """Whether a stage reads so few bytes that starting a job of Spark would take longer than its work."""
        if not stage.reads:
            return False
        n_bytes = 0
        for scan, splits in together(stage, tasks).splits.items():
            share = 1 if isinstance(stage.scans[scan].source, PagesTable) else FILES_SHARE
            for split in splits:
                size = split_bytes(split)
                if size is None:
                    return False
                n_bytes += share * size
        return n_bytes <= self._limits.driver_bytes


def together(stage: Stage, tasks: Sequence[TaskWork]) -> TaskWork:
    """Return the tasks of a stage as one, which reads what all of them do."""
    splits = {
        scan: tasks[0].splits[scan] if how == ALL else [split for task in tasks for split in task.splits[scan]]
        for scan, how in stage.reads.items()
    }
    return TaskWork(0, splits)


class SparkResult:
    """The rows of a query whose stages run on Spark. The stages run when the first row is read, and once.

    The files of stages are kept until close(), or until the result is freed. Reading the result again reads them again.

    Attributes
    ----------
    plan : PlanNode
        The optimized plan.
    schema : pyarrow.Schema
        Schema of the result, known before the query runs.

    Examples
    --------
    >>> import qcore  # doctest: +SKIP
    >>> result = qcore.sql("select k, sum(x) as s from 't.parquet' group by k", on=spark)  # doctest: +SKIP
    >>> result.to_arrow().num_rows  # doctest: +SKIP
    2
    """

    trust = "everything"

    def __init__(self, session: Any, query: PlannedQuery, settings: Settings) -> None:
        self.plan = query.plan
        self.schema: pa.Schema = query.lowered.schema
        self._session = session
        self._query = query
        self._settings = settings
        self._lock = ProcessLock()
        self._loop: StageLoop | None = None
        self._folder: QueryFolder | None = None
        self._rest: Result | None = None
        self._is_cancelled = False
        self._is_closed = False
        self._shares_files = True

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._final()

    def _final(self) -> Result:
        """The part of the query that runs in this process after its stages, with the rest of the timeout."""
        timeout = self._settings.timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            if self._is_closed:
                raise PlanError("the result was closed, and what its stages wrote is removed: run the query again")
            if self._is_cancelled:
                raise Cancelled("the query was cancelled")
            if self._rest is None:
                self._rest = self._run_stages(deadline)
            self._rest.stop_at(deadline)
            return self._rest

    def _run_stages(self, deadline: float | None) -> Result:
        carrier = carrier_of(self._session, n_slots(self._session))
        self._shares_files = carrier.shares_files
        parent = shared_folder(self._session) or tempfile.gettempdir()
        sweep(parent)
        folder = QueryFolder(parent)
        try:
            self._loop = StageLoop(self._session, self.plan, self._settings, folder, carrier)
            if self._is_cancelled:
                self._loop.cancel()
            rest = self._loop.run(deadline)
        except BaseException:
            folder.close()
            raise
        self._folder = folder
        return Result(rest, self._settings, self._query.output_names)

    def to_arrow(self) -> pa.Table:
        """Run the query and return all rows as a pyarrow.Table. The last rows are charged to its memory limit.

        Raises
        ------
        QcoreError
            The query failed.
        """
        return self._final().to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """Run the query and return all rows as a pandas.DataFrame.

        Raises
        ------
        QcoreError
            The query failed, or a value does not fit.
        """
        return self._final().to_pandas()

    def to_spark(self, spark: Any = None) -> Any:
        """Run the query and return its rows as a DataFrame of Spark, over files in the query's folder.

        The files are kept until close(), or until both the result and the DataFrame are freed. Each is a partition.
        If executors share no folder, the rows go to the memory of Spark's driver.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession, optional
            The session of the DataFrame; by default the one that the query runs on.

        Raises
        ------
        PlanError
            Spark has no type for a column, or two columns have one name.
        ExecutionError
            A value does not fit, such as a timestamp with nanoseconds.
        QcoreError
            The query failed.
        """
        spark_arrow_schema(self.schema)
        final = self._final()
        assert self._folder is not None
        if not self._shares_files:
            return frame_of_rows(final.to_arrow(), spark or self._session)
        frame = frame_of_files(final, self.schema, self._folder.path, spark or self._session)
        frame._qcore_result = self  # keeps the files
        return frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    def explain(self, analyze: bool = False) -> str:
        """Return the plan as text and, after they have run, the stages with their sizes, times and hosts.

        Parameters
        ----------
        analyze : bool
            Run the query first, and show rows and times of the part that ran in this process.

        Raises
        ------
        QcoreError
            The query cannot run on Spark, or with `analyze` it failed.
        """
        text = explain_plan(self.plan, self._query.estimates)
        if analyze:
            final = self._final()
            return f"{text}\n\n{self._stages_text()}\n\nin this process:\n{final.explain(analyze=True)}"
        return f"{text}\n\n{self._stages_text()}"

    def _stages_text(self) -> str:
        loop = self._loop
        if loop is not None:
            return stages_text(loop.runs) if loop.runs else "no stages: all runs in this process"
        stages = next_stages(self.plan, limits_of(self._session))
        if not stages:
            return "no stages: all runs in this process"
        first = "\n".join(f"stage {stage.number}: {describe(stage)}" for stage in stages)
        return f"the first stages; the others are decided by the sizes of what these write:\n{first}"

    def stats(self) -> dict[str, Any]:
        """Return the counters of the stages so far. Callable at any time.

        Returns
        -------
        dict
            `stages`: for each its number, tasks, rows and bytes written, times in ns, hosts, and `pipelines`, the
            counters of operators added up over its tasks. `final`: the counters of what ran in this process at the
            end, as Result.stats(), or None.
        """
        runs = [] if self._loop is None else list(self._loop.runs)
        final = self._rest
        return {"stages": [run.stats() for run in runs], "final": None if final is None else final.stats()}

    def progress(self) -> tuple[int, int]:
        """Return how many tasks of the stages have ended, and how many have been started so far."""
        return (0, 0) if self._loop is None else self._loop.progress()

    def cancel(self) -> None:
        """Stop the query, also its Spark jobs. Reading then raises Cancelled. Any thread may call it."""
        self._is_cancelled = True
        if self._loop is not None:
            self._loop.cancel()
        if self._rest is not None:
            self._rest.cancel()

    def close(self) -> None:
        """Stop the query, and remove the files of its stages. DataFrames of to_spark() can no longer be read."""
        self.cancel()
        with self._lock:
            self._is_closed = True
            self._rest = None
            if self._folder is not None:
                self._folder.close()

    def __enter__(self) -> SparkResult:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def spark_result(session: Any, query: PlannedQuery, settings: Settings) -> SparkResult:
    """Return the result of a query on a session of Spark.

    Raises
    ------
    PlanError
        `session` is no session of Spark, or a part of the query runs in this process only.
    """
    if not hasattr(session, "createDataFrame") or not hasattr(session, "conf"):
        kind = f"{type(session).__module__}.{type(session).__qualname__}"
        raise PlanError(f"on= takes a SparkSession, not a {kind}: pass SparkSession.builder.getOrCreate()")
    next_stages(query.plan, Limits())
    return SparkResult(session, query, settings)
