"""EnforceSingleRow: one row, of nulls if there is none, an error if there are two (SPEC Q2)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError
from qcore.expression.tree import col
from qcore.lowering.compile import compile_predicate
from qcore_ext.basic.enforce_single_row import EnforceSingleRow
from qcore_ext.basic.filter import Filter
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])


def single(sizes: list[int]) -> list[dict]:
    memory = Account()
    operator = EnforceSingleRow("1", memory, Schema(SCHEMA))
    given = [pa.record_batch([pa.array(range(n), pa.int64()), pa.array(["x"] * n, pa.string())], SCHEMA) for n in sizes]
    rows = [row for batch in run_chain([operator], given, SCHEMA) for row in batch.to_pylist()]
    del operator
    assert memory.reserved_bytes == 0
    return rows


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0]])
def test_no_row_gives_a_row_of_nulls(sizes: list[int]) -> None:
    """Q2."""
    assert single(sizes) == [{"a": None, "s": None}]


@pytest.mark.parametrize("sizes", [[1], [0, 1], [1, 0], [0, 1, 0, 0]])
def test_one_row_passes(sizes: list[int]) -> None:
    """Q2."""
    assert single(sizes) == [{"a": 0, "s": "x"}]


@pytest.mark.parametrize("sizes", [[2], [1, 1], [0, 1, 0, 1], [2049]])
def test_a_second_row_is_an_error(sizes: list[int]) -> None:
    """Q2."""
    with pytest.raises(ExecutionError, match="more than one row; aggregate it, or add LIMIT 1"):
        single(sizes)


@pytest.mark.parametrize("n_kept", [0, 1, 2])
def test_selected_rows_count(n_kept: int) -> None:
    """Q2: only selected rows count."""
    memory = Account()
    keep = Filter("f", memory, lambda schema: compile_predicate(col("a") < n_kept, pa.schema(schema)))
    chain = [keep, EnforceSingleRow("1", memory, Schema(SCHEMA))]
    batch = pa.record_batch({"a": pa.array(range(100), pa.int64()), "s": pa.array(["x"] * 100)})
    if n_kept == 2:
        with pytest.raises(ExecutionError, match="more than one row"):
            run_chain(chain, [batch])
        return
    rows = [row for out in run_chain(chain, [batch]) for row in out.to_pylist()]
    assert rows == [{"a": 0, "s": "x"} if n_kept else {"a": None, "s": None}]


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_nulls_of_every_type(type_: pa.DataType) -> None:
    """Q3."""
    schema = pa.schema([("v", type_)])
    (batch,) = run_chain([EnforceSingleRow("1", Account(), Schema(schema))], [], schema)
    assert batch["v"].to_pylist() == [None]


def test_a_schema_that_grows_takes_the_row_along() -> None:
    """D6: the kept row is widened."""
    narrow = pa.record_batch({"a": pa.array([7], pa.int32())})
    wide = pa.record_batch({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    operator = EnforceSingleRow("1", Account(), Schema(narrow.schema))
    rows = [row for batch in run_chain([operator], [narrow, wide]) for row in batch.to_pylist()]
    assert rows == [{"a": 7, "b": None}]
