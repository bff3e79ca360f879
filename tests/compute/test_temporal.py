"""Parts, truncation and arithmetic of dates, timestamps and intervals, against DuckDB. SPEC Q3."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_table import SIZES, check, day, make_table

from qcore.expression.tree import Expr, call, col, lit

interval = pa.month_day_nano_interval()

TABLE = make_table(2500)

CASES = [
    *[
        (call(part, col("t")), f"{sql}(t)::bigint")
        for part, sql in [
            ("year", "year"),
            ("quarter", "quarter"),
            ("month", "month"),
            ("week", "week"),
            ("day", "day"),
            ("day_of_week", "dayofweek"),
            ("day_of_year", "dayofyear"),
        ]
    ],
    *[(call(part, col("ts")), f"{part}(ts)::bigint") for part in ("year", "month", "day", "hour", "minute", "second")],
    (call("extract", lit("YEAR"), col("t")), "year(t)"),
    *[
        (call("date_trunc", lit(unit), col(c)), f"date_trunc('{unit}', {c})")
        for unit in ("year", "quarter", "month", "week", "day")
        for c in ("t", "ts")
    ],
    (call("date_trunc", lit("hour"), col("ts")), "date_trunc('hour', ts)"),
    (call("date_trunc", lit("minute"), col("ts")), "date_trunc('minute', ts)"),
    (col("t") + 90, "t + 90"),
    (col("t") - col("i64") / 1000, "t - (i64 // 1000)::int"),
    (col("t") - col("u"), "t - u"),
    (col("t") + lit((3, 0, 0), interval), "t + interval 3 month"),
    (col("t") - lit((1, 5, 0), interval), "t - interval 1 month - interval 5 day"),
    (lit("1994-01-31").cast(pa.date32()) + lit((1, 0, 0), interval), "date '1994-01-31' + interval 1 month"),
    (col("ts") + lit((1, 1, 3_600_000_000_000), interval), "ts + interval 1 month + interval 1 day + interval 1 hour"),
    (col("t") < day("1995-01-01") + lit((12, 0, 0), interval), "t < date '1995-01-01' + interval 1 year"),
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
