"""Functions that return text, lengths and positions, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Expr, call, col, lit

TABLE = make_table(2500)

CASES = [
    (call("substring", col("s"), lit(1), lit(2)), "substring(s, 1, 2)"),
    (call("substring", col("s"), lit(3)), "substring(s, 3)"),
    (call("substring", col("s"), lit(2), lit(20)), "substring(s, 2, 20)"),
    (call("substring", col("s"), lit(0), lit(3)), "substring(s, 0, 3)"),
    (call("substring", col("s"), lit(-3), lit(2)), "substring(s, -3, 2)"),
    (call("substring", col("s"), col("j64"), col("j64")), "substring(s, j64, j64)"),
    (call("left", col("s"), lit(3)), "left(s, 3)"),
    (call("left", col("s"), lit(-3)), "left(s, -3)"),
    (call("right", col("s"), lit(4)), "right(s, 4)"),
    (call("right", col("s"), lit(-4)), "right(s, -4)"),
    (call("length", col("s")), "length(s)"),
    (call("upper", call("replace", col("s"), lit("ß"), lit(""))), "upper(replace(s, 'ß', ''))"),
    (call("lower", col("s")), "lower(s)"),
    (call("trim", col("s")), "trim(s)"),
    (call("ltrim", col("s")), "ltrim(s)"),
    (call("rtrim", col("s")), "rtrim(s)"),
    (call("trim", col("s"), lit("xé日")), "trim(s, 'xé日')"),
    (call("concat", col("s"), lit("-"), col("r")), "s || '-' || r"),
    (call("concat", col("s"), col("i64")), "s || i64::varchar"),
    (call("replace", col("s"), lit("e"), lit("EE")), "replace(s, 'e', 'EE')"),
    (call("replace", col("s"), lit("special "), lit("")), "replace(s, 'special ', '')"),
    (call("position", col("s"), lit("e")), "strpos(s, 'e')"),
    (call("position", col("s"), lit("größe")), "strpos(s, 'größe')"),
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
