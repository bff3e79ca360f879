"""Casts between types other than text, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import decimal
import math

import pyarrow as pa
import pytest
from expression_table import SIZES, array, check, evaluate, make_table

from qcore.errors import ExecutionError
from qcore.expression.tree import Cast, Expr, col

D = decimal.Decimal
TABLE = make_table(2500)

CASES = [
    (Cast(col("i32"), pa.int64()), "i32::bigint"),
    (Cast(col("j64"), pa.int8()), "j64::tinyint"),
    (Cast(col("i64"), pa.float64()), "i64::double"),
    (Cast(col("p"), pa.float64()), "p::double"),
    (Cast(col("w"), pa.float64()), "w::double"),
    (Cast(col("f"), pa.float32()), "f::float"),
    (Cast(col("f") * 100, pa.int32()), "(f * 100)::int"),
    (Cast(col("p"), pa.int64()), "p::bigint"),
    (Cast(col("w"), pa.int64()), "w::bigint"),
    (Cast(col("i64"), pa.decimal128(12, 2)), "i64::decimal(12, 2)"),
    (Cast(col("u32"), pa.decimal128(30, 5)), "u32::decimal(30, 5)"),
    (Cast(col("w"), pa.decimal128(30, 2)), "w::decimal(30, 2)"),
    (Cast(col("p"), pa.decimal128(20, 1)), "p::decimal(20, 1)"),
    (Cast(col("p"), pa.decimal128(38, 10)), "p::decimal(38, 10)"),
    (Cast(col("f"), pa.decimal128(18, 3)), "f::decimal(18, 3)"),
    (Cast(col("b"), pa.int32()), "b::int"),
    (Cast(col("i64"), pa.bool_()), "i64::bool"),
    (Cast(col("t"), pa.timestamp("us")), "t::timestamp"),
    (Cast(col("ts"), pa.date32()), "ts::date"),
    (Cast(col("ts"), pa.time64("us")), "ts::time"),
    (Cast(col("i32"), pa.int8(), safe=False), "try_cast(i32 as tinyint)"),
]


@pytest.mark.parametrize(("expr", "sql"), CASES, ids=[sql for _, sql in CASES])
def test_answers_equal_duckdb(expr: Expr, sql: str) -> None:
    """Q3."""
    check(TABLE, expr, sql)


@pytest.mark.each_value
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("nulls", [False, True])
def test_vector_sizes(n: int, nulls: bool) -> None:
    """Q3: every size around the vector's, with and without nulls."""
    batch = make_table(n, nulls)
    for expr, sql in CASES[::7]:
        check(batch, expr, sql)


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
def test_failed_casts(batch: pa.RecordBatch, to: pa.DataType, message: str) -> None:
    with pytest.raises(ExecutionError, match=f"cannot cast .*{message}"):
        evaluate(batch, Cast(col("a"), to))
    assert evaluate(batch, Cast(col("a"), to, safe=False)).column(0)[-1].as_py() is None
