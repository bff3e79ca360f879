"""Adapters: operators of the polled and the iterating protocol as `Operator`s, which the engine runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from qcore.config import Settings
from qcore.errors import ExecutionError
from qcore.protocols import (
    BatchIterator,
    Blocked,
    Context,
    IterOutcome,
    Operator,
    PolledOperator,
    PollPull,
    PollPush,
    SinkOperator,
    StatelessOperator,
    Waker,
)
from qcore_ext.ground.error_text import class_name

MakeOperator = Callable[[int], Operator]


def operator_name(factory: Any) -> str:
    """The name of a factory's operators in messages and plans."""
    if isinstance(factory, (PolledOperator, StatelessOperator)):
        return class_name(type(factory))
    if isinstance(factory, type):
        return class_name(factory)
    return str(getattr(factory, "__name__", None) or class_name(type(factory)))


def operator_maker(factory: Any, settings: Settings, partitions: int, has_input: bool) -> MakeOperator:
    """Return a function that makes the operator of each of `partitions` drivers. A query calls this once.

    `factory` is an object of the polled protocol, whose global state the drivers share, or a callable that returns a
    new Operator or BatchIterator.
    """
    if isinstance(factory, StatelessOperator):
        return lambda partition: _StatelessBridge(factory, Context(settings, partition, partitions))
    if isinstance(factory, PolledOperator):
        states = _States(factory, settings, partitions)
        bridge = _SinkBridge if isinstance(factory, SinkOperator) else _SourceBridge
        return lambda partition: bridge(states, partition)

    def make(partition: int) -> Operator:
        made = factory()
        if isinstance(made, BatchIterator):
            return _IteratorBridge(made, has_input)
        if not isinstance(made, Operator):
            raise TypeError(f"it returned a {class_name(type(made))}, not a qcore.Operator or qcore.BatchIterator")
        return made

    return make


def _describe(answer: Any) -> str:
    """An invalid answer in a message: small values as they are, others by their class."""
    return repr(answer) if answer is None or type(answer) in (bool, int, str) else f"a {class_name(type(answer))}"


class _States:
    """The states of one polled operator in one query."""

    def __init__(self, operator: PolledOperator, settings: Settings, partitions: int) -> None:
        self.operator: Any = operator
        self.settings = settings
        self.partitions = partitions
        self._lock = threading.Lock()
        self._made = False
        self._shared: Any = None
        self._failure: BaseException | None = None

    def share_state(self) -> Any:
        """The global state. The first partition that asks makes it."""
        with self._lock:
            if not self._made:
                self._made = True
                try:
                    self._shared = self.operator.init_global_state(Context(self.settings, None, self.partitions))
                except BaseException as error:
                    self._failure = error
                    raise
            if self._failure is not None:
                raise self._failure  # another partition's attempt failed, and there is only one attempt
            return self._shared


class _Wake:
    """A waker as a future that is done at the next wake. Each poll that answered PENDING makes one."""

    def __init__(self, waker: Waker) -> None:
        self._waker = waker

    def done(self) -> bool:
        return self._waker.woken

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        self._waker.when_woken(callback)

    def result(self) -> None:
        return None


class _Bridge(Operator):
    """A user's operator of another protocol. Messages and plans show the name of its class."""

    def __init__(self, user: Any) -> None:
        self.user = user
        self.operator_name = class_name(type(user))

    def bind(self, schema: pa.Schema) -> None:
        self.user.bind(schema)

    def output_schema(self, schema: Any) -> Any:
        return self.user.output_schema(schema)


class _PolledBridge(_Bridge):
    """One partition of a polled operator."""

    def __init__(self, states: _States, partition: int) -> None:
        super().__init__(states.operator)
        self.partition = partition
        self.cx = Context(states.settings, partition, states.partitions)
        self.shared = states.share_state()
        self.local = self.user.init_local_state(self.cx, self.shared)
        self.blocked: Blocked | None = None
        self.over = False

    def is_blocked(self) -> Blocked | None:
        return self.blocked

    def is_finishing(self) -> bool:
        return self.over

    def abandon(self) -> None:
        self.user.abandon(self.cx, self.local, self.shared, self.partition)

    def close(self) -> None:
        self.user.close(self.cx, self.local, self.shared, self.partition)

    def _begin_poll(self) -> None:
        self.blocked = None
        self.cx.waker().rearm()

    def _poll_later(self) -> None:
        self.blocked = Blocked("user", _Wake(self.cx.waker()))


