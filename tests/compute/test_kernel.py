"""Rows that fail: overflows, divisions by zero and conditions. The error names the function. Null rows do not fail."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from expression_table import SIZES, array, evaluate

from qcore.errors import ExecutionError
from qcore.expression.tree import Case, Cast, call, col, lit

D = decimal.Decimal

BIG = 2**63 - 1
OVERFLOWS = [
    (array([1, BIG], pa.int64()), col("a") + 1, "add"),
    (array([1, -BIG], pa.int64()), col("a") - 2, "subtract"),
    (array([2**40, 2**40], pa.int64()), col("a") * col("a"), "multiply"),
    (array([-BIG - 1], pa.int64()), -col("a"), "negate"),
    (array([-BIG - 1], pa.int64()), call("abs", col("a")), "abs"),
    (array([-BIG - 1], pa.int64()), col("a") * -1, "multiply"),
    (array([-BIG - 1], pa.int64()), col("a") / -1, "divide"),
    (array([100], pa.int8()), col("a") + lit(100, pa.int8()), "add"),
    (array([2**31], pa.uint32()), col("a") * lit(2, pa.uint32()), "multiply"),
    (array([1], pa.uint8()), col("a") - lit(2, pa.uint8()), "subtract"),
    (array([2**64 - 1], pa.uint64()), col("a") + lit(1, pa.uint64()), "add"),
    (array([D(10**37)], pa.decimal128(38, 0)), col("a") * 10, "multiply"),
    (array([D(10**38 - 1)], pa.decimal128(38, 0)), col("a") + 1, "add"),
    (array([D(10**20)], pa.decimal128(38, 0)), col("a") * col("a"), "multiply"),
]


@pytest.mark.parametrize(
    ("batch", "expr", "name"), OVERFLOWS, ids=lambda value: repr(value) if not isinstance(value, pa.RecordBatch) else ""
)
def test_overflow_is_an_error_that_names_the_function(batch, expr, name):
    with pytest.raises(ExecutionError, match=rf"{name}\(.*overflows"):
        evaluate(batch, expr)
    with_null = pa.record_batch({"a": pa.array([None] * len(batch), batch.schema.field(0).type)})
    assert evaluate(with_null, expr).column(0).null_count == len(batch)


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.decimal128(9, 2)]
)
@pytest.mark.parametrize("name", ["divide", "modulo"])
def test_division_by_zero(type_, name):
    if pa.types.is_decimal(type_) and name == "divide":
        pytest.skip("decimals divide as floats")
    batch = pa.record_batch({"a": pa.array([7, 8], type_), "z": pa.array([2, 0], type_)})
    with pytest.raises(ExecutionError, match="division by zero"):
        evaluate(batch, call(name, col("a"), col("z")))
    guarded = Case(((col("z") != lit(0, type_), call(name, col("a"), col("z"))),))
    assert evaluate(batch, guarded).column(0)[1].as_py() is None


def test_a_condition_that_fails_is_an_error_where_case_has_no_else():
    """D9: the result of such a row is null, but the row still fails."""
    batch = pa.record_batch({"a": ["1", "x", None, "3"]})
    fails = Cast(col("a"), pa.int64()) > 1
    with pytest.raises(ExecutionError, match="cannot cast 'x'"):
        evaluate(batch, Case(((fails, lit(1)),)))
    with pytest.raises(ExecutionError, match="cannot cast 'x'"):
        evaluate(batch, Case(((col("a") == "1", lit(1)), (fails, lit(2)))))
    decided = Case(((col("a") == "x", lit(1)), (fails, lit(2))))
    assert evaluate(batch, decided).column(0).to_pylist() == [None, 1, None, 2]


def test_floats_divide_as_ieee_says():
    batch = array([1.0, -1.0, 0.0], pa.float64())
    assert str(evaluate(batch, col("a") / 0.0).column(0).to_pylist()) == "[inf, -inf, nan]"


@pytest.mark.parametrize("n", [size for size in SIZES if size])
def test_the_last_row_of_any_size_fails_alone(n):
    """An error in one row is found in every vector, unless the row is null."""
    values = [1] * (n - 1) + [0]
    with pytest.raises(ExecutionError, match="division by zero"):
        evaluate(array(values, pa.int64()), 10 / col("a"))
    values[-1] = None
    assert evaluate(array(values, pa.int64()), 10 / col("a")).column(0).to_pylist() == [10] * (n - 1) + [None]


def test_errors_of_arguments_pass_through_every_step():
    """The error names the first step that fails, however many steps follow."""
    batch = array([1, BIG], pa.int64())
    with pytest.raises(ExecutionError, match=r"add\(.*overflows"):
        evaluate(batch, call("abs", (col("a") + 1) - 1) > 0)
