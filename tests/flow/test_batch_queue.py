"""Queues of batches: limits, readers, and their end."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import Timeout
from qcore_ext.basic.result_sink import ResultSink
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.flow.batch_queue import BatchQueue, QueueReader
from qcore_ext.ground.memory import Account
from qcore_testing.operators import BatchSource, import_batches, run_chain

pytestmark = pytest.mark.timeout(120)
TABLE = pa.table({"a": pa.array(range(1000), pa.int64())})


def fill(queue: BatchQueue, batches: Any) -> None:
    run_chain([ResultSink("1", Account(), queue)], batches)


def test_first_in_first_out() -> None:
    queue = BatchQueue(1)
    fill(queue, TABLE.to_batches(max_chunksize=100))
    assert (queue.n_batches, queue.n_bytes) == (10, 8000)
    reader = QueueReader(queue)
    batches = [pa.record_batch(batch) for batch in iter(reader.next_batch, None)]
    assert pa.Table.from_batches(batches).equals(TABLE)
    assert reader.next_batch() is None
    assert (queue.n_batches, queue.n_bytes) == (0, 0)


@pytest.mark.parametrize(("bound", "most"), [({"batches_max": 3}, 3), ({"bytes_max": 2000}, 2), ({"bytes_max": 1}, 1)])
def test_the_bound_holds(bound: dict[str, int], most: int) -> None:
    """A batch larger than the limit passes alone."""
    memory, queue, scheduler = Account(), BatchQueue(1, **bound), Scheduler(1)
    source = BatchSource(import_batches(TABLE.to_batches(max_chunksize=100)), memory)
    task = Task([[[source, ResultSink("sink", memory, queue)]]], memory, scheduler)
    task.start()
    reader = QueueReader(queue)
    seen = 0
    while True:
        time.sleep(0.005)
        assert queue.n_batches <= most
        if reader.next_batch(10) is None:
            break
        seen += 1
    assert seen == 10
    task.wait(10)
    scheduler.shutdown()


@pytest.mark.parametrize("bound", [{"batches_max": 2}, {"bytes_max": 2000}])
def test_a_producer_sleeps_while_the_queue_is_full(bound: dict[str, int]) -> None:
    """It fired its own token when the cells were full before the bytes, and so asked again and again."""
    memory, queue, scheduler = Account(), BatchQueue(1, **bound), Scheduler(1)
    source = BatchSource(import_batches(TABLE.to_batches(max_chunksize=100)), memory)
    task = Task([[[source, ResultSink("sink", memory, queue)]]], memory, scheduler)
    task.start()
    while queue.n_batches < 2:
        time.sleep(0.001)
    time.sleep(0.05)
    assert task.stats()["pipelines"][0]["turns"] < 10
    reader = QueueReader(queue)
    assert len(list(iter(reader.next_batch, None))) == 10
    task.wait(10)
    scheduler.shutdown()


def test_a_reader_waits_without_the_gil_and_gives_up_in_time() -> None:
    queue = BatchQueue(1)
    reader = QueueReader(queue)
    assert not reader.ready
    began = time.monotonic()
    with pytest.raises(Timeout, match=r"within 0\.05 s"):
        reader.next_batch(0.05)
    assert 0.04 < time.monotonic() - began < 30
    filler = threading.Timer(0.05, fill, (queue, TABLE))
    filler.start()
    batch = reader.next_batch(10)
    assert pa.record_batch(batch).num_rows == 1000
    filler.join()
    assert reader.ready
    assert reader.next_batch() is None


def test_a_closed_reader_gets_nothing_and_drops_the_rest() -> None:
    queue = BatchQueue(1)
    fill(queue, TABLE.to_batches(max_chunksize=100))
    reader = QueueReader(queue)
    reader.next_batch()
    reader.close()
    reader.close()
    assert queue.n_batches == 0
    assert reader.next_batch() is None
    late = BatchQueue(1)
    QueueReader(late).close()
    fill(late, TABLE)  # refused, and forgotten
    assert late.n_batches == 0


@pytest.mark.parametrize("bound", [{"batches_max": 1}, {"batches_max": 3}, {"bytes_max": 1}, {}])
@pytest.mark.parametrize(("n_producers", "n_consumers"), [(1, 1), (4, 1), (1, 4), (3, 3)])
def test_every_batch_comes_once_under_stress(bound: dict[str, int], n_producers: int, n_consumers: int) -> None:
    """The limit is small, so that both ends wait often. Readers are scheduler threads and other threads."""
    queue, scheduler = BatchQueue(n_producers, n_consumers, **bound), Scheduler(3)
    table = pa.table({"x": range(600)})
    tasks = []
    for _ in range(n_producers):
        memory = Account()
        source = BatchSource(import_batches(table.to_batches(max_chunksize=1)), memory)
        tasks.append(Task([[[source, ResultSink("sink", memory, queue)]]], memory, scheduler))
        tasks[-1].start()
    taken: list[int] = []

    def read() -> None:
        reader = QueueReader(queue)
        while (batch := reader.next_batch(timeout=20)) is not None:
            taken.extend(pa.record_batch(batch).column("x").to_pylist())

    threads = [threading.Thread(target=read) for _ in range(n_consumers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for task in tasks:
        task.wait(20)
    scheduler.shutdown()
    assert sorted(taken) == sorted(list(range(600)) * n_producers)
    assert (queue.n_batches, queue.n_bytes) == (0, 0)


@pytest.mark.parametrize("arguments", [(0,), (1, 0), (1, 1, 0), (1, 1, 1, 0)])
def test_a_queue_without_room_is_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one producer"):
        BatchQueue(*arguments)


def test_text_counts_its_length_in_the_bound() -> None:
    """If a text counted 16 bytes, a queue of 32 MB could hold a gigabyte of long texts."""
    long = pa.table({"s": ["x" * 1000] * 1000})
    queue = BatchQueue(1)
    fill(queue, long.to_batches(max_chunksize=100))
    assert 1_000_000 < queue.n_bytes < 1_010_000
    QueueReader(queue).close()
    memory, scheduler = Account(), Scheduler(1)
    queue = BatchQueue(1, bytes_max=300_000)
    source = BatchSource(import_batches(long.to_batches(max_chunksize=100)), memory)
    task = Task([[[source, ResultSink("sink", memory, queue)]]], memory, scheduler)
    task.start()
    deadline = time.monotonic() + 30
    while queue.n_batches < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.05)
    assert queue.n_batches == 2
    QueueReader(queue).close()
    task.wait(30)
    scheduler.shutdown()
