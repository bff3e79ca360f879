"""Columns that projections write a vector at a time: nulls, widths and types."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from expression_table import SIZES, array, evaluate, make_table

from qcore.expression.tree import Case, call, col, lit

D = decimal.Decimal


def test_decimals_widen_when_a_vector_needs_it() -> None:
    """The first vectors fit 64 bits, a later one does not. The column is widened without loss."""
    small = [D("1.10")] * 5000
    large = [*small[:-1], D("9999999999.99")]
    for values in (small, large):
        batch = array(values, pa.decimal128(15, 2))
        product = col("a") * col("a") * col("a")
        with decimal.localcontext(prec=60):
            assert evaluate(batch, product).column(0).to_pylist() == [v * v * v for v in values]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("first_null", [0, 1, 2046, 2047, 2048])
def test_a_first_null_in_any_vector(n: int, first_null: int) -> None:
    """The bitmap is allocated at the first null. Earlier rows stay valid."""
    values = [None if row >= first_null and row % 3 == first_null % 3 else row for row in range(n)]
    got = evaluate(array(values, pa.int64()), col("a") + 1, call("concat", lit("v"), col("a")), col("a") > 5)
    assert got.column(0).to_pylist() == [None if v is None else v + 1 for v in values]
    assert got.column(1).to_pylist() == [None if v is None else f"v{v}" for v in values]
    assert got.column(2).to_pylist() == [None if v is None else v > 5 for v in values]


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["b", "i8", "i16", "i32", "i64", "f", "f32", "p", "w", "t", "ts", "s"])
def test_every_width_is_written(n: int, name: str) -> None:
    """CASE returns its first value, of each type. The output equals the input."""
    batch = make_table(n)
    chosen = Case(((lit(True) | col("c"), call("coalesce", col(name), col(name))),), col(name))
    assert evaluate(batch, chosen).column(0).to_pylist() == batch.column(name).to_pylist()


def test_one_value_in_several_columns() -> None:
    """The output of one step is written to several columns."""
    batch = make_table(5000)
    twice = col("i64") * 2
    got = evaluate(batch, twice, twice, twice + 1)
    wanted = [None if v is None else v * 2 for v in batch.column("i64").to_pylist()]
    assert got.column(0).to_pylist() == got.column(1).to_pylist() == wanted
    assert got.column(2).to_pylist() == [None if v is None else v + 1 for v in wanted]
