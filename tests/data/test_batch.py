"""Batches: rows, selections, slices and bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import col, lit
from qcore.lowering.compile import compile_predicate
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, SIZES, random_table

WIDTHS = [(pa.int8(), 1), (pa.int16(), 2), (pa.float32(), 4), (pa.int64(), 8), (pa.decimal128(30, 2), 16)]


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("type_", "width"), WIDTHS, ids=str)
def test_rows_and_bytes(n: int, type_: pa.DataType, width: int) -> None:
    batch = PyBatch.from_arrow(pa.record_batch({"v": pa.array([1] * n, type_)}))
    assert (len(batch), batch.n_bytes) == (n, n * width)
    assert batch.schema == Schema(pa.schema([("v", type_)]))


@pytest.mark.parametrize("every", [1, 2, 7, 5000])
def test_bytes_of_selected_rows(every: int) -> None:
    """The bytes of a batch are those of its selected rows."""
    given = pa.record_batch({"v": pa.array(range(5000), pa.int64())})
    keep = Evaluator(compile_predicate(col("v") % lit(every) == 0, given.schema), Account())
    selected = keep.select_batch(given)
    assert len(selected) == len(range(0, 5000, every))
    assert selected.n_bytes == 8 * len(selected)


@pytest.mark.each_value
@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
@pytest.mark.parametrize(("count", "offset"), [(5, 0), (100, 3), (2048, 8), (1, 2047), (9999, 2500)])
def test_slices_of_every_type(type_: pa.DataType, count: int, offset: int) -> None:
    """Slices that begin within a byte of a bitmap and at its ends."""
    table = random_table(11, 3000, {"v": type_}, 0.3)
    got = run_chain([Limit("1", Account(), LimitState(count, offset))], table)
    values = [value for batch in got for value in batch["v"].to_pylist()]
    assert values == table["v"].to_pylist()[offset : offset + count]


@pytest.mark.parametrize("offset", [0, 3, 10])
def test_slices_of_selections(offset: int) -> None:
    memory = Account()
    batch = pa.record_batch({"v": pa.array(range(1000), pa.int64())})
    keep = Evaluator(compile_predicate(col("v") % lit(9) == 0, batch.schema), memory)
    got = run_chain([Limit("1", memory, LimitState(20, offset))], [keep.select_batch(batch)])
    assert [value for out in got for value in out["v"].to_pylist()] == list(range(0, 1000, 9))[offset : offset + 20]
