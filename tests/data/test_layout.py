"""Batches laid out as Arrow arrays: computed columns, selections and types in their variants (SPEC H2)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import col, lit
from qcore.lowering.compile import compile_predicate
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.data.capsule import PyBatch
from qcore_ext.ground.memory import Account
from random_tables import ALL_TYPES, SIZES, random_table


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


@pytest.mark.parametrize("type_", [pa.bool_(), pa.int32(), pa.string(), pa.string_view(), pa.decimal128(5, 2)], ids=str)
def test_columns_without_nulls_have_no_bitmap(type_: pa.DataType) -> None:
    batch = one_batch(3000, type_, 0.0)
    keep = Evaluator(compile_predicate(col("row") < 2100, batch.schema), Account())
    got = pa.record_batch(keep.select_batch(batch))["v"]
    assert (got.null_count, got.buffers()[0]) == (0, None)
    assert got.to_pylist() == batch["v"].to_pylist()[:2100]


def test_a_laid_out_array_owns_its_memory() -> None:
    """It outlives the batch that it came from."""
    batch = one_batch(5000, pa.string())
    wanted = batch["v"].to_pylist()
    native = PyBatch.from_arrow(batch)
    got = pa.record_batch(native)["v"]
    del batch, native
    assert got.to_pylist() == wanted