class _SinkBridge(_PolledBridge):
    """One partition of a sink: offers a batch until it is pushed."""

    offered: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self.offered is None and not self.over

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.offered = batch
        self._push()

    def get_output(self) -> None:
        if self.offered is not None:
            self._push()

    def _push(self) -> None:
        self._begin_poll()
        answer = self.user.poll_push(self.cx, self.local, self.shared, self.offered, self.partition)
        if not isinstance(answer, PollPush):
            raise ExecutionError(f"poll_push() returned {_describe(answer)} instead of a qcore.PollPush")
        if answer is PollPush.PUSHED:
            self.offered = None
        elif answer is PollPush.BREAK:
            self.offered = None
            self.finish()
        elif answer.refused is not self.offered:
            raise ExecutionError("poll_push() returned pending() with another batch than the one that it was given")
        else:
            self._poll_later()

    def finish(self) -> None:
        if self.over:
            return
        self.over = True
        answer = self.user.finish(self.cx, self.local, self.shared, self.partition)
        if answer is not None and not isinstance(answer, Blocked):
            raise ExecutionError(f"finish() returned {_describe(answer)} instead of None or a qcore.Blocked")
        self.blocked = answer


class _SourceBridge(_PolledBridge):
    """One partition of a source: pulls until it is exhausted."""

    def get_output(self) -> pa.RecordBatch | None:
        if self.over:
            return None
        self._begin_poll()
        answer = self.user.poll_pull(self.cx, self.local, self.shared, self.partition)
        if not isinstance(answer, PollPull):
            raise ExecutionError(f"poll_pull() returned {_describe(answer)} instead of a qcore.PollPull")
        if answer is PollPull.EXHAUSTED:
            self.over = True
        elif answer is PollPull.PENDING:
            self._poll_later()
        elif answer.given is None:
            raise ExecutionError(
                "poll_pull() returned PollPull.batch(None); return PENDING or EXHAUSTED when there is no batch"
            )
        return answer.given


class _StatelessBridge(_Bridge):
    """A stateless operator: holds one output batch until the driver takes it."""

    def __init__(self, user: StatelessOperator, cx: Context) -> None:
        super().__init__(user)
        self.cx = cx
        self.given: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self.given is None and not self.finish_called

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.given = self.user.execute(self.cx, batch)

    def get_output(self) -> pa.RecordBatch | None:
        given, self.given = self.given, None
        return given


class _Child(BatchIterator):
    """The input of an iterator operator: the batch that the driver added last."""

    def __init__(self) -> None:
        self.offered: pa.RecordBatch | None = None
        self.over = False
        self.starved = False

    def next(self) -> IterOutcome:
        if self.offered is None:
            self.starved = not self.over
            return IterOutcome.NONE if self.over else IterOutcome.NOT_YET
        changed = self.batch is None or not self.offered.schema.equals(self.batch.schema)
        self.batch, self.offered = self.offered, None
        return IterOutcome.OK_NEW_SCHEMA if changed else IterOutcome.OK


class _IteratorBridge(_Bridge):
    """An iterator operator: asks it for the next batch whenever the driver wants one."""

    def __init__(self, user: BatchIterator, has_input: bool) -> None:
        super().__init__(user)
        self.child = _Child()
        if has_input:
            user.child = self.child
        self.blocked: Blocked | None = None
        self.over = False

    def needs_input(self) -> bool:
        return self.child.starved

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.child.offered = batch
        self.child.starved = False

    def get_output(self) -> pa.RecordBatch | None:
        if self.over or self.child.starved:
            return None
        self.blocked = None
        outcome = self.user.next()
        if isinstance(outcome, Blocked):
            self.blocked = outcome
        elif not isinstance(outcome, IterOutcome):
            raise ExecutionError(
                f"next() returned {_describe(outcome)} instead of a qcore.IterOutcome or a qcore.Blocked"
            )
        elif outcome is IterOutcome.STOP:
            if self.user.error is None:
                raise ExecutionError("next() returned STOP, but `error` is None; set `error` before returning STOP")
            raise self.user.error
        elif outcome is IterOutcome.NONE:
            self.over = True
        elif outcome is not IterOutcome.NOT_YET:
            if self.user.batch is None:
                raise ExecutionError(f"next() returned {outcome.name}, but `batch` is None; set `batch` before")
            return self.user.batch
        return None

    def finish(self) -> None:
        self.child.over = True
        self.child.starved = False

    def is_blocked(self) -> Blocked | None:
        return self.blocked

    def is_finishing(self) -> bool:
        return self.over

    def close(self) -> None:
        self.user.close()
