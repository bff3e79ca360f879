"""Read the partitions of any DataFrame from Arrow files that Spark's tasks write.

The rows are never collected: `toArrow()` and the DataFrame's C stream hold all rows in Spark's driver and run out of
memory. Instead each attempt of a task writes its partition to a file of its own and reports the file.

A file is read only after Spark has reported that the attempt succeeded. The folder is never listed, because it may have
incomplete files: when the input of a task fails, Spark closes the stream of its Python worker, and the worker sees the
end of the rows and completes the file; Spark fails the attempt afterwards.

The report is the job's result at its end, and while it runs an accumulator. Spark applies the accumulators of a job's
last stage when a task has succeeded, and for one attempt only. Spark Connect has no accumulators.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from qcore.connectors.alignment import Alignment
from qcore.connectors.base import BatchStream, Split, TableStatistics, select_fields
from qcore.connectors.soundness import TRUST_EVERYTHING, require_sound
from qcore.connectors.streams import ReaderStream
from qcore.errors import ExecutionError, PlanError
from qcore.expression.tree import Expr
from qcore.record import record
from qcore.spark.arrow_batches import run_over_batches
from qcore.spark.page_files import remove_folder
from qcore.spark.spark_job import SparkJob, is_connect
from qcore.writing.page_layout import narrow_type

# The setting of Spark with the folder that tasks write to. Executors and this process must see it under one path.
DIRECTORY_CONF = "spark.qcore.exchange.dir"
MANIFEST = "partition int, name string, n_rows bigint, n_bytes bigint"
# Spark passes 10,000 rows at a time. Larger batches are faster for the engine and cost one copy.
FILE_BATCH_ROWS = 64 * 1024
POLL_SECONDS = 0.02


class WrittenFile(NamedTuple):
    """A task's report of its file; the columns of MANIFEST. A task without rows writes no file, and `name` is ""."""

    partition: int
    name: str
    n_rows: int
    n_bytes: int


@record(frozen=True)
class PartitionSplit(Split):
    """One partition of a DataFrame, in the Arrow file that a Spark task wrote."""

    path: str
    n_rows: int
    n_bytes: int
    # Keeps the folder until the last split is freed.
    exchange: Exchange = field(compare=False, repr=False)

    def __reduce__(self) -> Any:
        raise TypeError("a split of a Spark partition cannot be pickled: its file is removed with this process's query")


def partition_writer(
    folder: str, batch_rows: int, tag: str, reports: Any
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that each task runs over its partition.

    It is self-contained, so that executors need pyarrow and not this package. It reports its file in its output row
    and, with the tag, to the accumulator `reports` if there is one. The end of the rows does not prove that all were
    read; only the success of the task does.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import uuid

        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        name = f"part-{partition:06d}-{uuid.uuid4().hex}.arrow"
        path = os.path.join(folder, name)
        writer = None
        held: list[pa.RecordBatch] = []
        n_held = n_rows = n_bytes = 0
        try:
            for batch in batches:
                if writer is None:
                    writer = pa.ipc.new_file(path, batch.schema)
                held.append(batch)
                n_held += batch.num_rows
                n_rows += batch.num_rows
                if n_held >= batch_rows:
                    writer.write_table(pa.Table.from_batches(held).combine_chunks())
                    held, n_held = [], 0
            if writer is not None:
                if held:
                    writer.write_table(pa.Table.from_batches(held).combine_chunks())
                writer.close()
                n_bytes = os.path.getsize(path)
        except BaseException:
            if writer is not None:
                writer.close()
                os.unlink(path)
            raise
        written = (partition, name if writer else "", n_rows, n_bytes)
        if reports is not None:
            reports.add([(tag, *written)])
        # Spark matches columns by position.
        types = (pa.int32(), pa.string(), pa.int64(), pa.int64())
        row = [pa.array([value], type) for value, type in zip(written, types)]  # noqa: B905 - Python of executors
        yield pa.RecordBatch.from_arrays(row, names=["partition", "name", "n_rows", "n_bytes"])

    return write


class TaskReports:
    """The files that successful tasks of a Spark context reported, by the tag of their job. Any thread may use it.

    One accumulator serves all jobs of a context, because pyspark keeps every accumulator until the process ends.
    """

    _of_contexts: ClassVar[weakref.WeakKeyDictionary[Any, TaskReports]] = weakref.WeakKeyDictionary()
    _making = threading.Lock()

    def __init__(self, context: Any) -> None:
        from pyspark.accumulators import AddingAccumulatorParam

        self.accumulator = context.accumulator([], AddingAccumulatorParam([]))
        self._files: dict[str, list[WrittenFile]] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, context: Any) -> TaskReports:
        """Return the reports of a context."""
        with cls._making:
            if context not in cls._of_contexts:
                cls._of_contexts[context] = cls(context)
            return cls._of_contexts[context]

    def expect(self, tag: str) -> None:
        """Begin to keep the reports of a job."""
        with self._lock:
            self._files[tag] = []

    def forget(self, tag: str) -> None:
        """Drop the reports of a job, also those that arrive later."""
        with self._lock:
            self._files.pop(tag, None)

    def of_job(self, tag: str) -> list[WrittenFile]:
        """Return the reports of a job so far."""
        with self._lock:
            # Pyspark's thread appends at the same time. The GIL makes each append and each pop atomic.
            arrived = self.accumulator.value
            while arrived:
                of, *written = arrived.pop(0)
                if of in self._files:
                    self._files[of].append(WrittenFile(*written))
            return list(self._files.get(tag, ()))


