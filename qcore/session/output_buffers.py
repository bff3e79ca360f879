"""A task's output for other tasks: pages fetched by number, acknowledged, and fetched again if need be.

SPEC V11.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError, QcoreError
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widened
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.execution.scheduler import WaitingForOthers
from qcore_ext.ground.memory import Account
from qcore_ext.ground.process import ProcessLock

# What one fetch asks for, unless told: a few pages.
FETCH_BYTES = 1 << 22


class _Running(Protocol):
    """What this needs of the engine's task."""

    def wait(self, timeout: float | None = None) -> None: ...

    def ask_again(self) -> None: ...

    def check_process(self) -> None: ...


@dataclass(frozen=True)
class Pages:
    """What a fetch gave.

    Attributes
    ----------
    batches : tuple of pyarrow.RecordBatch
        One a page; none when no page came in time, or none is left.
    sequence, next_sequence : int
        Number of the first page, and of the one to fetch next, which acknowledges these.
    complete : bool
        Whether nothing follows them.
    schema : pyarrow.Schema
        Of the output.
    """

    batches: tuple[pa.RecordBatch, ...]
    sequence: int
    complete: bool
    schema: pa.Schema

    @property
    def next_sequence(self) -> int:
        """Number of the page after these."""
        return self.sequence + len(self.batches)

    def to_ipc(self) -> pa.Buffer:
        """The pages as bytes: an Arrow IPC stream of their batches, with the schema even when there is no page.

        A stream has one schema, so all pages are under the widest of theirs (SPEC D6).
        """
        sink = pa.BufferOutputStream()
        schema = self.batches[0].schema if self.batches else self.schema
        batches = self.batches
        if any(not batch.schema.equals(schema) for batch in batches):
            wide = reduce(widened, (Schema(batch.schema) for batch in batches))
            widener, schema = Widener(Account()), pa.schema(wide)
            batches = tuple(pa.record_batch(widener.widen(PyBatch.from_arrow(batch), wide)) for batch in batches)
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return sink.getvalue()


