"""Expressions of constants alone have the values that columns would have: the engine computes them. SPEC Q2, Q3."""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest

import qcore
from qcore.frontends.planner.constants import computes_constants, made_constants

MOMENT = datetime.datetime(2020, 1, 1, 0, 0, 0, 1000)
T = pa.table(
    {
        "a": pa.array([1, 2, 1200, None]),
        "ms": pa.array([MOMENT, datetime.datetime(1500, 1, 1), None, None], pa.timestamp("ms")),
    }
)


def answer(text, dialect=None):
    return qcore.sql(text, {"t": T}, dialect=dialect).to_arrow().to_pylist()


def expected(text):
    connection = duckdb.connect()
    connection.register("t", T)
    return connection.sql(text).to_arrow_table().to_pylist()


@pytest.mark.parametrize(
    "expression",
    [
        "cast(2.7e0 as int)", "cast(2.5 as int)", "cast(-2.5e0 as int)", "cast(3.5e0 as bigint) + 1", "1.0 / 3",
        "2.0 / 3 * 3",
        "nullif(cast(0.0 as double), cast(-0.0 as double))", "cast(0.0 as double) = cast(-0.0 as double)",
        "cast('nan' as double) = cast('nan' as double)", "round(2.567, 2)", "log(100)", "substring('abc', 0, 2)",
        "substring('abc', -2)", "concat('a', null)", "concat_ws('-', 'a', null, 'b')", "7 % -2",
        "cast(1e20 as varchar)",
        "length('größe')", "regexp_replace('aa', 'a', 'b')", "case when 1.5 > 1 then 2 else 3 end", "pi() > 3",
        "date '2024-03-01' - date '2024-02-01'", "cast(1.005 as decimal(10, 2))", "make_date(2020, 1, 2)",
        "timestamp '1500-01-01 00:00:00' < timestamp '2020-01-01 00:00:00'", "cast(' 12 ' as int)",
        "not (1.5 * 2.25 > 3)",
        "'a' || cast(1 as varchar)", "extract(year from date '1999-02-22' + interval '30' day)", "cast(true as int)",
    ],
)  # fmt: skip
def test_constants_are_as_in_duckdb(expression):
    assert answer(f"select {expression} as x") == expected(f"select {expression} as x")


@pytest.mark.parametrize(
    "text",
    [
        "select x + 0.5 as y from (select cast(v as int) as x from (select 2.7e0 as v) p) q",
        "select a / 2.0 as x from (select 1.0 / 3 as a) p",
        "with p as (select 2.567 as r) select round(r, 1) as x, a from t, p",
        "select a from t where a between 1200 and 1200 + 11",
        "select a from t where ms = timestamp '2020-01-01 00:00:00.0015'",
        "select a from t where ms < timestamp '2020-01-01 00:00:00.0015'",
        "select count(*) as n from t where ms > timestamp '2020-01-01 00:00:00.0005'",
    ],
)
def test_constants_that_meet_later(text):
    assert answer(text) == expected(text)


def test_an_overflow_of_constants_is_an_error():
    with pytest.raises(qcore.QcoreError, match="overflow"):
        answer("select 9223372036854775807 + 1 as x")


@pytest.mark.parametrize(
    ("dialect", "text", "wanted"),
    [
        ("spark", "select cast(2.7e0 as int) as x", 2),
        ("spark", "select substring('abc', -2) as x", "bc"),
        ("spark", "select regexp_replace('aa', 'a', 'b') as x", "bb"),
        ("spark", "select concat('a', null) as x", None),
        ("postgresql", "select round(2.5e0) as x", 2),
        ("duckdb", "select 7 / 2 as x", 3.5),
    ],
)
def test_settings_of_a_session_reach_constants(dialect, text, wanted):
    assert answer(text, dialect) == [{"x": wanted}]


def test_what_is_exact_stays_with_the_planner():
    """So that scans see constants, and row groups are pruned by them."""
    text = "select a from t where ms < date '1999-02-22' + interval '30' day and a between 1200 and 1200 + 11"
    assert "(a <= 1211)" in qcore.sql(text, {"t": T}).explain()
    moved = 'Filter: t.d < CAST(Utf8("1999-02-22") AS Date32) + IntervalMonthDayNano("… { days: 30 }")'
    assert not computes_constants(moved)
    assert not made_constants(moved, 'Filter: t.d < Date32("1999-03-24")')
    assert not computes_constants("Filter: t.d > Decimal128(0.06,2,2) - Decimal128(0.01,2,2)")
    assert not computes_constants("Filter: t.a * Int64(2) / t.b > t.a")
    assert computes_constants("Projection: Int64(1) / Int64(3) AS x")
    assert computes_constants("Projection: t.a + round(Decimal128(2.5,2,1)) AS x")
    assert not computes_constants("Aggregate: groupBy=[[]], aggr=[[count(Int64(1)), now()]]")


def test_names_that_read_like_functions() -> None:
    """What a column within is called as says nothing of what the engine knows: the planner computed this constant."""
    query = (
        "select distinct (select max(cast(null as decimal(9, 0))) from t) as m, "
        "extract(minute from timestamp '2000-02-29 12:34:56' - timestamp '1995-12-31 23:59:59.5') as x from t"
    )
    found = qcore.sql(query, {"t": pa.table({"i": [1]})}).to_arrow()
    assert found["x"].to_pylist() == [34]
