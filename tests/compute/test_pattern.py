"""LIKE, ILIKE, starts_with, ends_with and contains, against DuckDB: types, nulls and vector sizes. SPEC Q3."""

from __future__ import annotations

import pytest
from expression_table import SIZES, check, make_table

from qcore.expression.tree import Expr, call, col, lit

TABLE = make_table(2500)

CASES = [
    *[
        (call(name, col("s"), lit(pattern)), f"s {symbol} '{pattern}'")
        for name, symbol in [("like", "like"), ("not_like", "not like"), ("ilike", "ilike"), ("not_ilike", "not ilike")]
        for pattern in [
            "",
            "%",
            "MAIL",
            "PROMO%",
            "%COPPER",
            "%special%",
            "%special%requests%",
            "%requests",
            "_",
            "A_R%",
            "_clair%",
            "%größe",
            "%gr__e",
            "thirteen_bytes",
            "the%nag",
            "%a%a%",
            "日本_テキスト",
            "%score\\%",
            "x%x",
            "é%e",
            "%É%",
        ]
    ],
    (call("like", col("s"), col("r")), "s like r"),
    (call("like", col("s"), call("concat", lit("%"), col("r"), lit("%"))), "s like '%' || r || '%'"),
    (call("ilike", col("s"), call("upper", col("r"))), "s ilike upper(r)"),
    (call("starts_with", col("s"), lit("the")), "starts_with(s, 'the')"),
    (call("starts_with", col("s"), col("r")), "starts_with(s, r)"),
    (call("ends_with", col("s"), lit("nag")), "ends_with(s, 'nag')"),
    (call("contains", col("s"), lit("pack")), "contains(s, 'pack')"),
    (call("contains", col("s"), col("r")), "contains(s, r)"),
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
    for expr, sql in CASES[::9]:
        check(batch, expr, sql)
