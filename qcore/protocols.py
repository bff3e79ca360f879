"""Operators written in Python: base classes of the three protocols. SPEC V5, G1–G4, D2, H3.

`Operator` is pushed to and asked (Velox's protocol), `SinkOperator`, `SourceOperator` and `StatelessOperator` are
polled with their state apart (GlareDB's), `BatchIterator` is an iterator over its input (Drill's). Batches are
pyarrow.RecordBatch. Constructors see no schema; `bind(schema)` comes with the first batch and with every new schema.
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
    """Why an operator has to wait, and until when.

    Attributes
    ----------
    reason : str or None
        A name of qcore_ext.ground.stats.BlockReason, such as "consumer" or "user"; time blocked is counted by it. None
        leaves it to who is told.
    future : concurrent.futures.Future, asyncio.Future or anything with done(), add_done_callback() and result()
        Completed from any thread; when it fails, so does the query.
    """

    reason: str | None
    future: Any


class Bound:
    """What all user operators may define about schemas."""

    def bind(self, schema: pa.Schema) -> None:
        """The input's schema: before the first batch, and before every batch of another schema."""

    def output_schema(self, schema: Any) -> Any:
        """The output's schema for this input (None: there is no input); by default the input's."""
        return schema


class Operator(Bound):
    """An operator that is given batches and asked for batches; an instance belongs to one driver (SPEC V5).

    It is called by one thread at a time, not always the same. In order: is_blocked, is_finishing, get_output, and when
    that gave None, needs_input. Whatever drivers share lies outside, under a lock. The memory of a batch that was given
    must not change any more; in checked mode (QCORE_DEBUG=1) a source that changes it is named in an error.

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

    #: Set once no further input comes, just before finish().
    finish_called = False

    def needs_input(self) -> bool:
        """Whether add_input may be called. Never asked of a source."""
        return not self.is_finishing()

    def add_input(self, batch: pa.RecordBatch) -> None:
        """Take a batch."""
        raise TypeError(f"{type(self).__name__} has no add_input(): it takes no batches")

    def get_output(self) -> pa.RecordBatch | None:
        """The next batch, or None when there is none now. Always None from a sink."""
        return None

    def finish(self) -> None:
        """No further input comes; output may still."""

    def is_blocked(self) -> Blocked | None:
        """What it waits for, or None. The driver leaves its thread until the future is done."""
        return None

    def is_finishing(self) -> bool:
        """Whether the end is near: get_output() gives what is left, and None ends the operator.

        True before finish() was called means that it wants no more input: what feeds it is stopped.
        """
        return self.finish_called

    def abandon(self) -> None:
        """Nobody wants more: leave whatever others wait at. Only close() follows."""

    def close(self) -> None:
        """Release everything; once, whatever happened before."""


class Waker:
    """Has a partition polled again; may be called from any thread, any number of times (SPEC G1)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._woken = False
        self._callbacks: list[Callable[[Any], Any]] = []

    def wake(self) -> None:
        """Poll again. A wake during a poll counts for that poll."""
        with self._lock:
            self._woken = True
            callbacks, self._callbacks = self._callbacks, []
        # Outside the lock: who is called may come back.
        for callback in callbacks:
            callback(self)

    def rearm(self) -> None:
        """Forget earlier wakes: a poll begins, and sees what they were about."""
        with self._lock:
            self._woken = False

    @property
    def woken(self) -> bool:
        """Whether wake() was called since the last poll began."""
        return self._woken

    def when_woken(self, callback: Callable[[Any], Any]) -> None:
        """Call back at the next wake, or now if it came already."""
        with self._lock:
            if not self._woken:
                self._callbacks.append(callback)
                return
        callback(self)


class Context:
    """What a polled operator is told beside its state (SPEC G6).

    Attributes
    ----------
    settings : Settings
        The session's: threads, memory_limit, batch_rows, timeout.
    partition : int or None
        Which of `partitions` is polled; None in init_global_state.
    partitions : int
    """

    def __init__(self, settings: Settings, partition: int | None, partitions: int) -> None:
        self.settings = settings
        self.partition = partition
        self.partitions = partitions
        self._waker = Waker()

    def change_session(self, **settings: Any) -> None:
        """Change settings of the session that runs the query, as Session.change does; this query keeps its own.

        Raises
        ------
        PlanError
            The query runs without a session, or there is no such setting.
        """
        if self.settings.change is None:
            raise PlanError("this query runs without a session: there are no settings to change")
        self.settings.change(**settings)

    def waker(self) -> Waker:
        """The partition's waker: kept by whoever will know when a poll that answered PENDING is worth repeating."""
        return self._waker