def is_short_decimal(type_: pa.DataType) -> bool:
    """Whether values of a type are decimals of 64 bits. Spark's conversion of one to Arrow takes a tenth of a µs."""
    return bool(pa.types.is_decimal64(narrow_type(type_)))


def carried_column(df: Any, name: str, type_: pa.DataType) -> Any:
    """A column of a DataFrame as tasks write it: a short decimal as the integer that Spark holds.

    A decimal is left as it is where Spark's classes are not those that are expected, and over Spark Connect.
    """
    column = df["`" + name.replace("`", "``") + "`"]
    if not is_short_decimal(type_) or is_connect(df):
        return column
    from py4j.protocol import Py4JError

    jvm = df.sparkSession._jvm
    try:
        utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
        unscaled = jvm.org.apache.spark.sql.catalyst.expressions.UnscaledValue(utils.expression(column._jc))
        return type(column)(utils.column(unscaled))
    except (Py4JError, TypeError):
        return column


def with_decimals(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch under other names and types, of which short decimals may be integers in the batch."""
    columns = [
        pa.Array.from_buffers(field.type, len(column), column.buffers(), column.null_count, column.offset)
        if pa.types.is_decimal64(field.type)
        else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def held_field(carried: pa.Field, declared: pa.Field) -> pa.Field:
    """The field of a column of a partition's file, under the declared name. An integer may stand for a decimal."""
    if is_short_decimal(declared.type) and pa.types.is_int64(carried.type):
        return pa.field(declared.name, narrow_type(declared.type))
    return carried.with_name(declared.name)


class Exchange:
    """One run of a DataFrame: a Spark job in a thread of its own, and the folder it fills.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The columns to write.
    parent : str
        The folder for the folder.
    schema : pyarrow.Schema
        Their types.
    """

    def __init__(self, df: Any, parent: str, schema: pa.Schema) -> None:
        self._df = df
        self._schema = schema
        self._job = SparkJob(df.sparkSession, "qcore: partitions as Arrow files", self._write)
        self.folder = os.path.join(parent, self._job.tag)
        os.makedirs(self.folder, mode=0o700)
        self._remove = weakref.finalize(self, remove_folder, self.folder, os.getpid())
        self._reports = None if is_connect(df) else TaskReports.of(df.sparkSession.sparkContext)
        self._manifest: list[WrittenFile] = []

    def _write(self) -> list[WrittenFile]:
        tag, reports = self._job.tag, self._reports
        if reports is not None:
            reports.expect(tag)
        try:
            accumulator = None if reports is None else reports.accumulator
            writer = partition_writer(self.folder, FILE_BATCH_ROWS, tag, accumulator)
            rows = run_over_batches(self._df, self._schema, writer, MANIFEST)
            self._manifest = [WrittenFile(*row) for row in rows]
        finally:
            if reports is not None:
                reports.forget(tag)
        return self._manifest

    def start(self) -> None:
        """Submit the job."""
        self._job.start()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the job; return whether it has ended."""
        return self._job.wait(seconds)

    def list_reported(self) -> list[WrittenFile]:
        """The files of tasks that have succeeded; all files when the job has ended."""
        if self._job.is_done or self._reports is None:
            return self._manifest if self._job.is_done else []
        return self._reports.of_job(self._job.tag)

    def check(self, taken: dict[int, WrittenFile]) -> None:
        """Raise the job's error, or an error if the files that were read are not those of its result."""
        for written in self._job.result():
            if taken.get(written.partition) != written:
                raise ExecutionError(
                    f"the Spark job ended with the file {written.name!r} of partition {written.partition}, but "
                    f"{taken.get(written.partition)} was read before: rows may be missing or duplicated; run the query "
                    "again"
                )

    def stop(self) -> None:
        """Cancel the job if it still runs, and wait until it has ended."""
        self._job.stop()


class PartitionSplits:
    """Iterates over an exchange's partitions as they become ready, on one thread. Any thread may call close()."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._taken: dict[int, WrittenFile] = {}
        self._ready: deque[WrittenFile] = deque()
        self._closed = False
        exchange.start()

    def __iter__(self) -> PartitionSplits:
        return self

    def __next__(self) -> PartitionSplit:
        while not self._ready:
            if self._closed:
                raise StopIteration
            finished = self._exchange.wait(POLL_SECONDS)
            for written in self._exchange.list_reported():
                if written.partition not in self._taken:
                    self._taken[written.partition] = written
                    if written.name:
                        self._ready.append(written)
            if finished and not self._ready:
                self._closed = True
                self._exchange.check(self._taken)
        written = self._ready.popleft()
        path = os.path.join(self._exchange.folder, written.name)
        return PartitionSplit(path, written.n_rows, written.n_bytes, self._exchange)

    def close(self) -> None:
        """Cancel the job, wait until it has ended, and end a next() that waits."""
        self._closed = True
        self._exchange.stop()


class SparkTable:
    """A DataFrame that Spark computes. Its partitions are read from Arrow files. Each scan is a Spark job."""

    #: Taking the next split may wait for Spark.
    splits_wait = True

    def __init__(self, df: Any, schema: pa.Schema, reason: str) -> None:
        self.schema = schema
        #: Why the DataFrame is not read from its files directly.
        self.reason = reason
        #: The time zone of the Spark session. It is the default of a qcore session in Spark's dialect.
        self.time_zone = session_zone(df)
        self._df = df

    def statistics(self) -> TableStatistics:
        """Return unknown statistics: Spark has not run yet."""
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """Start a Spark job for the columns, and iterate over its partitions as they become ready."""
        select_fields(self.schema, columns, "the Spark DataFrame")
        names = self._read_names(columns)
        carried = [carried_column(self._df, name, self.schema.field(name).type) for name in names]
        # mapInArrow finds columns by unquoted names, in which dots and backticks have a meaning.
        numbered = self._df.select(*carried).toDF(*(f"c{i}" for i in range(len(names))))
        held = pa.schema([self.schema.field(name) for name in names])
        folder = exchange_folder(self._df.sparkSession)
        return PartitionSplits(Exchange(numbered, folder, held))

    def _read_names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that Spark computes: at least one, because without columns there are no rows to count."""
        return columns or tuple(self.schema.names[:1])

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Map the file of a partition into memory, and remove its name at once; its blocks are freed after reading.

        Without a name no other process can truncate the file while it is mapped.
        """
        if not isinstance(split, PartitionSplit):
            raise ExecutionError(f"a Spark DataFrame cannot read a {type(split).__name__}: add PartitionSplits")
        file, reader = open_partition(split)
        os.unlink(split.path)
        wanted = select_fields(self.schema, columns, "the Spark DataFrame")
        names = self._read_names(columns)
        declared = [self.schema.field(name) for name in names]
        held = pa.schema(list(map(held_field, reader.schema, declared)))
        alignment = Alignment(held, wanted, "the Spark DataFrame")
        where = f"the partition Spark wrote to {split.path}"
        batches = (
            alignment.batch(with_decimals(require_sound(reader.get_batch(number), where), held))
            for number in range(reader.num_record_batches)
        )
        return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, batches), file, TRUST_EVERYTHING)


def open_partition(split: PartitionSplit) -> tuple[pa.MemoryMappedFile, pa.RecordBatchFileReader]:
    """Map the file of a partition into memory. ExecutionError if it does not have the rows that its task reported."""
    try:
        n_bytes = os.stat(split.path).st_size
        if n_bytes != split.n_bytes:
            raise OSError(f"it has {n_bytes} bytes, and its task wrote {split.n_bytes}")
        file = pa.memory_map(split.path)
        reader = pa.ipc.open_file(file)
        n_rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        if n_rows != split.n_rows:
            raise OSError(f"it has {n_rows} rows, and its task wrote {split.n_rows}")
    except FileNotFoundError:
        raise ExecutionError(
            f"Spark wrote the partition {split.path}, but the file does not exist here: set {DIRECTORY_CONF} to a "
            "folder that this process and every executor share"
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(f"cannot read the partition Spark wrote to {split.path}: {error}") from error
    return file, reader


def session_zone(df: Any) -> str | None:
    """The time zone of a DataFrame's session."""
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone", None)
    return str(zone) if zone else None


def shared_folder(session: Any) -> str | None:
    """Return the folder that tasks write to and this process reads; None: there is none that all executors share.

    Raises
    ------
    PlanError
        The configured folder is no absolute path.
    """
    configured = session.conf.get(DIRECTORY_CONF, None)
    if configured:
        if not os.path.isabs(configured):
            raise PlanError(f"{DIRECTORY_CONF} is {configured!r}: it must be an absolute path that executors share")
        return str(configured)
    master = session.conf.get("spark.master", "") or ""
    return tempfile.gettempdir() if master.startswith("local") else None


def exchange_folder(session: Any) -> str:
    """Return the folder that tasks write to.

    Raises
    ------
    PlanError
        Executors may be on other machines, and no shared folder is configured.
    """
    folder = shared_folder(session)
    if folder is None:
        master = session.conf.get("spark.master", "") or "a remote cluster"
        raise PlanError(
            f"the executors of {master} write files that this process reads: set {DIRECTORY_CONF} to a folder that "
            "they share with this process; DataFrames of files need none"
        )
    return folder
