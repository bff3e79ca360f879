"""Casts from values to text and back, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Cast, Expr, col, lit

TABLE = make_table(2500)

CASES = [
    (Cast(col("i64"), pa.string()), "i64::varchar"),
    (Cast(col("p"), pa.string()), "p::varchar"),
    (Cast(col("w"), pa.string()), "w::varchar"),
    (Cast(col("d"), pa.string()), "d::varchar"),
    (Cast(col("f"), pa.string()), "f::varchar"),
    (Cast(col("f32"), pa.string()), "f32::varchar"),
    (Cast(col("g"), pa.string()), "g::varchar"),
    (Cast(col("b"), pa.string()), "b::varchar"),
    (Cast(col("t"), pa.string()), "t::varchar"),
    (Cast(col("ts"), pa.string()), "ts::varchar"),
    *[
        (Cast(Cast(col(name), pa.string()), type_), name)
        for name, type_ in [
            ("i64", pa.int64()),
            ("i8", pa.int8()),
            ("p", pa.decimal128(15, 2)),
            ("w", pa.decimal128(30, 4)),
            ("f", pa.float64()),
            ("f32", pa.float32()),
            ("b", pa.bool_()),
            ("t", pa.date32()),
            ("ts", pa.timestamp("us")),
        ]
    ],
    (Cast(col("s"), pa.int64(), safe=False), "try_cast(s as bigint)"),
    (Cast(col("s"), pa.date32(), safe=False), "try_cast(s as date)"),
    (Cast(col("s"), pa.float64(), safe=False), "try_cast(s as double)"),
    (Cast(lit("12.345"), pa.decimal128(10, 2)), "'12.345'::decimal(10, 2)"),
    (Cast(lit("1e3"), pa.float64()), "'1e3'::double"),
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
