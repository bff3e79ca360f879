"""Partitions of any DataFrame as Arrow files that Spark's own tasks write, each read once complete. Floor P5.

Never collects: `toArrow()` and the DataFrame's C stream hold everything in Spark's driver at once and run out of
memory. A task writes its partition under a name of its attempt and renames it when it is whole; of several attempts at
a partition (retries, speculation) the first one seen whole is read and the others are ignored, so no row comes twice.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from qcore.connectors.alignment import Alignment
from qcore.connectors.base import BatchStream, ReaderStream, Split, TableStatistics, select_fields
from qcore.errors import Cancelled, ExecutionError, PlanError
from qcore.language.expression import Expr

# Where the tasks write; must be seen by the executors and by this process under the same path.
DIRECTORY_CONF = "spark.qcore.exchange.dir"
MANIFEST = "partition int, name string, n_rows bigint"
# Spark hands over 10,000 rows at a time; larger batches serve the engine better and cost one copy.
FILE_BATCH_ROWS = 64 * 1024
POLL_SECONDS = 0.02
CANCEL_SECONDS = 10.0
SUFFIX = ".arrow"
MESSAGE_LINES = 3
RAISED = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt): ")


@dataclass(frozen=True)
class PartitionSplit(Split):
    """One partition of a DataFrame, in the Arrow file a Spark task wrote."""

    path: str
    # Keeps the folder until the last split is gone.
    exchange: Exchange = field(compare=False, repr=False)

    def __reduce__(self) -> Any:
        raise TypeError("a split of a Spark partition cannot be pickled: its file goes with this process's query")


def partition_writer(folder: str, batch_rows: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function each task runs over its partition. Self-contained: executors need pyarrow, not this package."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import uuid

        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        name = f"part-{partition:06d}-{uuid.uuid4().hex}.arrow"
        partial = os.path.join(folder, f".{name}")
        writer = None
        held: list[pa.RecordBatch] = []
        n_held = n_rows = 0
        try:
            for batch in batches:
                if writer is None:
                    writer = pa.ipc.new_file(partial, batch.schema)
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
                os.rename(partial, os.path.join(folder, name))
        except BaseException:
            if writer is not None:
                writer.close()
                os.unlink(partial)
            raise
        # Spark matches columns by position.
        row = [pa.array([partition], pa.int32()), pa.array([name if writer else ""]), pa.array([n_rows], pa.int64())]
        yield pa.RecordBatch.from_arrays(row, names=["partition", "name", "n_rows"])

    return write


class Exchange:
    """One run of a DataFrame: a Spark job in a thread of its own, and the folder it fills."""

    def __init__(self, df: Any, parent: str) -> None:
        self._df = df
        self._session = df.sparkSession
        self._tag = f"qcore-{uuid.uuid4().hex}"
        self.folder = os.path.join(parent, self._tag)
        os.makedirs(self.folder)
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, True)
        self._done = threading.Event()
        self._stopping = False
        self._error: BaseException | None = None
        self._manifest: list[Any] = []
        self._thread = threading.Thread(target=self._run, name="qcore-spark-job", daemon=True)

    def _run(self) -> None:
        try:
            if not is_connect(self._df):
                self._session.sparkContext.setJobGroup(self._tag, "qcore: partitions as Arrow files", True)
            else:
                self._session.addTag(self._tag)
            written = self._df.mapInArrow(partition_writer(self.folder, FILE_BATCH_ROWS), MANIFEST)
            self._manifest = written.collect()
        except BaseException as error:  # whatever it is belongs to the reader of the splits
            # Its frames would keep this object, and so the folder, alive.
            self._error = error.with_traceback(None)
        finally:
            self._done.set()

    def start(self) -> None:
        """Submit the job."""
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the job; whether it came."""
        return self._done.wait(seconds)

    def complete(self) -> list[tuple[int, str]]:
        """Partition and name of each file that is whole."""
        names = [name for name in os.listdir(self.folder) if name.endswith(SUFFIX) and not name.startswith(".")]
        return sorted((int(name.split("-")[1]), name) for name in names)

    def check(self, seen: Container[int]) -> None:
        """Raise what the job failed with. `seen` are the partitions whose files were found."""
        if self._error is not None:
            if self._stopping:
                raise Cancelled("the Spark job was cancelled")
            raise ExecutionError(f"the Spark job failed: {message_of(self._error)}") from self._error
        written = {row["partition"] for row in self._manifest if row["name"]}
        missing = sorted(partition for partition in written if partition not in seen)
        if missing:
            raise ExecutionError(
                f"Spark wrote partitions {missing[:5]} that are not in {self.folder}: set {DIRECTORY_CONF} to a folder "
                "that this process and every executor share"
            )

    def stop(self) -> None:
        """Cancel the job if it still runs, and wait until it is over."""
        self._stopping = True
        if self._done.is_set() or not self._thread.is_alive():
            return
        deadline = time.monotonic() + CANCEL_SECONDS
        # A job that is only being submitted is not known to the scheduler yet, so the cancellation is repeated.
        while not self._done.is_set() and time.monotonic() < deadline:
            if is_connect(self._df):
                self._session.interruptTag(self._tag)
            else:
                self._session.sparkContext.cancelJobGroup(self._tag)
            self._done.wait(0.1)


