"""ResultSink puts batches into a queue, in parts that fit the queue (SPEC V7)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import take_rows

from oracle import assert_same_rows
from qcore import PlanBuilder, PollPull, Session, SourceOperator
from qcore.expression.tree import col
from qcore.lowering.compile import compile_predicate
from qcore_ext.basic.filter import Filter
from qcore_ext.basic.result_sink import ResultSink
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.flow.batch_queue import BatchQueue, QueueReader
from qcore_ext.ground.memory import Account
from qcore_testing.operators import BatchSource, import_batches, run_chain
from random_tables import ALL_TYPES, random_table
from sweeps import every

pytestmark = pytest.mark.timeout(120)


def read(queue: BatchQueue) -> list[pa.RecordBatch]:
    reader = QueueReader(queue)
    return [pa.record_batch(batch) for batch in iter(reader.next_batch, None)]


@pytest.mark.parametrize("n_rows", [0, 1, 100, 2049])
def test_small_batches_pass_whole(n_rows: int) -> None:
    queue = BatchQueue(1)
    batch = pa.record_batch({"a": pa.array(range(n_rows), pa.int64())})
    run_chain([ResultSink("1", Account(), queue)], [batch, batch])
    assert [out["a"].to_pylist() for out in read(queue) if out.num_rows] == [list(range(n_rows))] * (2 if n_rows else 0)


@pytest.mark.parametrize("selected", [False, True])
def test_a_large_batch_passes_in_parts(selected: bool) -> None:
    """V7: a part has at most half the queue's bytes. All rows come once, in order."""
    memory, queue, scheduler = Account(), BatchQueue(1, bytes_max=10_000), Scheduler(1)
    text = "x" * 90
    batch = pa.record_batch({"a": pa.array(range(2000), pa.int64()), "s": [text] * 2000})
    keep = [Filter("f", memory, lambda schema: compile_predicate(col("a") % 2 == 0, pa.schema(schema)))]
    chain = [BatchSource(import_batches([batch]), memory), *(keep if selected else []), ResultSink("s", memory, queue)]
    task = Task([[chain]], memory, scheduler)
    task.start()
    parts = read(queue)
    task.wait(60)
    scheduler.shutdown()
    assert [value for part in parts for value in part["a"].to_pylist()] == list(range(0, 2000, 2 if selected else 1))
    assert len(parts) >= 2000 * 90 // (2 if selected else 1) // 5000
    assert max(part.num_rows for part in parts) <= 5000 // 90


def test_a_reader_that_leaves_ends_the_query() -> None:
    memory, queue, scheduler = Account(), BatchQueue(1, batches_max=1), Scheduler(1)
    source = BatchSource(import_batches([pa.record_batch({"a": [1]})] * 50), memory)
    sink = ResultSink("s", memory, queue)
    task = Task([[[source, sink]]], memory, scheduler)
    task.start()
    reader = QueueReader(queue)
    assert reader.next_batch(10) is not None
    reader.close()
    task.wait(60)
    assert sink.stats_snapshot()["input_batches"] < 50
    scheduler.shutdown()


@pytest.mark.parametrize("type_", [pa.int16(), pa.int64(), pa.decimal128(30, 2)], ids=str)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_long_result(type_: pa.DataType, every: int) -> None:
    """All rows come once, in order: plain columns, selected rows and dictionaries."""
    memory, queue, n = Account(), BatchQueue(1, batches_max=1000, bytes_max=1 << 30), 65_539
    codes = pa.array(np.arange(n, dtype=np.int32)[::-1].copy() % 500)
    values = pa.array(range(500), pa.int64()).cast(type_)
    batch = pa.record_batch(
        {
            "a": pa.array(np.arange(n)),
            "b": pa.array(np.arange(n) % 1000).cast(type_),
            "c": pa.DictionaryArray.from_arrays(codes, values),
        }
    )
    n_batches = 40 if every > 1 else 20
    keep = Filter("f", memory, lambda schema: compile_predicate(col("a") % every == 0, pa.schema(schema)))
    run_chain([keep, ResultSink("s", memory, queue)], [batch] * n_batches)
    parts = read(queue)
    wanted = batch.take(pa.array(np.arange(0, n, every)))
    wanted = wanted.set_column(2, "c", wanted["c"].dictionary_decode())
    assert len(parts) == n_batches
    assert all(part.equals(wanted) for part in parts)


