"""How pages go from the tasks of a stage to those of the next: by files in a shared folder, or by Spark's shuffle."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from qcore.config import VERSION
from qcore.connectors.base import Split
from qcore.errors import PlanError
from qcore.lowering.recursion import can_order
from qcore.spark.carried_pages import HEADER, CarriedPages, Slots, stage_of
from qcore.spark.exchange import DIRECTORY_CONF, exchange_folder, shared_folder
from qcore.spark.page_files import PageSplit, PagesTable, QueryFolder
from qcore.spark.spark_job import SparkJob, is_connect, no_action
from qcore.spark.stage_parts import ALL, PARTITION, SHARE, Stage
from qcore.spark.stage_task import StageWork, TaskReport, TaskWork
from qcore.spark.transport import REMEDY, WORKER_BYTES_MIN, in_order, stage_job, worker_check

# The setting of Spark's session that chooses: "files" or "shuffle".
CARRIER_CONF = "spark.qcore.exchange.carrier"
# Pages that this process fetches in one job of Spark, in bytes: the JVM holds them all.
FETCH_BYTES = 64 << 20
# Spark compares partitioners by their number of partitions and by this number: equal ones divide rows alike.
PARTITIONER = 0

ShuffleRunner = Callable[[int, Iterator[bytes]], Iterator[bytes]]


class FolderCarrier:
    """Tasks write files to the query's folder, which they and this process share."""

    #: Whether files of this process can be read by tasks.
    shares_files = True

    def __init__(self, session: Any) -> None:
        self._session = session

    def can_run(self, stage: Stage) -> bool:
        """Whether tasks can run a stage. If not, this process runs it."""
        return True

    def n_tasks(self, stage: Stage) -> int | None:
        """The number of a stage's tasks, if the places of its pages decide it."""
        return None

    def to_fetch(self, stage: Stage, n_tasks: int, here: bool) -> list[PagesTable]:
        """The tables that must be copied to this process before the stage starts."""
        return []

    def place(self, stage: Stage, tasks: Sequence[TaskWork]) -> list[TaskWork]:
        """Return the tasks with splits that name where they find their pages."""
        return list(tasks)

    def job(
        self, description: str, stage: Stage, work: StageWork, tasks: Sequence[TaskWork], on_done: Callable[[], None]
    ) -> SparkJob[list[TaskReport]]:
        """Return the job of a stage."""
        return stage_job(self._session, description, work, tasks, on_done)

    def fetch_job(self, table: PagesTable, folder: QueryFolder) -> SparkJob[PagesTable]:
        """Return the job that copies a table to this process. Only for tables of to_fetch()."""
        raise PlanError("the table's files are shared")

    def local(self, table: PagesTable) -> PagesTable | None:
        """Return the table as this process reads it; None: it must be fetched before."""
        return table

    def close(self) -> None:
        """Free what the query holds in Spark."""


class _Output:
    """What the tasks of a stage wrote to Spark's shuffle."""

    def __init__(self, context: Any, runner: ShuffleRunner, input: Any, slots: Slots) -> None:
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        self.slots = slots
        mapped = input.mapPartitionsWithIndex(runner)
        # The function gives slots and pages as bytes in turns, as RDD.partitionBy() does.
        mapped._bypass_serializer = True
        jvm = context._jvm
        pairs = jvm.PairwiseRDD(mapped._jrdd.rdd()).asJavaPairRDD()
        divided = pairs.partitionBy(jvm.PythonPartitioner(slots.n + 1, PARTITIONER))
        #: Slots with pages, for unions of outputs with equal slots.
        self.pairs = RDD(divided, context, NoOpSerializer())
        #: The pages alone.
        self.pages = RDD(jvm.PythonRDD.valueOfPair(divided), context, NoOpSerializer())

    def free(self) -> None:
        """Remove the files of the shuffle."""
        with contextlib.suppress(Exception):  # the session may have been stopped
            self.pages._jrdd.rdd().cleanShuffleDependencies(False)


