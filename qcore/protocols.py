"""Operators written in Python: base classes of the three protocols.

- `Operator` takes batches by add_input() and returns batches from get_output(), as operators of Velox do.
- `SinkOperator`, `SourceOperator` and `StatelessOperator` are polled and keep their state in separate objects, as those
  of GlareDB do.
- `BatchIterator` iterates over its input, as operators of Drill do.

Batches are pyarrow.RecordBatch. A constructor sees no schema. `bind(schema)` is called before the first batch and
before every batch with another schema.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from qcore.config import Settings
from qcore.errors import PlanError


@dataclass(frozen=True)
class Blocked:
    """The result of an operator that must wait: the reason, and a future that ends the wait.

    Attributes
    ----------
    reason : str or None
        A name of qcore_ext.ground.stats.BlockReason, such as "consumer" or "user". Statistics count blocked time by
        reason. With None the engine chooses the reason.
    future : concurrent.futures.Future, asyncio.Future or anything with done(), add_done_callback() and result()
        Any thread may complete it. If it fails, the query fails with its error.

    Examples
    --------
    >>> from concurrent.futures import Future
    >>> Blocked("user", Future()).reason
    'user'
    """

    reason: str | None
    future: Any


class SchemaMethods:
    """The schema methods of all operators written in Python."""

    def bind(self, schema: pa.Schema) -> None:
        """Receive the input's schema: before the first batch, and before every batch of another schema."""

    def output_schema(self, schema: Any) -> Any:
        """Return the output's schema for an input schema (None: there is no input); by default the input's."""
        return schema


