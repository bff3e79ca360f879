"""Checked mode names sources that write into the memory of a batch that they have returned (SPEC H3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import qcore
from qcore import Blocked, IterOutcome, PlanBuilder, PollPull, Task

pytestmark = pytest.mark.timeout(120)

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
N_BATCHES = 20
CHANGED = r"Reusing \(node culprit\).*: changed column 'a' of a batch after returning it; .*a copy"


class Memory:
    """Gives batches over `n_buffers` buffers, filled in turn."""

    def __init__(self, n_buffers: int) -> None:
        self.buffers = [np.zeros(100, dtype=np.int64) for _ in range(n_buffers)]
        self.constant = pa.array([7] * 100, pa.int64())
        self.n_given = 0
        self.lock = threading.Lock()

    def batch(self) -> pa.RecordBatch | None:
        with self.lock:
            self.n_given += 1
            if self.n_given > N_BATCHES:
                return None
            buffer = self.buffers[self.n_given % len(self.buffers)]
            buffer[:] = self.n_given
            return pa.record_batch([pa.array(buffer), self.constant], schema=SCHEMA)


def poll_source(n_buffers: int) -> Any:
    class Reusing(qcore.SourceOperator):
        partitions = 1

        def init_local_state(self, cx: Any, shared: Any) -> Memory:
            return Memory(n_buffers)

        def poll_pull(self, cx: Any, local: Memory, shared: Any, partition: int) -> PollPull:
            batch = local.batch()
            return PollPull.EXHAUSTED if batch is None else PollPull.batch(batch)

    return Reusing()


def push_batches(n_buffers: int) -> Any:
    class Reusing(qcore.Operator):
        def __init__(self) -> None:
            self.memory = Memory(n_buffers)

        def get_output(self) -> pa.RecordBatch | None:
            return self.memory.batch()

        def is_finishing(self) -> bool:
            return self.memory.n_given >= N_BATCHES

    return Reusing


def iterating(n_buffers: int) -> Any:
    class Reusing(qcore.BatchIterator):
        def __init__(self) -> None:
            self.memory = Memory(n_buffers)

        def next(self) -> IterOutcome:
            self.batch = self.memory.batch()
            return IterOutcome.NONE if self.batch is None else IterOutcome.OK

    return Reusing


PLANS: dict[str, Callable[[PlanBuilder], PlanBuilder]] = {
    "as it is": lambda source: source,
    "aggregated": lambda source: source.aggregate([], {"n": ("count",)}),
    "sorted": lambda source: source.order_by("a"),
}


def plan(factory: Any, kind: str) -> Any:
    return PLANS[kind](PlanBuilder().source(factory, schema=SCHEMA, partitions=1, id="culprit")).build()


@pytest.mark.each_value
@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("drivers", [1, 2, 8])
@pytest.mark.parametrize("n_buffers", [1, 3, 8])
@pytest.mark.parametrize("protocol", [poll_source, push_batches, iterating])
def test_a_source_that_uses_a_buffer_again_is_named(protocol: Any, n_buffers: int, drivers: int, kind: str) -> None:
    """H3, D9: the error does not depend on the plan, because it comes also if the engine has released the batch."""
    task = Task(plan(protocol(n_buffers), kind), drivers=drivers)
    with pytest.raises(qcore.ExecutionError, match=CHANGED) as raised:
        list(task.batches(timeout=60))
    assert (raised.value.operator, raised.value.node_id) == ("Reusing", "culprit")
    assert task.state == "failed"


@pytest.mark.parametrize("protocol", [poll_source, push_batches, iterating])
def test_a_source_with_memory_for_every_batch_is_not(protocol: Any) -> None:
    task = Task(plan(protocol(N_BATCHES), "sorted"), drivers=2)
    assert sum(batch.num_rows for batch in task.batches(timeout=60)) == 100 * N_BATCHES


def test_bytes_outside_of_the_rows_may_change() -> None:
    """Bytes outside of a batch's rows may change. Its rows may be a slice of growing memory, or end in a byte."""
    memory = np.zeros(1000, dtype=np.int64)

    class Growing(qcore.SourceOperator):
        partitions = 1

        def init_local_state(self, cx: Any, shared: Any) -> list[int]:
            return [0]

        def poll_pull(self, cx: Any, local: list[int], shared: Any, partition: int) -> PollPull:
            start = local[0]
            if start == 1000:
                return PollPull.EXHAUSTED
            memory[start : start + 100] = start
            local[0] += 100
            rows = pa.array(memory).slice(start, 100)
            return PollPull.batch(pa.record_batch([rows, rows], schema=SCHEMA))

    task = Task(plan(Growing(), "as it is"), drivers=2)
    assert sum(batch.num_rows for batch in task.batches(timeout=60)) == 1000


def test_a_source_may_wait_for_its_memory_to_come_back() -> None:
    """The check keeps no reference to a batch while its source waits for the memory."""
    returned: list[Future[None]] = []

    class Lent(np.ndarray):
        def __del__(self) -> None:
            if self.base is not None and returned and not returned[-1].done():
                returned[-1].set_result(None)

    class Lending(qcore.Operator):
        n_given = 0

        def is_blocked(self) -> Blocked | None:
            return Blocked("user", returned[-1]) if returned and not returned[-1].done() else None

        def get_output(self) -> pa.RecordBatch | None:
            if self.is_finishing():
                return None
            self.n_given += 1
            lent = np.full(100, self.n_given, dtype=np.int64).view(Lent)
            batch = pa.record_batch([pa.array(lent), pa.array(lent)], schema=SCHEMA)
            returned.append(Future())
            return batch

        def is_finishing(self) -> bool:
            return self.n_given >= 5

    task = Task(plan(Lending, "aggregated"), drivers=2)
    assert [row["n"] for batch in task.batches(timeout=60) for row in batch.to_pylist()] == [500]


def test_only_checked_mode_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only checked mode compares the memory, so other queries do not pay for it."""
    monkeypatch.setenv("QCORE_DEBUG", "0")
    task = Task(plan(poll_source(1), "aggregated"), drivers=1)
    assert [row["n"] for batch in task.batches(timeout=60) for row in batch.to_pylist()] == [100 * N_BATCHES]


class Stream:
    """A registered stream whose batches lie in `n_buffers` buffers."""

    def __init__(self, n_buffers: int) -> None:
        self.memory = Memory(n_buffers)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches = iter(self.memory.batch, None)
        return pa.RecordBatchReader.from_batches(SCHEMA, batches).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("n_buffers", [1, 3, 8])
@pytest.mark.parametrize("by_pyarrow", [False, True])
def test_a_registered_stream_is_named(n_buffers: int, by_pyarrow: bool) -> None:
    """H3: through the C interface, and as pyarrow's own reader."""
    session = qcore.Session(threads=2)
    source = Stream(n_buffers)
    session.register("t", pa.RecordBatchReader.from_stream(source) if by_pyarrow else source)
    with pytest.raises(qcore.ExecutionError, match=r"(Stream|Reader) changed column 'a' of a batch after returning"):
        session.sql("select sum(a) s from t").to_arrow()


def test_a_registered_stream_with_memory_for_every_batch_is_not() -> None:
    session = qcore.Session(threads=2)
    session.register("t", Stream(N_BATCHES))
    assert session.sql("select count(*) n from t").to_arrow().to_pylist() == [{"n": 100 * N_BATCHES}]
