"""Powers, integer division and products of intervals in SQL, against DuckDB. SPEC Q1, Q3."""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError

TABLE = pa.table({
    "i": pa.array([1, 2, None, 3, -4], pa.int64()),
    "f": [0.5, None, 2.0, 4.0, 9.0],
    "day": [datetime.date(2024, 1, 31), None, datetime.date(2000, 2, 29), datetime.date(1969, 7, 20)] + [None],
    "ts": [datetime.datetime(2024, 1, 31, 10, 30), None, None, datetime.datetime(1969, 7, 20, 20, 17, 40)] + [None],
})  # fmt: skip
QUERIES = [
    "select ~i as a, ~i & 3 as b, ~(i + 1) as c, - ~i as d, 5 & ~1 as e from t",
    "select i // 2 as a, 7 // 2 as b, -7 // 2 as c, i // 2 // 2 as d, f // 2 as e from t",
    "select i ** 2 as a, i ^ 2 as b, f ^ 0.5 as c, i ^ 2 * 2 as d, 2 * i ^ 2 as e from t",
    "select 2 ** 3 as a, 2 ^ 3 ^ 2 as b, -2 ^ 2 as c, 2 ^ -1 as d, -(2) ^ 2 as e, 3 - 2 ^ 2 as f, 2^2+2^3 as g",
    "select 2 ^ 3::int as a, (i + 1) ^ 2 as b, t.i ^ 2 as c, abs(i) ^ 2 as d, t.i::double ^ 2 as e from t",
    "select sum(i) ^ 2 as a, sum(i) filter (where i > 2) ^ 2 as b, 2 ^ sum(i) as c from t group by i",
    "select [i, 2][2] ^ 2 as a from t",
    "select i, sum(i) over (order by i nulls first) ^ 2 as a from t",
    "select case when i > 2 then 2 else 1 end ^ case when i > 1 then 2 else 1 end as a from t",
    "select i from t where i ^ 2 > 3 and i ^ 2 < 10",
    "select 'a^b**c' as a, \"i\" ^ 2 as b from t -- x ^ ",
    "select i * interval '1 day' as a, interval '1 day' * i as b, interval '1 day' * 2 as c from t",
    "select 2 * interval 1 day as a, 2 * i * interval '1 hour' as b, interval '1 day' * 2 * 3 as c from t",
    "select 1.5 * interval '1 day' as a, interval '1 month' * 1.5 as b, f * interval '1 hour' as c from t",
    "select interval '1 day' / 2 as a, interval '1 month' / 2 as b, interval '1 day' / i as c from t",
    "select ts + i * interval '1 day' as a, ts - interval '1 hour' * i * 2 as b from t",
    "select ts + interval (i) day as a, ts + interval (i + 1) months as b from t",
    "select to_days(i) * 2 as a, 2 * to_days(2) as b, to_days(4) / 2 as c from t",
    "select (interval '1 day') * 2 as a, 3 * (interval '1 day') as b, null * interval '1 day' as c",
    "select count(*) as a from t where ts > timestamp '2024-07-01' - 8 * interval '1 month'",
    # A date plus hours is a timestamp.
    "select day + i * interval '1 hour' as a, day - to_hours(i) as b, day + interval '1 hour' as c from t",
    "select day + v as a from (select day, to_hours(i) as v from t)",
    "select cast(day + i * interval '1 day' as timestamp) as a, cast(day + 2 * interval '1 month' as date) as b from t",
    "select to_quarters(2) as a, to_milliseconds(1500) as b, to_microseconds(5) as c, to_decades(1) as d",
]


@pytest.mark.parametrize("query", QUERIES)
def test_q1_as_duckdb(query: str) -> None:
    duck = duckdb.connect()
    duck.register("t", TABLE)
    actual = qcore.sql(query, {"t": TABLE}, dialect="duckdb").to_arrow()
    assert_same_rows(actual, duck.sql(query).to_arrow_table())


@pytest.mark.parametrize(("dialect", "expected"), [("qcore", 8), ("postgresql", 8), ("duckdb", 8), ("spark", 1)])
def test_q1_caret(dialect: str, expected: int) -> None:
    """Power, or exclusive or, whose precedence is below +."""
    (row,) = qcore.sql("select 2 ^ 3 as a, 1 + 1 ^ 3 as b", {}, dialect=dialect).to_arrow().to_pylist()
    assert row == {"a": expected, "b": 1 if dialect == "spark" else 2}
    (row,) = qcore.sql("select 2 ** 3 as c, 2 * 3 ** 2 as d", {}, dialect=dialect).to_arrow().to_pylist()
    assert row == {"c": 8, "d": 18}


@pytest.mark.parametrize("dialect", ["qcore", "postgresql", "spark", "duckdb"])
def test_q1_whole_quotient(dialect: str) -> None:
    result = qcore.sql("select i // 2 as a, 9 // 2 as b from t", {"t": TABLE}, dialect=dialect).to_arrow()
    assert result.to_pylist() == [{"a": a, "b": 4} for a in (0, 1, None, 1, -2)]
    assert pa.types.is_integer(result.schema.field("a").type)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select ^ 2", "syntax error at"),
        ("select 2 ^", "syntax error at"),
        ("select interval '1 day' / 0", "division by zero"),
        ("select i // 0 from t", "division by zero"),
    ],
)
def test_q1_refused(query: str, message: str) -> None:
    with pytest.raises((PlanError, qcore.ExecutionError), match=message):
        qcore.sql(query, {"t": TABLE}).to_arrow()
