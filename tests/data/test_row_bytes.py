"""The bytes that rows take in a result, and how many rows fit into a part of it (SPEC V7)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import col, lit
from qcore.lowering.compile import compile_projection
from qcore_ext.basic.project import Project
from qcore_ext.basic.result_sink import ResultSink
from qcore_ext.execution.scheduler import Scheduler
from qcore_ext.execution.task import Task
from qcore_ext.flow.batch_queue import BatchQueue, QueueReader
from qcore_ext.ground.memory import Account
from qcore_testing.operators import BatchSource, import_batches

pytestmark = pytest.mark.timeout(120)
N = 600
TEXT = "x" * 10_000
LISTS = pa.array([[7] * (1000 if row % 10 == 0 else 1) for row in range(N)], pa.list_(pa.int64()))
COLUMNS = {
    "one long constant": (pa.array(range(N), pa.int64()), lit(TEXT), 10_000),
    "long texts": (pa.array([TEXT] * N), col("v"), 10_000),
    "dictionary": (pa.array([TEXT, "y"] * (N // 2)).dictionary_encode(), col("v"), 5_000),
    "lists": (LISTS, col("v"), 800),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("bytes_max", [1, 100_000, 400_000])
def test_parts_of_a_result_fit(name: str, bytes_max: int) -> None:
    """V7: a constant counts in every row. A part has at most half of the queue's bytes, or one row."""
    values, expression, row_bytes = COLUMNS[name]
    batch = pa.record_batch({"v": values, "k": pa.array(range(N), pa.int32())})
    memory, queue, scheduler = Account(), BatchQueue(1, bytes_max=bytes_max), Scheduler(1)
    named = [("k", col("k")), ("s", expression)]
    project = Project("p", memory, lambda schema: compile_projection(named, pa.schema(schema)))
    chain = [BatchSource(import_batches([batch]), memory), project, ResultSink("s", memory, queue)]
    task = Task([[chain]], memory, scheduler)
    task.start()
    parts = [pa.record_batch(part) for part in iter(QueueReader(queue).next_batch, None)]
    task.wait(60)
    scheduler.shutdown()
    assert [key for part in parts for key in part["k"].to_pylist()] == list(range(N))
    wanted = [TEXT] * N if name == "one long constant" else values.to_pylist()
    assert [value for part in parts for value in part["s"].to_pylist()] == wanted
    if bytes_max == 1:
        assert {part.num_rows for part in parts} == {1}
    assert max(part.num_rows for part in parts) <= max(1, 2 * (bytes_max // 2) // row_bytes)
