"""Comparisons and IN lists of every type, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from expression_table import SIZES, check, day, make_table

from qcore.expression.tree import Expr, In, call, col, lit

D = decimal.Decimal
TABLE = make_table(2500)

CASES = [
    *[
        (call(name, col(a), col(b)), f"{a} {symbol} {b}")
        for name, symbol in [
            ("equal", "="),
            ("not_equal", "<>"),
            ("less", "<"),
            ("less_equal", "<="),
            ("greater", ">"),
            ("greater_equal", ">="),
        ]
        for a, b in [
            ("i64", "j64"),
            ("i32", "i16"),
            ("f", "g"),
            ("g", "g"),
            ("f32", "f"),
            ("p", "w"),
            ("q", "i32"),
            ("t", "u"),
            ("s", "r"),
            ("b", "c"),
            ("i8", "u32"),
            ("t", "ts"),
        ]
    ],
    (col("t") <= "1998-09-02", "t <= date '1998-09-02'"),
    (lit("1995-06-17") < col("t"), "date '1995-06-17' < t"),
    (col("t").between(day("1994-01-01"), day("1994-12-31")), "t between date '1994-01-01' and date '1994-12-31'"),
    (col("d").between(D("0.05"), D("0.07")), "d between 0.05 and 0.07"),
    (col("p") < 24000, "p < 24000"),
    (col("i32") > 10, "i32 > 10"),
    (col("i32") > 5_000_000_000, "i32 > 5000000000"),
    (col("i8") == D("7.5"), "i8 = 7.5"),
    (col("w") > D("123.456789"), "w > 123.456789"),
    (col("s") == "MAIL", "s = 'MAIL'"),
    (col("s") == "the special packages requests nag", "s = 'the special packages requests nag'"),
    (col("s") != "thirteen bytes", "s <> 'thirteen bytes'"),
    (col("s") < "MAIL", "s < 'MAIL'"),
    (call("is_distinct_from", col("i64"), col("j64")), "i64 is distinct from j64"),
    (call("is_not_distinct_from", col("s"), col("r")), "s is not distinct from r"),
    (call("is_distinct_from", col("s"), lit(None, pa.string())), "s is distinct from null"),
    (In(col("s"), (lit("MAIL"), lit("AIR REG"), lit("thirteen bytes"))), "s in ('MAIL', 'AIR REG', 'thirteen bytes')"),
    (In(col("s"), (lit("MAIL"), lit(None, pa.string()))), "s in ('MAIL', null)"),
    (col("j64").isin([1, 5, 7]), "j64 in (1, 5, 7)"),
    (col("j64").isin(list(range(0, 100, 3))), f"j64 in ({', '.join(map(str, range(0, 100, 3)))})"),
    (col("i32").isin([3]), "i32 in (3)"),
    (col("i32").isin([3, 2**40]), "i32 in (3, 1099511627776)"),
    (col("q").isin([D("3"), D("4.5"), D("-7")]), "q in (3, 4.5, -7)"),
    (col("d").isin([D("0.05"), D("0.07")]), "d in (0.05, 0.07)"),
    (col("f32").isin([0.25, 1.5]), "f32 in (0.25, 1.5)"),
    (In(col("t"), (lit("1995-03-15"), day("1995-03-16"))), "t in (date '1995-03-15', date '1995-03-16')"),
    (In(col("i64"), (col("j64"), lit(3))), "i64 in (j64, 3)"),
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
    for expr, sql in CASES[::8]:
        check(batch, expr, sql)
