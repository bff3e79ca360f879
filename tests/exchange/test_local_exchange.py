"""LocalExchange: the order of its batches, waiting, and leaving early. SPEC V2, V7, V8."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import SIZES

SCHEMA = pa.schema([("x", pa.int64())])


def produce(queue: BatchQueue, batches: list[pa.RecordBatch]) -> LocalPartition:
    operator = LocalPartition("1", Account(), [queue])
    run_chain([operator], batches)
    return operator


@pytest.mark.parametrize("n_rows", SIZES)
def test_batches_come_as_they_went_in(n_rows: int) -> None:
    """V2."""
    table = pa.table({"x": range(n_rows)}, schema=SCHEMA)
    batches = table.to_batches(max_chunksize=100)
    queue = BatchQueue(1, batches_max=100)
    produce(queue, batches)
    assert queue.n_batches == len(batches)
    assert run_chain([LocalExchange("1", Account(), queue, Schema(SCHEMA))]) == batches
    assert queue.n_batches == 0


def test_producers_need_not_agree_on_a_schema() -> None:
    """D6: a batch with additional columns keeps them."""
    queue = BatchQueue(2, batches_max=100)
    first = pa.record_batch({"x": [1]})
    second = pa.record_batch({"x": pa.array([7], pa.int16()), "y": [0.5]})
    for batch in (first, second):
        produce(queue, [batch])
    got = run_chain([LocalExchange("1", Account(), queue, Schema(SCHEMA))])
    assert [batch.schema.names for batch in got] == [["x"], ["x", "y"]]
    assert [batch.to_pydict() for batch in got] == [first.to_pydict(), second.to_pydict()]


def test_it_waits_for_its_producers() -> None:
    """V7: it is blocked for a named reason, and woken by a batch or by the end."""
    queue = BatchQueue(1)
    operator = LocalExchange("1", Account(), queue, Schema(SCHEMA))
    given: list[pa.RecordBatch] = []
    thread = threading.Thread(target=lambda: given.extend(run_chain([operator])))
    thread.start()
    time.sleep(0.05)
    assert thread.is_alive()
    batch = pa.record_batch({"x": [1, 2]})
    produce(queue, [batch])
    thread.join(30)
    assert given == [batch]
    assert operator.stats_snapshot()["blocked_times"]["producer"] >= 1


@pytest.mark.parametrize("n_consumers", [1, 2])
def test_producers_stop_when_every_consumer_has_left(n_consumers: int) -> None:
    """V8: consumers whose limit is full leave their queue. Later rows are dropped, and the producer reads no more."""
    queue = BatchQueue(1, n_consumers=n_consumers, batches_max=4)
    for _ in range(n_consumers):
        chain = [LocalExchange("1", Account(), queue, Schema(SCHEMA)), Limit("1", Account(), LimitState(0))]
        assert run_chain(chain) == []
    batch = pa.record_batch({"x": range(1000)})
    operator = produce(queue, [batch] * 50)
    assert operator.stats_snapshot()["input_rows"] == 0
    assert queue.n_batches == 0
