"""The engine computes expressions of constants, with the values that columns would have. SPEC Q2, Q3."""

from __future__ import annotations

import datetime
import math

import duckdb
import pyarrow as pa
import pytest

import qcore

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
        ("postgresql", "select 7 / 2 as x", 3),
    ],
)
def test_settings_of_a_session_reach_constants(dialect, text, wanted):
    assert answer(text, dialect) == [{"x": wanted}]


def test_scans_see_constants():
    """Row groups can then be pruned by them."""
    text = "select a from t where ms < date '1999-02-22' + interval '30' day and a between 1200 and 1200 + 11"
    assert "(a <= 1211)" in qcore.sql(text, {"t": T}).explain()


def test_one_moment_for_all_parts_of_a_query():
    """Q1: the parts of a set operation, subqueries, and rows of VALUES are planned separately."""
    text = "select now() as n from t except select current_timestamp from t"
    assert answer(text) == []
    text = "select count(distinct x) as n from (select now() as x union all values (now()), (now())) p"
    assert answer(text) == [{"n": 1}]
    (row,) = answer("select now() as n, current_date as d, today() as e, current_time as c, cast(now() as date) as f")
    assert row["d"] == row["e"] == row["f"] == row["n"].date()
    before = datetime.datetime.now(datetime.UTC)
    (row,) = answer("select now() as n, pi() as p, nvl2(null, 1, 2) as z")
    assert before - row["n"] < datetime.timedelta(seconds=60) and (row["p"], row["z"]) == (math.pi, 2)


def test_other_names_of_the_moment() -> None:
    query = (
        "select get_current_time() = current_time as a, transaction_timestamp() = now() as b, "
        "get_current_timestamp() = current_timestamp as c, typeof(get_current_time()) = typeof(current_time) as d"
    )
    assert answer(query) == [{"a": True, "b": True, "c": True, "d": True}]


VALUES = [
    "values (1 + 1), (cast(2.7 as int)), (3)",
    "values ([1, 2], 'a'), ([3], upper('b')), (null, null)",
    "values (1.0 / 3)",
    "values (cast('2020-01-02' as date), -5, true and false)",
    "select x + 1 as x from (values (cast(1.5 as int)), (2 * 3), (null)) v(x)",
    "select * from (values ({'a': 1}), ({'a': 2})) v(x)",
    "values (cast(2.5 as decimal(10, 1)) + 1), (1e300)",
]


@pytest.mark.parametrize("text", VALUES)
def test_values_are_computed_by_the_engine(text):
    """Q1: VALUES may contain all kinds of constant expressions."""
    found, wanted = ([list(row.values()) for row in rows] for rows in (answer(text), expected(text)))
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_values_are_one_input_where_they_are_computed_alike():
    """P4: there is one input in the plan, and not one for each row."""
    rows = ", ".join(f"([{n}, {n + 1}], {n} + 1)" for n in range(500))
    result = qcore.sql(f"select sum(y) as s, count(*) as n from (values {rows}) v(x, y)")
    assert result.explain().count("Values") == 1
    assert result.to_arrow().to_pylist() == [{"s": sum(range(1, 501)), "n": 500}]


def test_values_that_are_no_constants():
    """Q1."""
    result = qcore.sql("values ((select 1)), (2)").to_arrow()  # two inputs of a union: their rows have no order
    assert result.column_names == ["col0"] and sorted(result.column(0).to_pylist()) == [1, 2]


def test_names_that_read_like_functions() -> None:
    """The names of columns of a subquery look like calls."""
    query = (
        "select distinct (select max(cast(null as decimal(9, 0))) from t) as m, "
        "extract(minute from timestamp '2000-02-29 12:34:56' - timestamp '1995-12-31 23:59:59.5') as x from t"
    )
    found = qcore.sql(query, {"t": pa.table({"i": [1]})}).to_arrow()
    assert found["x"].to_pylist() == [34]