class ShuffleCarrier:
    """Tasks write pages to Spark's shuffle. What every task reads goes through this process, and Spark's broadcast.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A classic session.
    n_slots : int
        The number of partitions of Spark's shuffle for pages that all belong together.
    """

    shares_files = False

    def __init__(self, session: Any, n_slots: int) -> None:
        self._context = session.sparkContext
        self._session = session
        self._n_slots = n_slots
        self._outputs: dict[int, _Output] = {}
        self._copies: dict[int, tuple[CarriedPages, PagesTable]] = {}
        self._broadcasts: dict[str, Any] = {}

    def _output_of(self, source: Any) -> _Output | None:
        """What tasks wrote of a table; None: it is not in Spark's shuffle."""
        number = number_of(source)
        return None if number is None else self._outputs[number]

    def can_run(self, stage: Stage) -> bool:
        """Whether tasks can run a stage so that its pages are the same each time. If not, this process runs it."""
        return can_order(stage.plan)

    def n_tasks(self, stage: Stage) -> int | None:
        """The number of slots, if tasks divide pages that are spread over them."""
        if stage.n_tasks is not None or PARTITION in stage.reads.values():
            return None
        shared = [self._output_of(stage.scans[scan].source) for scan, how in stage.reads.items() if how == SHARE]
        return next((output.slots.n for output in shared if output is not None), None)

    def _is_fetched(self, how: str, source: Any, n_tasks: int, here: bool) -> bool:
        """Whether a stage reads a table from this process, and not from Spark's shuffle."""
        output = self._output_of(source)
        if output is None:
            return False
        return here or (n_tasks > 1 and (how == ALL or output.slots.n != n_tasks))

    def to_fetch(self, stage: Stage, n_tasks: int, here: bool) -> list[PagesTable]:
        """The tables that must be copied to this process before the stage starts."""
        found: dict[int, PagesTable] = {}
        for scan, how in stage.reads.items():
            source = stage.scans[scan].source
            number = number_of(source)
            if number is not None and number not in self._copies and self._is_fetched(how, source, n_tasks, here):
                found[number] = source
        return list(found.values())

    def place(self, stage: Stage, tasks: Sequence[TaskWork]) -> list[TaskWork]:
        """Return the tasks with splits that name where they find their pages: in fetched tables, if there are any."""
        placed: list[dict[str, list[Split]]] = [{} for _ in tasks]
        for scan, how in stage.reads.items():
            source = stage.scans[scan].source
            number, output = number_of(source), self._output_of(source)
            copy = None if number is None else self._copies.get(number)
            for task in tasks:
                splits = task.splits[scan]
                if copy is not None:
                    splits = [copy[0].move_split(split) for split in splits]
                elif output is not None and how == SHARE and len(tasks) > 1:
                    splits = _splits_of_slot(source, output.slots, task.partition)
                placed[task.partition][scan] = splits
        return [TaskWork(number, splits) for number, splits in enumerate(placed)]

    def job(
        self, description: str, stage: Stage, work: StageWork, tasks: Sequence[TaskWork], on_done: Callable[[], None]
    ) -> SparkJob[list[TaskReport]]:
        """Return the job of a stage. Its result is the report of each task whose output Spark's shuffle has."""
        context = self._context
        given = [pickle.dumps(task, protocol=5) for task in tasks]
        slots = Slots(stage.n_partitions, False) if stage.keys else Slots(self._n_slots, True)
        contents = {path: self._broadcast(path) for path in sorted(_local_paths(tasks))}
        check = worker_check(VERSION, WORKER_BYTES_MIN, REMEDY)
        numbers = {number for split in _page_splits(tasks) if (number := stage_of(split.path)) is not None}
        read = [self._outputs[number] for number in sorted(numbers)]
        runner = shuffle_runner(pickle.dumps(work, protocol=5), given, bool(read), contents, slots, check)

        def run() -> list[TaskReport]:
            output = _Output(context, runner, _input_of(context, read, len(tasks)), slots)
            self._outputs[stage.number] = output
            told = context.runJob(output.pages, lambda blobs: blobs, [slots.n])
            return in_order([pickle.loads(memoryview(blob)[HEADER.size :]) for blob in told], len(given))

        return SparkJob(self._session, description, run, on_done)

    def fetch_job(self, table: PagesTable, folder: QueryFolder) -> SparkJob[PagesTable]:
        """Return the job that copies the pages of a table to a file of this process."""
        number = number_of(table)
        assert number is not None
        output = self._outputs[number]
        carried = CarriedPages(table.splits((), None, 1), folder)

        def run() -> PagesTable:
            carried.receive(self._fetch(output, table))
            copy = PagesTable(table.schema, [carried.file_of(table.files)], table.n_partitions, table.keys)
            self._copies[number] = carried, copy
            return copy

        return SparkJob(self._session, f"qcore, rows of stage {number}", run, no_action)

    def _fetch(self, output: _Output, table: PagesTable) -> Iterator[bytes]:
        """The pages of a table, some slots at a time."""
        sizes: dict[int, int] = {}
        for task, file in enumerate(table.files):
            for number, page in enumerate(file.pages):
                slot = output.slots.of(task, number, page)
                sizes[slot] = sizes.get(slot, 0) + page.n_bytes
        if sum(sizes.values()) <= FETCH_BYTES:
            yield from self._context.runJob(output.pages.coalesce(1), lambda blobs: blobs)
            return
        taken: list[int] = []
        for slot in sorted(sizes):
            if taken and sum(sizes[one] for one in taken) + sizes[slot] > FETCH_BYTES:
                yield from self._context.runJob(output.pages, lambda blobs: blobs, taken)
                taken = []
            taken.append(slot)
        yield from self._context.runJob(output.pages, lambda blobs: blobs, taken)

    def local(self, table: PagesTable) -> PagesTable | None:
        """Return the table as this process reads it; None: it must be fetched before."""
        number = number_of(table)
        if number is None:
            return table
        copy = self._copies.get(number)
        return None if copy is None else copy[1]

    def _broadcast(self, path: str) -> Any:
        if path not in self._broadcasts:
            with open(path, "rb") as file:
                self._broadcasts[path] = self._context.broadcast(file.read())
        return self._broadcasts[path]

    def close(self) -> None:
        """Free what the query holds in Spark."""
        for output in self._outputs.values():
            output.free()
        for broadcast in self._broadcasts.values():
            with contextlib.suppress(Exception):  # the session may have been stopped
                broadcast.destroy()
        self._outputs.clear()
        self._broadcasts.clear()


