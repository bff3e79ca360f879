"""Spools: batches written once and read by several readers. The drivers of a reader share the batches (SPEC Q2)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore_ext.basic.spool_read import SpoolRead
from qcore_ext.basic.spool_write import SpoolWrite
from qcore_ext.data.schema import Schema
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.flow.batch_spool import BatchSpool
from qcore_ext.ground.memory import Account
from qcore_testing.operators import BatchSource, Collector, import_batches, run_chain

pytestmark = pytest.mark.timeout(120)
SCHEMA = pa.schema([("a", pa.int64())])


def batches(n: int, rows: int = 10) -> list[pa.RecordBatch]:
    return [pa.record_batch({"a": pa.array(range(i * rows, (i + 1) * rows), pa.int64())}) for i in range(n)]


def write(spool: BatchSpool, given: list[pa.RecordBatch], memory: Account | None = None) -> None:
    run_chain([SpoolWrite("w", memory or Account(), spool)], given, SCHEMA)


def reader(spool: BatchSpool, number: int, memory: Account | None = None) -> SpoolRead:
    return SpoolRead("r", memory or Account(), spool, number, Schema(SCHEMA))


def values(given: list[pa.RecordBatch]) -> list[int]:
    return [value for batch in given for value in batch["a"].to_pylist()]


# The array of batches grows from 16 on.
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 33, 100])
def test_each_reader_gets_every_batch_in_order(n: int) -> None:
    """Q2."""
    spool = BatchSpool(1, [1, 1, 1])
    write(spool, batches(n))
    for number in (1, 0, 2):
        assert values(run_chain([reader(spool, number)])) == list(range(n * 10))


def test_drivers_of_a_reader_share_its_batches() -> None:
    """Q2: they wait for batches that are not written yet."""
    memory, scheduler = Account(), Scheduler(3)
    spool = BatchSpool(2, [3, 1])
    sinks = [Collector(memory) for _ in range(3)]
    reads = [[reader(spool, 0, memory), sink] for sink in sinks]
    given = batches(60)
    writes = [
        [BatchSource(import_batches(part), memory), SpoolWrite("w", memory, spool)] for part in (given[:30], given[30:])
    ]
    task = Task([writes, reads], memory, scheduler)
    task.start()
    task.wait(60)
    assert sorted(value for sink in sinks for value in values(sink.take())) == list(range(600))
    assert sorted(values(run_chain([reader(spool, 1)]))) == list(range(600))
    scheduler.shutdown()


def test_a_batch_is_freed_by_its_last_reader() -> None:
    """A reader that has left does not count."""
    account = Account()
    spool = BatchSpool(1, [1, 1])
    given = batches(5, 1000)
    write(spool, given)
    unread = reader(spool, 0)
    run_chain([reader(spool, 1)])
    kept = pa.total_allocated_bytes()
    assert values(run_chain([unread])) == list(range(5000))
    del given
    assert pa.total_allocated_bytes() < kept
    assert account.reserved_bytes == 0


@pytest.mark.parametrize(("producers", "drivers"), [(0, [1]), (1, []), (1, [0]), (1, [1, 0])])
def test_impossible_counts_are_errors(producers: int, drivers: list[int]) -> None:
    with pytest.raises(ValueError, match="at least one producer"):
        BatchSpool(producers, drivers)
