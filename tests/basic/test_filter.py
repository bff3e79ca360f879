"""Filter returns the rows for which its condition is true (SPEC Q3)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import col, lit
from qcore.lowering.compile import compile_predicate
from qcore_ext.basic.filter import Filter
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, SIZES, random_table


def keep(memory: Account, condition: object) -> Filter:
    return Filter("f", memory, lambda schema: compile_predicate(condition, pa.schema(schema)))


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("first", [0, 1, 2046, 2048, 9999])
def test_rows_of_every_vector(n: int, first: int) -> None:
    """Q3: a row whose condition is null is dropped."""
    batch = pa.record_batch({"a": pa.array([None if i % 4 == 1 else i for i in range(n)], pa.int64())})
    got = run_chain([keep(Account(), col("a") >= first)], [batch])
    assert [value for out in got for value in out["a"].to_pylist()] == [i for i in range(first, n) if i % 4 != 1]


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_columns_of_every_type_keep_their_values(type_: pa.DataType) -> None:
    """Q3."""
    table = random_table(5, 3000, {"v": type_, "k": pa.int32()}, {"v": 0.3, "k": 0.0}, n_distinct={"k": 3})
    wanted = min(table["k"].to_pylist())
    got = run_chain([keep(Account(), col("k") == lit(wanted, pa.int32()))], table)
    rows = [row["v"] for row in table.to_pylist() if row["k"] == wanted]
    assert [value for out in got for value in out["v"].to_pylist()] == rows


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_filters_in_a_row(depth: int) -> None:
    """A filter of rows with a selection."""
    memory = Account()
    primes = [2, 3, 5, 7, 11][:depth]
    batch = pa.record_batch({"a": pa.array(range(5000), pa.int64())})
    got = run_chain([keep(memory, col("a") % prime != 0) for prime in primes], [batch])
    wanted = [i for i in range(5000) if all(i % prime for prime in primes)]
    assert [value for out in got for value in out["a"].to_pylist()] == wanted
    del got
    assert memory.reserved_bytes == 0