class OutputBuffers:
    """The buffers of one task, by partition; from Task.output_buffers(). Usable from any thread.

    Each partition has one consumer. It fetches page 0 and on, and does with the pages what it does; fetching the next
    ones, or acknowledge(), says that it is done with them, and until then they can be fetched again. All partitions
    share `buffer_bytes`: while as much is held, the task waits (without a thread), so a consumer that stands still
    stops the others in the end, and one thread that reads one partition to its end before the next needs buffers that
    hold the rest.

    Attributes
    ----------
    task_id : str
    kind : str
        partitioned, broadcast or arbitrary.
    n_partitions : int
    schema : pyarrow.Schema
    """

    def __init__(
        self, task_id: str, kind: str, buffer: OutputBuffer, schema: pa.Schema, task: _Running, handle: object
    ) -> None:
        self.task_id = task_id
        self.kind = kind
        self.n_partitions = buffer.n_partitions
        self.schema = schema
        self._buffer = buffer
        self._task = task
        self._handle = handle  # the task runs while somebody has this or the task

    def fetch(
        self, partition: int, sequence: int, max_bytes: int | None = FETCH_BYTES, timeout: float | None = None
    ) -> Pages:
        """The pages of a partition from number `sequence` on. Those before are acknowledged by it.

        Parameters
        ----------
        partition : int
            From 0.
        sequence : int
            0 at first, then `next_sequence` of what was fetched last; or less, for pages not yet acknowledged.
        max_bytes : int, optional
            No more pages than have as many bytes; one at least.
        timeout : float, optional
            Seconds to wait for the first page; then an empty answer that is not complete. None: as long as it takes.

        Raises
        ------
        QcoreError
            What the task failed with, Cancelled included, even where pages are left.
        ExecutionError
            The pages were acknowledged, or abandoned, or page `sequence - 1` has not come yet.
        """
        self._task.check_process()
        with WaitingForOthers():
            found = self._buffer.fetch(partition, sequence, max_bytes, timeout)
        if found is None:
            self._task.wait()
            raise ExecutionError(f"task {self.task_id} was stopped before its output was complete")
        pages, complete = found
        return Pages(tuple(pa.record_batch(page) for page in pages), sequence, complete, self.schema)

    def acknowledge(self, partition: int, sequence: int) -> None:
        """The pages before number `sequence` are no longer needed; they go. Saying it again is harmless."""
        self._task.check_process()
        self._buffer.acknowledge(partition, sequence)

    def abandon(self, partition: int) -> None:
        """The partition's consumer wants no more: its pages go, and more are not kept. With the last one the task
        stops, as after a LIMIT.
        """
        self._task.check_process()
        self._buffer.drop(partition)
        self._task.ask_again()  # a driver that waits for a split would not see that nobody wants it

    def close(self) -> None:
        """Abandon every partition."""
        self._task.check_process()
        for partition in range(self.n_partitions):
            self._buffer.drop(partition)
        self._task.ask_again()

    def reader(self, partition: int) -> PartitionReader:
        """The batches of a partition, each once, with `__arrow_c_stream__`: a source for another plan."""
        self._buffer.check_partition(partition)
        return PartitionReader(self, partition)

    @property
    def n_bytes(self) -> int:
        """Bytes held now."""
        self._task.check_process()
        return self._buffer.n_bytes

    def stats(self) -> list[dict[str, Any]]:
        """Of each partition: pages, rows and bytes so far, pages held and acknowledged, and whether abandoned."""
        self._task.check_process()
        return self._buffer.stats()

    def __enter__(self) -> OutputBuffers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class PartitionReader:
    """Reads one partition to its end, acknowledging what it has given. One thread at a time."""

    trust = "everything"  # the engine made the pages

    def __init__(self, buffers: OutputBuffers, partition: int) -> None:
        self._buffers = buffers
        self._partition = partition
        self._pages: list[pa.RecordBatch] = []
        self._sequence = 0
        self._complete = False

    @property
    def schema(self) -> pa.Schema:
        """Of the batches."""
        return self._buffers.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while not self._pages:
            if self._complete:
                self._buffers.acknowledge(self._partition, self._sequence)
                raise StopIteration
            pages = self._buffers.fetch(self._partition, self._sequence)
            self._sequence, self._complete = pages.next_sequence, pages.complete
            self._pages = list(reversed(pages.batches))
        return self._pages.pop()

    def close(self) -> None:
        """Read no further."""
        if not self._complete or self._pages:
            self._pages, self._complete = [], True
            self._buffers.abandon(self._partition)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)


class OutputBufferManager:
    """The output of all tasks of this process, fetched by (task, partition, sequence); `instance()` is the one.

    A task whose plan ends in partitioned_output() is here from its making until it is forgotten.
    """

    _instance: OutputBufferManager | None = None

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._tasks: weakref.WeakValueDictionary[str, OutputBuffers] = weakref.WeakValueDictionary()

    @classmethod
    def instance(cls) -> OutputBufferManager:
        """The process's own."""
        if cls._instance is None:
            cls._instance = OutputBufferManager()
        return cls._instance

    def add(self, buffers: OutputBuffers) -> None:
        """Make a task's output known. PlanError when another task of the same id is."""
        with self._lock:
            if self._tasks.get(buffers.task_id) is not None:
                raise PlanError(f"a task {buffers.task_id!r} has output here already; give each task an id of its own")
            self._tasks[buffers.task_id] = buffers

    def buffers(self, task_id: str) -> OutputBuffers:
        """The output of a task. QcoreError for one that is not here."""
        found = self._tasks.get(task_id)
        if found is None:
            raise QcoreError(f"no task {task_id!r} has output here: it never had, or was forgotten")
        return found

    def fetch(
        self,
        task_id: str,
        partition: int,
        sequence: int,
        max_bytes: int | None = FETCH_BYTES,
        timeout: float | None = None,
    ) -> Pages:
        """As OutputBuffers.fetch."""
        return self.buffers(task_id).fetch(partition, sequence, max_bytes, timeout)

    def acknowledge(self, task_id: str, partition: int, sequence: int) -> None:
        """As OutputBuffers.acknowledge."""
        self.buffers(task_id).acknowledge(partition, sequence)

    def abandon(self, task_id: str, partition: int) -> None:
        """As OutputBuffers.abandon."""
        self.buffers(task_id).abandon(partition)