def read_together(batches: list[pa.RecordBatch], batch_rows: int) -> list[pa.RecordBatch]:
    """What the reader gets of the batches from a driver whose time slice does not end. Equal objects share a schema."""
    imported = {id(batch): import_batches([batch])[0] for batch in batches}
    memory, queue, scheduler = Account(), BatchQueue(1, batches_max=1000), Scheduler(1)
    source = BatchSource([imported[id(batch)] for batch in batches], memory)
    chain = [source, ResultSink("s", memory, queue, batch_rows)]
    task = Task([[chain]], memory, scheduler, slice_ms=600_000.0)
    task.start()
    parts = read(queue)
    task.wait(60)
    scheduler.shutdown()
    return parts


def test_small_batches_are_passed_on_together() -> None:
    small = pa.record_batch({"a": range(100), "s": [str(row) for row in range(100)]})
    for batch_rows, sizes in ((65_536, [10_000]), (1000, [800] * 12 + [400]), (399, [100] * 100)):
        parts = read_together([small] * 100, batch_rows)
        assert [part.num_rows for part in parts] == sizes
        assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([small] * 100).combine_chunks())
    # A batch of more than 4,096 rows is passed on by itself, behind the rows before it.
    large = pa.record_batch({"a": range(5000), "s": ["x"] * 5000})
    parts = read_together([small, small, large, small], 65_536)
    assert [part.num_rows for part in parts] == [200, 5000, 100]
    assert parts[0]["a"].to_pylist() == [*range(100), *range(100)] and parts[1].equals(large)


@pytest.mark.parametrize("type_", every(3, ALL_TYPES), ids=str)
def test_q2_rows_of_small_batches_of_every_type(type_: pa.DataType) -> None:
    table = random_table(61, 700, {"x": type_}, null_share=0.2, extremes=True)
    table = table.append_column("row", pa.array(range(700))).combine_chunks()
    parts = read_together(table.to_batches()[:1] * 15, 65_536)
    assert len(parts) == (15 if pa.types.is_nested(type_) else 1)
    assert_same_rows(pa.Table.from_batches(parts), take_rows(table, list(range(700)) * 15), ordered=True)


@pytest.mark.parametrize("exchange", [False, True])
def test_no_row_is_held_back_from_a_reader_for_whom_the_source_waits(exchange: bool) -> None:
    """The source returns its next row when the reader has the last one: in its own pipeline, and behind an exchange."""
    read = threading.Semaphore(0)

    class OneByOne(SourceOperator):
        partitions = 1

        def output_schema(self, inputs: Any) -> pa.Schema:
            return pa.schema({"a": pa.int64()})

        def init_global_state(self, cx: Any) -> Any:
            return {"n": 0}

        def poll_pull(self, context: Any, local: Any, shared: Any, partition: Any) -> Any:
            if shared["n"] == 20:
                return PollPull.EXHAUSTED
            if shared["n"] > 0:
                assert read.acquire(timeout=30), "the reader has not got the row"
            shared["n"] += 1
            return PollPull.batch(pa.record_batch({"a": [shared["n"]]}))

    plan = PlanBuilder().source(OneByOne())
    plan = plan.local_partition(["a"], drivers=2) if exchange else plan
    found = []
    for batch in Session(threads=2).execute(plan.build()):
        found += batch["a"].to_pylist()
        read.release()
    assert sorted(found) == list(range(1, 21))
