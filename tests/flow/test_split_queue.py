"""Splits of a source are added while the task runs, and each is read once, in order (SPEC V8)."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import PlanError
from qcore_ext.basic.scan import TableScan
from qcore_ext.data.schema import Schema
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.flow.split_queue import SplitQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import Collector, run_chain

SCHEMA = pa.schema([("a", pa.int64())])
pytestmark = pytest.mark.timeout(120)


def open_split(split: int) -> Any:
    return pa.RecordBatchReader.from_batches(SCHEMA, [pa.record_batch({"a": pa.array([split], pa.int64())})])


def scan(queue: SplitQueue, opened: list[int] | None = None) -> TableScan:
    def opening(split: int) -> Any:
        if opened is not None:
            opened.append(split)
        return open_split(split)

    return TableScan("scan", Account(), queue, Schema(SCHEMA), opening)


# Chunks of 16, 32, 64 … splits: around their ends.
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 47, 48, 49, 111, 112, 1000])
def test_each_split_is_read_once_in_order(n: int) -> None:
    queue = SplitQueue("scan")
    for split in range(n):
        queue.add(split)
        assert queue.n_splits == split + 1
    assert not queue.is_closed
    queue.no_more()
    queue.no_more()
    assert queue.is_closed
    batches = run_chain([scan(queue)])
    assert [row for batch in batches for row in batch["a"].to_pylist()] == list(range(n))
    assert (queue.n_splits, queue.n_finished) == (n, n)


def test_a_split_after_the_last_is_an_error() -> None:
    queue = SplitQueue("the node")
    queue.no_more()
    with pytest.raises(PlanError, match="split 'late' came for node 'the node' after no_more_splits"):
        queue.add("late")
    assert queue.n_splits == 0


def test_drivers_wait_for_splits_and_share_them() -> None:
    memory, queue, scheduler = Account(), SplitQueue("scan"), Scheduler(2)
    sinks = [Collector(memory) for _ in range(3)]
    task = Task([[[scan(queue), sink] for sink in sinks]], memory, scheduler)
    task.start()

    def add(first: int) -> None:
        for split in range(first, first + 100):
            queue.add(split)

    adders = [threading.Thread(target=add, args=(first,)) for first in (0, 100, 200)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    queue.no_more()
    task.wait(60)
    got = [row for sink in sinks for batch in sink.take() for row in batch["a"].to_pylist()]
    assert sorted(got) == list(range(300))
    assert queue.n_finished == 300
    scheduler.shutdown()


def test_splits_without_a_reader_are_dropped() -> None:
    class Split:
        n_alive = 0

        def __init__(self) -> None:
            Split.n_alive += 1

        def __del__(self) -> None:
            Split.n_alive -= 1

    queue = SplitQueue("scan")
    for _ in range(40):
        queue.add(Split())
    assert Split.n_alive == 40
    del queue
    assert Split.n_alive == 0