class PartitionSplits:
    """Iterates over an exchange's partitions as they get ready. One thread's, but for close(), which any may call."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._seen: set[int] = set()
        self._ready: deque[str] = deque()
        self._closed = False
        exchange.start()

    def __iter__(self) -> PartitionSplits:
        return self

    def __next__(self) -> PartitionSplit:
        while not self._ready:
            if self._closed:
                raise StopIteration
            finished = self._exchange.wait(POLL_SECONDS)
            for partition, name in self._exchange.complete():
                if partition not in self._seen:
                    self._seen.add(partition)
                    self._ready.append(name)
            if finished and not self._ready:
                self._closed = True
                self._exchange.check(self._seen)
        return PartitionSplit(os.path.join(self._exchange.folder, self._ready.popleft()), self._exchange)

    def close(self) -> None:
        """No more splits are wanted: cancel the job, wait until it is over, and end a next() that waits."""
        self._closed = True
        self._exchange.stop()


class SparkTable:
    """A DataFrame that Spark computes; its partitions come as Arrow files. Each scan of it is a Spark job."""

    #: Taking the next split may wait for Spark.
    splits_wait = True

    def __init__(self, df: Any, schema: pa.Schema, reason: str) -> None:
        self.schema = schema
        #: Why the DataFrame is not read from its files directly.
        self.reason = reason
        self._df = df

    def statistics(self) -> TableStatistics:
        """Nothing is known before Spark has run."""
        return TableStatistics()

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> Iterator[Split]:
        """A split a partition as it gets ready, of the wanted columns only."""
        select_fields(self.schema, columns, "the Spark DataFrame")
        names = self._read_names(columns)
        quoted = [f"`{name.replace('`', '``')}`" for name in names]
        # mapInArrow looks columns up by their bare names, where a dot or a backtick has a meaning.
        numbered = self._df.select(*quoted).toDF(*(f"c{i}" for i in range(len(names))))
        return PartitionSplits(Exchange(numbered, exchange_folder(self._df)))

    def _read_names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """The columns Spark computes: one at least, or there would be no rows to count."""
        return columns or tuple(self.schema.names[:1])

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Map the file of a partition into memory; the file's name goes at once, its blocks when they are read."""
        if not isinstance(split, PartitionSplit):
            raise ExecutionError(f"a {type(split).__name__} cannot be read by a Spark DataFrame")
        try:
            file = pa.memory_map(split.path)
            reader = pa.ipc.open_file(file)
        except (OSError, pa.ArrowException) as error:
            raise ExecutionError(f"cannot read the partition Spark wrote to {split.path}: {error}") from error
        os.unlink(split.path)
        wanted = select_fields(self.schema, columns, "the Spark DataFrame")
        names = self._read_names(columns)
        held = pa.schema([field.with_name(name) for field, name in zip(reader.schema, names, strict=True)])
        alignment = Alignment(held, wanted, "the Spark DataFrame")
        batches = (
            alignment.batch(reader.get_batch(i).rename_columns(list(names))) for i in range(reader.num_record_batches)
        )
        return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, batches), file)


def is_connect(df: Any) -> bool:
    """Whether a DataFrame is one of Spark Connect."""
    return ".connect." in type(df).__module__


def exchange_folder(df: Any) -> str:
    """Where tasks write. PlanError when executors may be on other machines and no shared folder is configured."""
    configured = df.sparkSession.conf.get(DIRECTORY_CONF, None)
    if configured:
        if not os.path.isabs(configured):
            raise PlanError(f"{DIRECTORY_CONF} is {configured!r}: it must be an absolute path that executors share")
        return str(configured)
    master = df.sparkSession.conf.get("spark.master", "") or ""
    if master.startswith("local"):
        return tempfile.gettempdir()
    raise PlanError(
        f"this DataFrame is computed by Spark executors of {master or 'a remote cluster'}: set {DIRECTORY_CONF} to "
        "a folder that they share with this process, or pass the DataFrame of the files themselves"
    )


def message_of(error: BaseException) -> str:
    """What Spark's error says, without its stack traces; of a Python worker's, its exception."""
    text = str(error).partition("JVM stacktrace:")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if RAISED.match(line)]
    if "Traceback (most recent call last):" in lines and raised:
        return f"in a Python worker, {raised[-1]}"
    return " ".join(lines[:MESSAGE_LINES]) or type(error).__name__