Carrier: TypeAlias = FolderCarrier | ShuffleCarrier


def carrier_of(session: Any, n_slots: int) -> Carrier:
    """Return how pages go between stages on a session: as its setting says, or by files where a folder is shared.

    Raises
    ------
    PlanError
        The setting is wrong, or no folder is shared and the session is one of Spark Connect.
    """
    wanted = session.conf.get(CARRIER_CONF, None)
    if wanted not in (None, "files", "shuffle"):
        raise PlanError(f"{CARRIER_CONF} is {wanted!r}: it is files or shuffle")
    if wanted == "files" or (wanted is None and (shared_folder(session) is not None or is_connect(session))):
        exchange_folder(session)
        return FolderCarrier(session)
    if is_connect(session):
        raise PlanError(
            f"{CARRIER_CONF}=shuffle needs a session that is not of Spark Connect: set {DIRECTORY_CONF} to a folder "
            "that this process and every executor share"
        )
    return ShuffleCarrier(session, n_slots)


def shuffle_runner(
    stage: bytes,
    given: Sequence[bytes],
    reads_pages: bool,
    contents: Mapping[str, Any],
    slots: Slots,
    check: Callable[[], None],
) -> ShuffleRunner:
    """Return the function that runs a task in a Python worker: its number and pages to slots and pages.

    It is self-contained, as that of transport.task_runner().
    """
    n_tasks, n, is_spread = len(given), slots.n, slots.is_spread

    def run(number: int, blobs: Iterator[bytes]) -> Iterator[bytes]:
        from pyspark import TaskContext

        check()
        from qcore.garbage import exempt_modules
        from qcore.spark.carried_pages import Slots
        from qcore.spark.shuffle_task import run_shuffled

        if number >= n_tasks:  # the slot of the reports of earlier stages
            return
        context = TaskContext.get()
        attempt = context.attemptNumber() if context is not None else 0
        files = {path: (lambda held=held: held.value) for path, held in contents.items()}
        pages = blobs if reads_pages else ()
        yield from run_shuffled(stage, given[number], pages, files, Slots(n, is_spread), attempt)
        exempt_modules()

    return run


def number_of(source: Any) -> int | None:
    """The stage whose pages a table has in Spark's shuffle; None: they are in files, or it is another table."""
    return stage_of(source.files[0].path) if isinstance(source, PagesTable) and source.files else None


def _page_splits(tasks: Iterable[TaskWork]) -> Iterator[PageSplit]:
    for task in tasks:
        for splits in task.splits.values():
            yield from (split for split in splits if isinstance(split, PageSplit))


def _local_paths(tasks: Iterable[TaskWork]) -> set[str]:
    """The files of this process that tasks read."""
    return {split.path for split in _page_splits(tasks) if stage_of(split.path) is None}


def _splits_of_slot(table: PagesTable, slots: Slots, slot: int) -> list[Split]:
    return table.splits_where(lambda task, number, page: slots.of(task, number, page) == slot)


def _input_of(context: Any, read: Sequence[_Output], n_tasks: int) -> Any:
    """The RDD whose partition t has the pages that task t reads from Spark's shuffle."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    if not read:
        return context.parallelize(range(n_tasks), n_tasks)
    if n_tasks == 1:
        return context.union([output.pages for output in read]).coalesce(1)
    # Spark puts equal partitions of equal partitioners together.
    together = context.union([output.pairs for output in read])._jrdd
    return RDD(context._jvm.PythonRDD.valueOfPair(together), context, NoOpSerializer())
