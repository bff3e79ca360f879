"""CASE, COALESCE and functions that use them, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Case, Expr, call, col, lit

TABLE = make_table(2500)

CASES = [
    (Case(((col("i64") > 0, col("p")),), lit(0)), "case when i64 > 0 then p else 0 end"),
    (Case(((col("i64") > 0, col("p")),)), "case when i64 > 0 then p end"),
    (
        Case(((col("i64") < 0, col("w")), (col("b"), col("p"))), col("q")),
        "case when i64 < 0 then w when b then p else q end",
    ),
    (
        Case(((col("s") == "MAIL", lit("mail")), (col("s").like("%special%"), col("r"))), col("s")),
        "case when s = 'MAIL' then 'mail' when s like '%special%' then r else s end",
    ),
    (Case(((col("j64") != 0, col("i64") / col("j64")),), lit(0)), "case when j64 <> 0 then i64 // j64 else 0 end"),
    (
        Case(((col("i16") != 0, col("i64") / col("i16")),), lit(None, pa.int64())),
        "case when i16 <> 0 then i64 // i16 end",
    ),
    ((col("i16") != 0) & (col("i64") / col("i16") > 3), "i16 <> 0 and i64 // nullif(i16, 0) > 3"),
    ((col("i16") == 0) | (col("i64") / col("i16") > 3), "i16 = 0 or i64 // nullif(i16, 0) > 3"),
    (call("coalesce", col("i64"), col("j64"), lit(0)), "coalesce(i64, j64, 0)"),
    (call("coalesce", col("s"), col("r")), "coalesce(s, r)"),
    (call("coalesce", col("p"), col("w")), "coalesce(p, w)"),
    (call("nullif", col("s"), lit("MAIL")), "nullif(s, 'MAIL')"),
    (call("nullif", col("j64"), lit(7)), "nullif(j64, 7)"),
    (col("i64") / call("nullif", col("i16"), lit(0)), "i64 // nullif(i16, 0)"),
    (call("greatest", col("i64"), col("j64"), col("i32")), "greatest(i64, j64, i32)"),
    (call("least", col("p"), col("w")), "least(p, w)"),
    (call("least", col("s"), col("r")), "least(s, r)"),
    (Case(((lit(True), lit(1)),), lit(2)), "case when true then 1 else 2 end"),
    (Case(((col("b"), lit(None, pa.null())),), col("t")), "case when b then null else t end"),
    (Case(((col("b"), lit(None, pa.null())),)), "case when b then null end"),
    (lit(None, pa.null()) == lit(None, pa.null()), "null = null"),
    (col("i64") == lit(None, pa.null()), "i64 = null"),
    (call("is_distinct_from", lit(None, pa.null()), lit(None, pa.null())), "null is distinct from null"),
    (call("coalesce", lit(None, pa.null()), col("s"), lit("x")), "coalesce(null, s, 'x')"),
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
