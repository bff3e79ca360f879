"""Columns that select rows of other columns: nested selections, null rows and bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import qcore
from qcore.expression.tree import col, lit
from qcore.lowering.compile import compile_predicate
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.data.capsule import PyBatch
from qcore_ext.ground.memory import Account
from random_tables import ALL_TYPES, random_table


@pytest.mark.each_value
@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
@pytest.mark.parametrize("offset", [0, 3])
def test_rows_of_rows_of_every_type(type_: pa.DataType, offset: int) -> None:
    """A join over a join over a filter. Indices into indices become one index; rows without a match are null."""
    table = random_table(17, 400, {"v": type_}, 0.3, offset=offset).append_column("k", pa.array(range(400), pa.int64()))
    other = pa.table({"j": pa.array(range(0, 900, 3), pa.int64())})
    plan = qcore.PlanBuilder().values(other)
    rows = qcore.PlanBuilder().values(table).filter(col("k") % 2 == 0)
    joined = plan.hash_join(rows, ["j"], ["k"], how="left").hash_join(
        qcore.PlanBuilder().values(pa.table({"m": pa.array(range(0, 900, 5), pa.int64())})), ["j"], ["m"], how="left"
    )
    got = qcore.Session(threads=1).execute(joined.build()).to_arrow()
    values = table["v"].to_pylist()
    found = dict(zip(got["j"].to_pylist(), got["v"].to_pylist(), strict=True))
    assert found == {j: values[j] if j < 400 and j % 2 == 0 else None for j in range(0, 900, 3)}
    assert {m for m in got["m"].to_pylist() if m is not None} == set(range(0, 900, 15))


@pytest.mark.parametrize("n", [1, 100, 3000])
def test_bytes_of_text_are_those_of_its_rows(n: int) -> None:
    """Bytes that a slice shares with other slices do not count."""
    table = pa.record_batch({"s": ["x" * 100] * 5000})
    part = PyBatch.from_arrow(table.slice(10, n))
    assert 100 * n <= part.n_bytes <= 120 * n


@pytest.mark.parametrize("every", [2, 10])
def test_bytes_of_selected_text(every: int) -> None:
    batch = pa.record_batch({"s": ["x" * 100] * 5000, "k": pa.array(range(5000), pa.int64())})
    keep = Evaluator(compile_predicate(col("k") % lit(every) == 0, batch.schema), Account())
    n = 5000 // every
    assert 100 * n <= keep.select_batch(batch).n_bytes <= 140 * n
