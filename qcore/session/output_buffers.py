"""A task's output for other tasks: pages that consumers fetch by number, fetch again if needed, and acknowledge."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from qcore.errors import ExecutionError, MemoryLimitError, PlanError, QcoreError
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.execution.scheduler import WaitingForOthers
from qcore_ext.ground.memory import Account, Reservation
from qcore_ext.ground.process import ProcessLock

if TYPE_CHECKING:
    from qcore_ext.exchange.output_buffer import OutputBuffer

# Default size of one fetch: a few pages.
FETCH_BYTES = 1 << 22


class _Running(Protocol):
    """The methods of the engine's task that are used here."""

    def wait(self, timeout: float | None = None) -> None: ...

    def ask_again(self) -> None: ...

    def check_process(self) -> None: ...


@dataclass(frozen=True)
class Pages:
    """The pages that a fetch returned.

    Attributes
    ----------
    batches : tuple of pyarrow.RecordBatch
        One batch a page; empty if no page came in time, or none is left.
    sequence : int
        Number of the first page.
    complete : bool
        Whether no further pages follow.
    schema : pyarrow.Schema
        Schema of the output.
    """

    batches: tuple[pa.RecordBatch, ...]
    sequence: int
    complete: bool
    schema: pa.Schema

    @property
    def next_sequence(self) -> int:
        """Number of the page after these. Fetching it acknowledges these pages."""
        return self.sequence + len(self.batches)

    def to_ipc(self) -> pa.Buffer:
        """Return the pages as an Arrow IPC stream of their batches. Without pages it has the schema only.

        A stream has one schema, so pages with different schemas are widened to the union of these.
        """
        sink = pa.BufferOutputStream()
        schema = self.batches[0].schema if self.batches else self.schema
        batches = self.batches
        if any(not batch.schema.equals(schema) for batch in batches):
            wide = reduce(widen_schemas, (Schema(batch.schema) for batch in batches))
            widener, schema = Widener(Account()), pa.schema(wide)
            batches = tuple(pa.record_batch(widener.widen(PyBatch.from_arrow(batch), wide)) for batch in batches)
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return sink.getvalue()