class PollPush:
    """What poll_push answers: PUSHED, pending(batch) or BREAK."""

    PUSHED: ClassVar[PollPush]
    BREAK: ClassVar[PollPush]

    def __init__(self, name: str, batch: pa.RecordBatch | None = None) -> None:
        self.name = name
        self.refused = batch

    def __repr__(self) -> str:
        return f"PollPush.{self.name}"

    @staticmethod
    def pending(batch: pa.RecordBatch) -> PollPush:
        """Not now: the same batch is offered again, unchanged, after the waker fired."""
        return PollPush("pending", batch)


PollPush.PUSHED = PollPush("PUSHED")
PollPush.BREAK = PollPush("BREAK")


class PollPull:
    """What poll_pull answers: batch(b), PENDING or EXHAUSTED."""

    PENDING: ClassVar[PollPull]
    EXHAUSTED: ClassVar[PollPull]

    def __init__(self, name: str, batch: pa.RecordBatch | None = None) -> None:
        self.name = name
        self.given = batch

    def __repr__(self) -> str:
        return f"PollPull.{self.name}"

    @staticmethod
    def batch(batch: pa.RecordBatch) -> PollPull:
        """Here is a batch."""
        return PollPull("batch", batch)


PollPull.PENDING = PollPull("PENDING")
PollPull.EXHAUSTED = PollPull("EXHAUSTED")


class PolledOperator(Bound):
    """One object for all partitions; what changes lies in the states (SPEC G2)."""

    def init_global_state(self, cx: Context) -> Any:
        """What the partitions share; called once a query. Locks belong here."""
        return None

    def init_local_state(self, cx: Context, global_state: Any) -> Any:
        """What one partition keeps to itself; called once a partition."""
        return None

    def abandon(self, cx: Context, local: Any, global_state: Any, partition: int) -> None:
        """Nobody wants more of this partition: leave whatever others wait at."""

    def close(self, cx: Context, local: Any, global_state: Any, partition: int) -> None:
        """Release what the partition holds; once a partition, whatever happened before."""


class SinkOperator(PolledOperator):
    """The end of a plan; polled with batches (SPEC G1, G4)."""

    def poll_push(self, cx: Context, local: Any, global_state: Any, batch: pa.RecordBatch, partition: int) -> PollPush:
        """Take a batch: PUSHED; `pending(batch)` after leaving cx.waker() with somebody; BREAK for no more."""
        raise TypeError(f"{type(self).__name__} has no poll_push()")

    def finish(self, cx: Context, local: Any, global_state: Any, partition: int) -> Blocked | None:
        """The partition's input is over, or it answered BREAK. It may wait for others with a Blocked."""
        return None


class SourceOperator(PolledOperator):
    """Where batches come from (SPEC G1, G4).

    A batch that was given belongs to the engine, which reads its memory without a copy for as long as it needs it: the
    next rows need buffers of their own. In checked mode (QCORE_DEBUG=1) a source that writes into them is named in an
    error.
    """

    #: Partitions to poll; None: one a thread.
    partitions: int | None = None

    def poll_pull(self, cx: Context, local: Any, global_state: Any, partition: int) -> PollPull:
        """The next batch(b); PENDING after leaving cx.waker() with somebody; EXHAUSTED at the end."""
        raise TypeError(f"{type(self).__name__} has no poll_pull()")


class StatelessOperator(Bound):
    """A batch in, a batch out, nothing kept: one object for all partitions (SPEC G4)."""

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """What becomes of a batch; None: nothing."""
        raise TypeError(f"{type(self).__name__} has no execute()")


class IterOutcome(enum.Enum):
    """What next() of a running query, or of an iterator operator, answers (SPEC D2)."""

    OK_NEW_SCHEMA = "a schema, and perhaps rows"
    OK = "rows of the schema known"
    NONE = "no more"
    STOP = "an error ended the query"
    NOT_YET = "nothing now; an iterator that gets this from its child hands it on"


class BatchIterator(Bound):
    """An operator as an iterator over its input (SPEC D2); an instance belongs to one driver.

    Attributes
    ----------
    child : BatchIterator or None
        The input: child.next(), child.batch, child.schema. None in a source.
    batch : pyarrow.RecordBatch or None
        What the last OK or OK_NEW_SCHEMA is about.
    error : Exception or None
        What STOP is about.
    """

    child: Any = None
    batch: pa.RecordBatch | None = None
    error: Exception | None = None

    def next(self) -> IterOutcome | Blocked:
        """Go on to the next batch; a Blocked is waited for, then next() is called again."""
        return IterOutcome.NONE

    @property
    def schema(self) -> pa.Schema | None:
        """Schema of the last batch."""
        return None if self.batch is None else self.batch.schema

    def close(self) -> None:
        """Release everything; once, whatever happened before."""
