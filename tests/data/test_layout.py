"""Batches exported as Arrow arrays: computed columns, selections and all variants of types (SPEC H2)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from qcore.expression.tree import col, lit
from qcore.lowering.compile import compile_predicate, compile_projection
from qcore_ext.basic.filter import Filter
from qcore_ext.basic.project import Project
from qcore_ext.basic.result_sink import ResultSink
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.data.capsule import PyBatch
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.flow.batch_queue import BatchQueue, QueueReader
from qcore_ext.ground.memory import Account, live_counts
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, ENCODED_TYPES, SIZES, random_table


def to_ipc(array: pa.Array) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"v": array.type})) as writer:
        writer.write_batch(pa.record_batch({"v": array}))
    return sink.getvalue()


def one_batch(n: int, type_: pa.DataType, null_share: float = 0.3) -> pa.RecordBatch:
    table = random_table(9, n, {"v": type_}, null_share).append_column("row", pa.array(range(n), pa.int64()))
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


@pytest.mark.each_value
@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("every", [1, 2, 300])
def test_selected_rows_of_every_type(type_: pa.DataType, n: int, every: int) -> None:
    """H2: values, nulls, offsets of strings, and bits that cross bytes."""
    batch = one_batch(n, type_)
    keep = Evaluator(compile_predicate(col("row") % lit(every) == 0, batch.schema), Account())
    got = pa.record_batch(keep.select_batch(batch))
    got.validate(full=True)
    assert got["v"].to_pylist() == batch["v"].to_pylist()[::every]
    assert got["row"].to_pylist() == list(range(0, n, every))
    assert got["v"].null_count == sum(value is None for value in got["v"].to_pylist())


@pytest.mark.parametrize(
    "type_", [pa.bool_(), pa.int32(), pa.string(), pa.string_view(), pa.decimal128(5, 2), pa.uuid()], ids=str
)
def test_columns_without_nulls_have_no_bitmap(type_: pa.DataType) -> None:
    batch = one_batch(3000, type_, 0.0)
    keep = Evaluator(compile_predicate(col("row") < 2100, batch.schema), Account())
    got = pa.record_batch(keep.select_batch(batch))["v"]
    assert (got.null_count, got.buffers()[0]) == (0, None)
    assert got.to_pylist() == batch["v"].to_pylist()[:2100]


@pytest.mark.parametrize("longest", [12, 13])
@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_views_of_short_strings(longest: int, null_share: float) -> None:
    """Without longer strings and nulls, the engine's views are Arrow's, and the array has no buffer of text."""
    texts = [None if null_share and row % 3 == 0 else "x" * (row % longest) + str(row % 7) for row in range(3000)]
    buffer = OutputBuffer("partitioned", 1, 1)
    table = pa.table({"v": pa.array(texts, pa.string_view())})
    run_chain([PartitionedOutput("1", Account(), buffer, 1, ["v"])], table)
    pages, _ = buffer.fetch(0, 0) or ([], True)
    buffer.acknowledge(0, 1)
    held = live_counts()["buffers"]
    got = pa.record_batch(pages[0])["v"]
    got.validate(full=True)
    assert got.to_pylist() == texts
    is_shared = longest == 12 and not null_share
    assert (live_counts()["buffers"] == held) == (len(got.buffers()) == 2) == is_shared
    again = pa.ipc.open_stream(to_ipc(got)).read_all()["v"]
    assert again.to_pylist() == got.to_pylist()


def test_a_laid_out_array_owns_its_memory() -> None:
    """It outlives the batch that it came from."""
    batch = one_batch(5000, pa.string())
    wanted = batch["v"].to_pylist()
    native = PyBatch.from_arrow(batch)
    got = pa.record_batch(native)["v"]
    del batch, native
    assert got.to_pylist() == wanted


def addresses(array: pa.Array) -> set[int]:
    return {buffer.address for buffer in array.buffers()[1:] if buffer is not None and buffer.size > 0}


@pytest.mark.each_value
@pytest.mark.parametrize("type_", [*ALL_TYPES, *ENCODED_TYPES], ids=str)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("null_share", [0.0, 0.3])
@pytest.mark.parametrize("start", [0, 8, 13])
def test_all_rows_of_every_type(type_: pa.DataType, n: int, null_share: float, start: int) -> None:
    """H2: columns that are exported without a copy and columns that need one, from any first row."""
    batch = one_batch(n, type_, null_share).slice(start)
    got = pa.record_batch(PyBatch.from_arrow(batch))
    got.validate(full=True)
    assert got["v"].to_pylist() == batch["v"].to_pylist()
    assert got["row"].to_pylist() == batch["row"].to_pylist()


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int32(), pa.float64(), pa.decimal128(5, 2), pa.decimal128(30, 2)], ids=str
)
@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_values_of_the_application_are_not_copied(type_: pa.DataType, null_share: float) -> None:
    batch = one_batch(3000, type_, null_share)
    assert addresses(pa.record_batch(PyBatch.from_arrow(batch))["v"]) == addresses(batch["v"])


def test_strings_of_the_application_are_not_copied_if_none_is_null() -> None:
    """The views of null rows are not checked, so strings with nulls are copied."""
    for null_share, shared in ((0.0, True), (0.3, False)):
        batch = one_batch(3000, pa.string(), null_share)
        got = pa.record_batch(PyBatch.from_arrow(batch))["v"]
        assert bool(addresses(got) & addresses(batch["v"])) == shared


def test_values_that_a_query_pays_for_are_copied() -> None:
    """The application may keep such values after the query. The query is charged for them only while it has them."""
    batch, query = one_batch(3000, pa.int64()), Account()
    native = PyBatch.from_arrow(batch, query)
    got = pa.record_batch(native)["v"]
    assert not addresses(got) & addresses(batch["v"])
    del native
    assert query.reserved_bytes == 0
    assert got.equals(batch["v"])


@pytest.mark.each_value
@pytest.mark.parametrize("type_", [*ALL_TYPES, *ENCODED_TYPES], ids=str)
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_a_sink_lays_out_what_its_reader_passes_on(type_: pa.DataType, every: int, null_share: float) -> None:
    """Copies are charged while they are in the queue, and released when the reader takes them."""
    batch, memory, queue = one_batch(5000, type_, null_share), Account(), BatchQueue(1)
    chain = [
        Filter("f", memory, lambda schema: compile_predicate(col("row") % lit(every) == 0, pa.schema(schema))),
        ResultSink("s", memory, queue),
    ]
    run_chain(chain, [batch])
    assert memory.reserved_bytes > 0 or every == 1
    native = QueueReader(queue).next_batch(10)
    first, second = pa.record_batch(native), pa.record_batch(native)
    assert addresses(first["row"]) == addresses(second["row"])
    del native
    assert memory.reserved_bytes == 0
    first.validate(full=True)
    assert first["v"].to_pylist() == batch["v"].to_pylist()[::every]
    assert second.equals(first)


def test_rows_computed_by_the_engine_leave_without_a_copy() -> None:
    memory, queue = Account(), BatchQueue(1)
    batch = pa.record_batch({"a": pa.array(np.arange(60_000))})
    chain = [
        Project("p", memory, lambda schema: compile_projection([("b", col("a") + lit(1))], pa.schema(schema))),
        ResultSink("s", memory, queue),
    ]
    run_chain(chain, [batch])
    before = live_counts()["buffers"]
    native = QueueReader(queue).next_batch(10)
    got = pa.record_batch(native)
    assert live_counts()["buffers"] == before
    assert got["b"].to_pylist() == list(range(1, 60_001))
