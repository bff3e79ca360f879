"""What expressions refuse: overflows, divisions by zero, casts, and plans without sense. Messages name the cause."""

from __future__ import annotations

import decimal
import math

import pyarrow as pa
import pytest
from expression_table import array, evaluate, make_table

from qcore.errors import ExecutionError, PlanError
from qcore.expression.tree import Case, Cast, call, col, lit
from qcore.lowering.compile import compile_projection

D = decimal.Decimal
TABLE = make_table(10)

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
    """D9: the row's value would be null, and nulls have no errors."""
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


CASTS_THAT_FAIL = [
    (array(["12", "abc"], pa.string()), pa.int64(), "'abc' of type string to int64"),
    (array(["300"], pa.string()), pa.int8(), "'300'"),
    (array(["1995-02-29"], pa.string()), pa.date32(), "1995-02-29"),
    (array(["maybe"], pa.string()), pa.bool_(), "maybe"),
    (array([300], pa.int32()), pa.int8(), "300 of type int32 to int8"),
    (array([-1], pa.int32()), pa.uint8(), "-1"),
    (array([1e30], pa.float64()), pa.int64(), "1e"),
    (array([math.nan], pa.float64()), pa.int32(), "nan"),
    (array([D("123.45")], pa.decimal128(5, 2)), pa.decimal128(4, 2), "123.45"),
    (array([123], pa.int64()), pa.decimal128(3, 1), "123"),
    (array([1e10], pa.float64()), pa.decimal128(9, 0), "1"),
]


@pytest.mark.parametrize(("batch", "to", "message"), CASTS_THAT_FAIL, ids=[case[2] for case in CASTS_THAT_FAIL])
def test_failed_casts(batch, to, message):
    with pytest.raises(ExecutionError, match=f"cannot cast .*{message}"):
        evaluate(batch, Cast(col("a"), to))
    assert evaluate(batch, Cast(col("a"), to, safe=False)).column(0)[-1].as_py() is None


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (col("nope"), "no column 'nope'"),
        (call("frobnicate", col("i64")), r"unknown function frobnicate\(int64\)"),
        (col("s") + col("t"), "add"),
        (call("substring", col("i64"), lit(1)), "substring"),
        (call("and", col("i64"), col("b")), r"and\(int64, bool\)"),
        (Cast(col("b"), pa.date32()), "cannot cast bool to date32"),
        (call("extract", lit("eon"), col("t")), "unknown part 'eon'"),
        (call("greatest", col("list"), col("list")), "greatest takes values that are no lists"),
        (call("like", col("s")), "like takes 2 to 3 arguments"),
        (Cast(col("w"), pa.decimal128(38, 30)) * Cast(col("w"), pa.decimal128(38, 30)), "60 digits after the point"),
    ],
)
def test_plan_errors_name_what_is_wrong(expr, message):
    with pytest.raises(PlanError, match=message):
        compile_projection([("x", expr)], TABLE.schema.append(pa.field("list", pa.list_(pa.int64()))))