class OutputBuffers:
    """The output of one task by partition; from Task.output_buffers(). Any thread may use it.

    Each partition has one consumer, which fetches its pages in order from page 0. Fetching later pages, or
    acknowledge(), declares that earlier pages are processed; until then they can be fetched again.

    All partitions share the plan's `buffer_bytes`. While that many bytes are held, the task waits without a thread. So
    a consumer that stops fetching stops the others in the end. A single thread that reads one partition to its end
    before the next needs buffers that hold all other partitions.

    Attributes
    ----------
    task_id : str
        Name of the task in OutputBufferManager.
    kind : str
        'partitioned', 'broadcast' or 'arbitrary'.
    n_partitions : int
        Number of partitions.
    schema : pyarrow.Schema
        Schema of the output.
    """

    def __init__(
        self,
        task_id: str,
        kind: str,
        buffer: OutputBuffer,
        schema: pa.Schema,
        task: _Running,
        handle: object,
        memory: Account,
    ) -> None:
        self.task_id = task_id
        self.kind = kind
        self.n_partitions = buffer.n_partitions
        self.schema = schema
        self._buffer = buffer
        self._task = task
        self._handle = handle  # keeps the task running
        self._memory = memory  # the query's

    def fetch(
        self, partition: int, sequence: int, max_bytes: int | None = FETCH_BYTES, timeout: float | None = None
    ) -> Pages:
        """Return pages of a partition from number `sequence` on, and acknowledge the pages before.

        Parameters
        ----------
        partition : int
            Number of the partition, from 0.
        sequence : int
            Number of the first page: at first 0, then `next_sequence` of the last answer. A smaller number fetches
            pages again that are not acknowledged yet.
        max_bytes : int, optional
            Size in bytes above which no further page is returned. At least one page is. None: no limit.
        timeout : float, optional
            Seconds to wait for the first page. Then the answer is empty and not complete. None: no limit.

        Raises
        ------
        QcoreError
            The error that the task failed with, including Cancelled, even if pages are left.
        ExecutionError
            The pages were acknowledged or abandoned, or page `sequence - 1` has not come yet.
        MemoryLimitError
            A copy of the pages does not fit into the query's limit. The copy is charged until it is returned. Fetch
            again with a smaller `max_bytes`.
        """
        pages, complete = self._find(partition, sequence, max_bytes, timeout)
        return Pages(tuple(self._copy_pages(pages)), sequence, complete, self.schema)

    def _take(self, partition: int, sequence: int) -> tuple[list[pa.RecordBatch], bool]:
        """Fetch some pages and acknowledge them at once, for a reader that does not fetch them again.

        Nothing else references such a page then, so its columns become Arrow's without a copy, except for long text.
        """
        pages, complete = self._find(partition, sequence, FETCH_BYTES, None)
        self.acknowledge(partition, sequence + len(pages))
        return [pa.record_batch(page) for page in pages], complete

    def _find(
        self, partition: int, sequence: int, max_bytes: int | None, timeout: float | None
    ) -> tuple[list[PyBatch], bool]:
        self._task.check_process()
        with WaitingForOthers():
            found = self._buffer.fetch(partition, sequence, max_bytes, timeout)
        if found is None:
            self._task.wait()
            raise ExecutionError(f"task {self.task_id} was stopped before its output was complete")
        return found

    def _copy_pages(self, pages: list[PyBatch]) -> list[pa.RecordBatch]:
        """Copy the pages to Arrow. The buffer keeps its pages until they are acknowledged, so both are charged."""
        charged = Reservation(self._memory)
        copies = []
        try:
            for page in pages:
                copies.append(pa.record_batch(page))
                # An eighth more for the allocator, as data/array_charge charges it. nbytes of the copy is slow.
                charged.add(page.n_bytes + page.n_bytes // 8)
        except MemoryLimitError as error:
            error.args = (f"fetch() copies {len(pages)} pages; fetch fewer bytes, with max_bytes: {error}",)
            raise
        finally:
            charged.give_back()
        return copies

    def acknowledge(self, partition: int, sequence: int) -> None:
        """Free the pages before number `sequence`. Calling it again has no effect."""
        self._task.check_process()
        self._buffer.acknowledge(partition, sequence)

    def abandon(self, partition: int) -> None:
        """Free a partition's pages and keep no further ones. When all partitions are abandoned, the task ends."""
        self._task.check_process()
        self._buffer.drop(partition)
        self._task.ask_again()  # wakes drivers that wait for splits, so that they see the end

    def close(self) -> None:
        """Abandon every partition."""
        self._task.check_process()
        for partition in range(self.n_partitions):
            self._buffer.drop(partition)
        self._task.ask_again()

    def reader(self, partition: int) -> PartitionReader:
        """Return an iterator over a partition's batches. It has `__arrow_c_stream__`, so another plan can read it.

        It acknowledges pages when it fetches them: neither fetch() nor another reader gets them again.
        """
        self._buffer.check_partition(partition)
        return PartitionReader(self, partition)

    @property
    def n_bytes(self) -> int:
        """The number of bytes that are held now."""
        self._task.check_process()
        return self._buffer.n_bytes

    def stats(self) -> list[dict[str, Any]]:
        """Return for each partition: pages, rows and bytes so far, pages held and acknowledged, and if abandoned."""
        self._task.check_process()
        return self._buffer.stats()

    def __enter__(self) -> OutputBuffers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class PartitionReader:
    """Reads one partition to its end, and acknowledges pages before it returns them. One thread at a time."""

    trust = "everything"  # the engine made the pages

    def __init__(self, buffers: OutputBuffers, partition: int) -> None:
        self._buffers = buffers
        self._partition = partition
        self._pages: list[pa.RecordBatch] = []  # the next one last
        self._sequence = 0
        self._complete = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        return self._buffers.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        self._buffers._task.check_process()
        while not self._pages:
            if self._complete:
                raise StopIteration
            pages, self._complete = self._buffers._take(self._partition, self._sequence)
            self._sequence += len(pages)
            self._pages = pages[::-1]
        return self._pages.pop()

    def close(self) -> None:
        """Stop reading, and abandon the partition if it was not read to its end."""
        if not self._complete or self._pages:
            self._pages, self._complete = [], True
            self._buffers.abandon(self._partition)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)


class OutputBufferManager:
    """The outputs of all tasks of this process, fetched by task, partition and sequence. `instance()` returns it.

    A task whose plan ends in partitioned_output() is known here from when it is made until it is freed.
    """

    _instance: OutputBufferManager | None = None

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._tasks: weakref.WeakValueDictionary[str, OutputBuffers] = weakref.WeakValueDictionary()

    @classmethod
    def instance(cls) -> OutputBufferManager:
        """Return the manager of this process."""
        if cls._instance is None:
            cls._instance = OutputBufferManager()
        return cls._instance

    def add(self, buffers: OutputBuffers) -> None:
        """Add a task's output.

        Raises
        ------
        PlanError
            Another task has the same id.
        """
        with self._lock:
            if self._tasks.get(buffers.task_id) is not None:
                raise PlanError(f"task id {buffers.task_id!r} is in use in this process; give each task a different id")
            self._tasks[buffers.task_id] = buffers

    def buffers(self, task_id: str) -> OutputBuffers:
        """Return the output of a task.

        Raises
        ------
        QcoreError
            No task of that id has output here.
        """
        found = self._tasks.get(task_id)
        if found is None:
            raise QcoreError(
                f"this process has no output of a task {task_id!r}: no such task was made, or it was freed; keep a "
                "reference to the Task while its output is fetched"
            )
        return found

    def fetch(
        self,
        task_id: str,
        partition: int,
        sequence: int,
        max_bytes: int | None = FETCH_BYTES,
        timeout: float | None = None,
    ) -> Pages:
        """Fetch pages as OutputBuffers.fetch does."""
        return self.buffers(task_id).fetch(partition, sequence, max_bytes, timeout)

    def acknowledge(self, task_id: str, partition: int, sequence: int) -> None:
        """Free pages as OutputBuffers.acknowledge does."""
        self.buffers(task_id).acknowledge(partition, sequence)

    def abandon(self, task_id: str, partition: int) -> None:
        """Abandon a partition as OutputBuffers.abandon does."""
        self.buffers(task_id).abandon(partition)