class Operator(SchemaMethods):
    """An operator that takes batches and returns batches. Each instance belongs to one driver.

    One thread calls it at a time, not always the same one. The driver calls is_blocked, is_finishing and get_output in
    this order, and needs_input if get_output returned None. State that several drivers share belongs into a separate
    object with a lock. The memory of a returned batch must not change afterwards. In checked mode (QCORE_DEBUG=1) an
    error names a source that changes it.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.compute as pc, qcore
    >>> class Doubled(qcore.Operator):
    ...     held = None
    ...
    ...     def needs_input(self):
    ...         return self.held is None
    ...
    ...     def add_input(self, batch):
    ...         self.held = batch.set_column(0, "a", pc.multiply(batch.column(0), 2))
    ...
    ...     def get_output(self):
    ...         given, self.held = self.held, None
    ...         return given
    >>> plan = qcore.PlanBuilder().values(pa.table({"a": [1, 2]})).operator(Doubled).build()
    >>> qcore.Session(threads=1).execute(plan).to_arrow().to_pydict()
    {'a': [2, 4]}
    """

    #: True when no further input comes; the engine sets it just before it calls finish().
    finish_called = False

    def needs_input(self) -> bool:
        """Whether add_input may be called. Not called for a source."""
        return not self.is_finishing()

    def add_input(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""
        raise TypeError(f"{type(self).__name__} has no add_input(): it takes no batches")

    def get_output(self) -> pa.RecordBatch | None:
        """Return the next batch, or None if there is none now. A sink always returns None."""
        return None

    def finish(self) -> None:
        """Called when no further input comes. get_output() may still return batches afterwards."""

    def is_blocked(self) -> Blocked | None:
        """Return what the operator waits for, or None. The driver leaves its thread until the future is done."""
        return None

    def is_finishing(self) -> bool:
        """Whether the operator is about to end: get_output() returns the remaining batches, and then None.

        True before finish() was called means that the operator wants no more input. The engine then stops its input.
        """
        return self.finish_called

    def abandon(self) -> None:
        """End early, because no more output is wanted. Release other drivers that wait for this one.

        Only close() follows.
        """

    def close(self) -> None:
        """Release everything. Called exactly once, also after an error."""


class Waker:
    """Makes the engine poll a partition again. Any thread may call it, any number of times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._woken = False
        self._callbacks: list[Callable[[Any], Any]] = []

    def wake(self) -> None:
        """Request another poll. A wake during a poll makes that poll repeat."""
        with self._lock:
            self._woken = True
            callbacks, self._callbacks = self._callbacks, []
        # Outside the lock: a callback may call this waker.
        for callback in callbacks:
            callback(self)

    def rearm(self) -> None:
        """Clear earlier wakes. Called when a poll begins, because that poll handles their cause."""
        with self._lock:
            self._woken = False

    @property
    def woken(self) -> bool:
        """Whether wake() was called since the last poll began."""
        return self._woken

    def when_woken(self, callback: Callable[[Any], Any]) -> None:
        """Call `callback` at the next wake, or immediately if wake() was called since the last poll began."""
        with self._lock:
            if not self._woken:
                self._callbacks.append(callback)
                return
        callback(self)


class Context:
    """The first argument of a polled operator's methods.

    Attributes
    ----------
    settings : Settings
        Settings of the session: threads, memory_limit, batch_rows, timeout.
    partition : int or None
        The number of the polled partition, from 0; None in init_global_state.
    partitions : int
        The number of partitions.
    """

    def __init__(self, settings: Settings, partition: int | None, partitions: int) -> None:
        self.settings = settings
        self.partition = partition
        self.partitions = partitions
        self._waker = Waker()

    def change_session(self, **settings: Any) -> None:
        """Change settings of the session that runs the query, as Session.change does. This query keeps its own.

        Raises
        ------
        PlanError
            The query runs without a session, or there is no such setting.
        """
        if self.settings.change is None:
            raise PlanError("this query runs without a session: there are no settings to change")
        self.settings.change(**settings)

    def waker(self) -> Waker:
        """Return the partition's waker. After PENDING the operator wakes it when the next poll can make progress."""
        return self._waker


class PollPush:
    """A result of poll_push: PUSHED, pending(batch) or BREAK.

    Examples
    --------
    >>> PollPush.PUSHED
    PollPush.PUSHED
    """

    PUSHED: ClassVar[PollPush]
    BREAK: ClassVar[PollPush]

    def __init__(self, name: str, batch: pa.RecordBatch | None = None) -> None:
        self.name = name
        self.refused = batch

    def __repr__(self) -> str:
        return f"PollPush.{self.name}"

    @staticmethod
    def pending(batch: pa.RecordBatch) -> PollPush:
        """Refuse the batch for now. The same batch is offered again, unchanged, after the waker fired."""
        return PollPush("pending", batch)


PollPush.PUSHED = PollPush("PUSHED")
PollPush.BREAK = PollPush("BREAK")


class PollPull:
    """A result of poll_pull: batch(b), PENDING or EXHAUSTED.

    Examples
    --------
    >>> PollPull.batch(pa.record_batch({"a": [1]})).given.num_rows
    1
    """

    PENDING: ClassVar[PollPull]
    EXHAUSTED: ClassVar[PollPull]

    def __init__(self, name: str, batch: pa.RecordBatch | None = None) -> None:
        self.name = name
        self.given = batch

    def __repr__(self) -> str:
        return f"PollPull.{self.name}"

    @staticmethod
    def batch(batch: pa.RecordBatch) -> PollPull:
        """Return a batch."""
        return PollPull("batch", batch)


PollPull.PENDING = PollPull("PENDING")
PollPull.EXHAUSTED = PollPull("EXHAUSTED")


class PolledOperator(SchemaMethods):
    """One object for all partitions. Everything that changes is in the global state and the local states."""

    def init_global_state(self, cx: Context) -> Any:
        """Return the state that the partitions share. Called once a query. Locks belong here."""
        return None

    def init_local_state(self, cx: Context, global_state: Any) -> Any:
        """Return the state of one partition. Called once a partition."""
        return None

    def abandon(self, cx: Context, local: Any, global_state: Any, partition: int) -> None:
        """End a partition early: its output is no longer wanted. Release other partitions that wait for this one."""

    def close(self, cx: Context, local: Any, global_state: Any, partition: int) -> None:
        """Release what the partition holds. Called exactly once a partition, also after an error."""


class SinkOperator(PolledOperator):
    """The end of a plan. The engine offers it batches by poll_push()."""

    def poll_push(self, cx: Context, local: Any, global_state: Any, batch: pa.RecordBatch, partition: int) -> PollPush:
        """Take a batch.

        Returns
        -------
        PollPush
            PUSHED: the batch was taken. `pending(batch)`: not yet; something will call `cx.waker().wake()`. BREAK: the
            batch was taken and no more are wanted.
        """
        raise TypeError(f"{type(self).__name__} has no poll_push()")

    def finish(self, cx: Context, local: Any, global_state: Any, partition: int) -> Blocked | None:
        """End a partition: its input is over, or poll_push returned BREAK. Return a Blocked to wait, or None."""
        return None


class SourceOperator(PolledOperator):
    """A source of batches. The engine asks it for batches by poll_pull().

    The engine reads the memory of a returned batch without a copy, possibly until the query ends. The source must write
    its next rows into new buffers. In checked mode (QCORE_DEBUG=1) an error names a source that reuses buffers.
    """

    #: The number of partitions to poll; None: one for each thread.
    partitions: int | None = None

    def poll_pull(self, cx: Context, local: Any, global_state: Any, partition: int) -> PollPull:
        """Return the next batch.

        Returns
        -------
        PollPull
            `batch(b)`: a batch. PENDING: none now; something will call `cx.waker().wake()`. EXHAUSTED: the end.
        """
        raise TypeError(f"{type(self).__name__} has no poll_pull()")


class StatelessOperator(SchemaMethods):
    """Makes at most one batch of each batch and keeps no state. One object serves all partitions.

    Examples
    --------
    >>> import pyarrow as pa, qcore
    >>> class FirstRow(qcore.StatelessOperator):
    ...     def execute(self, cx, batch):
    ...         return batch.slice(0, 1)
    >>> plan = qcore.PlanBuilder().values(pa.table({"a": [1, 2]})).operator(FirstRow()).build()
    >>> qcore.Session(threads=1).execute(plan).to_arrow().to_pydict()
    {'a': [1]}
    """

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the batch for an input batch; None: there is no output for it."""
        raise TypeError(f"{type(self).__name__} has no execute()")


class IterOutcome(enum.Enum):
    """A result of next() of a running query or of an iterator operator."""

    OK_NEW_SCHEMA = "a schema, and perhaps rows"
    OK = "rows of the known schema"
    NONE = "no more rows"
    STOP = "an error ended the query"
    NOT_YET = "no rows now; an iterator that gets this from its child returns it"


class BatchIterator(SchemaMethods):
    """An operator as an iterator over its input. Each instance belongs to one driver.

    Attributes
    ----------
    child : BatchIterator or None
        The input: child.next(), child.batch, child.schema. None in a source.
    batch : pyarrow.RecordBatch or None
        The rows of the last OK or OK_NEW_SCHEMA.
    error : Exception or None
        The error of a STOP.
    """

    child: Any = None
    batch: pa.RecordBatch | None = None
    error: Exception | None = None

    def next(self) -> IterOutcome | Blocked:
        """Move to the next batch. After a Blocked the engine waits for its future and calls next() again."""
        return IterOutcome.NONE

    @property
    def schema(self) -> pa.Schema | None:
        """Schema of the last batch."""
        return None if self.batch is None else self.batch.schema

    def close(self) -> None:
        """Release everything. Called exactly once, also after an error."""
