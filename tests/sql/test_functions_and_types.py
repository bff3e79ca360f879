"""Functions, casts and types in SQL, against DuckDB. SPEC Q1, Q3."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        yield connection


def value_of(expression: str, dialect: str = "qcore") -> Any:
    (column,) = qcore.sql(f"select {expression}", {}, threads=1, dialect=dialect).to_arrow().columns
    return dict(column[0].as_py()) if pa.types.is_map(column.type) else column[0].as_py()


SAME = """
ifnull(date '2024-01-01', null)
extract(epoch from interval '2 years')
extract(epoch from interval '-25 months 3 days')
(map {'a': {'x': 1}})['a']
4 = any([1, 2, 3, null])
4 <> all([1, 2, 3])
4 > any([1, null])
4 <= all([null, 4])
list_sum([12345678901234567890123456789012345.67::decimal(37,2)])
timestamp '2024-01-01 00:00:00.6'::timestamp_s
timestamp '1969-12-31 23:59:58.5'::timestamp_s
'2024-01-01 00:00:00.6'::timestamp_s
timestamp '2024-01-01 00:00:00.6'::timestamp(0)
timestamp '2024-01-01 00:00:00.0006'::timestamp_ms
'2024-01-01 00:00:00.0005'::timestamp_ms
'2024-01-01 23:59:59.6'::date
'2024-01-01 00:00:00+05'::timestamp
'2024-01-01 23:00:00-05'::date
'2024-01-01 00:00:00+05'::timestamptz
'2024-01-01 00:00:00+05' = timestamp '2024-01-01'
'a'::blob || 'b'::blob
9::hugeint // 2
typeof(row_number() over () - 1)
typeof(rank() over () * 2)
typeof(now())
typeof(date '2024-01-01')
histogram(null)
sum(null)
avg(date '2024-01-02')
avg(time '10:00')
avg(timestamp '2024-01-02 10:00')
epoch_us(avg(make_timestamp(x))) from (values (1), (2), (2)) t(x)
epoch_us(avg(make_timestamp(x))) from (values (1), (2)) t(x)
epoch_us(avg(make_timestamp(x))) from (values (1), (1), (2)) t(x)
epoch_us(avg(make_timestamp(x))) from (values (-1), (-2), (-2)) t(x)
epoch_us(avg(make_timestamp(x))) from (values (3), (-1), (0), (1), (null)) t(x)
epoch_us(avg(make_timestamp(x))) from (values (9000000000000000001), (9000000000000000002), (9000000000000000002)) t(x)
epoch_us(avg(distinct make_timestamp(x))) from (values (1), (2), (2), (5)) t(x)
epoch_us(avg(make_timestamp(x)) over ()) from (values (1), (2), (2)) t(x)
epoch_us(avg(make_timestamp(x)::timestamptz)) from (values (1), (2), (2)) t(x)
avg(make_timestamp(x)::time) from (values (1), (2), (2)) t(x)
avg(make_timestamp(x)::date) from (values (86400000000), (0), (0)) t(x)
avg(make_timestamp(x)) from (values (1)) t(x) where x > 1
hash(1, 'a') = hash(1, 'a')
struct_insert({'a': 1}, b := 2)
struct_update({'a': 1}, a := 2)
map_concat(map {1: 2}, map {1: 3, 2: 4})
map_concat(map {1: 2}, null)
map_from_entries([(1, 2)])
map {}
cardinality(map([], []))
list_bool_and([true, false])
list_bool_or([null, false])
make_timestamptz(2024, 1, 1, 1, 1, 1)
map([1], [2])
struct_pack(a := 1, b := 'x')
'abc' glob 'a*'
kahan_sum(x) from (values (1e0), (1e-16), (1e-16)) t(x)
datediff('year', date '-290000-01-01', date '290000-01-01')
age(date '2020-01-01') > interval 1 year
'ABC' ~* 'b'
'abc' ~ 'b'
'abc' !~ 'b'
date_trunc('month', date '2024-01-31')
@(-5)
mode(x) from (values (1), (1), (2)) t(x)
quantile_cont(x, [0.25, 0.5]) from (values (1), (1), (2)) t(x)
arg_max(x, y) from (values (1, 2), (1, 3), (2, 1)) t(x, y)
count_if(x > 1) from (values (1), (1), (2)) t(x)
count_if(x > 5) from (values (1), (1), (2)) t(x)
string_agg(x, '-' order by x desc) from (values (1), (1), (2)) t(x)
geomean(x) from (values (1), (4)) t(x)
"""


@pytest.mark.parametrize("expression", [line for line in SAME.splitlines() if line])
def test_as_duckdb(expression: str, oracle: duckdb.DuckDBPyConnection) -> None:
    assert value_of(expression) == oracle.execute(f"select {expression}").fetchall()[0][0]


def test_means_of_coarse_timestamps() -> None:
    """They are the nearest microsecond, as in DuckDB 2.0.0. In DuckDB 2.0.1 they have nanoseconds."""
    rows = "from (values (1000000), (2000000), (2000000)) t(x)"
    for unit in ("s", "ms"):
        assert value_of(f"epoch_us(avg(make_timestamp(x)::timestamp_{unit})) {rows}") == 1_666_667
        assert value_of(f"typeof(avg(make_timestamp(x)::timestamp_{unit})) {rows}") == "TIMESTAMP"


def test_null_in_an_empty_list() -> None:
    """Null, as in DuckDB 2.0.0. In DuckDB 2.0.1 an empty list does not contain null."""
    assert value_of("list_contains([]::double[], null)", "duckdb") is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'1234567890123456789012345678901234567890'::decimal(38, 0)", "cannot cast"),
        ("(-2)::tinyint + (-127)::tinyint", "overflows int8"),
        ("[12345678901234567890123456789012345.1::decimal(36, 1), 1::decimal(36, 35)]", "cannot cast"),
        (
            "case when true then 12345678901234567890123456789012345.1::decimal(36, 1) else 1::decimal(36, 35) end",
            "cannot cast",
        ),
        (
            "max(x) from (values (12345678901234567890123456789012345.1::decimal(36, 1)), (1::decimal(36, 35))) v(x)",
            "cannot cast",
        ),
        (
            "max(x) from (select 12345678901234567890123456789012345.1::decimal(36, 1) as x "
            "union all select 1::decimal(36, 35))",
            "cannot cast",
        ),
        ("interval 3 bananas", "is not an interval"),
        ("map([null], [1])", "a map has no null keys"),
        ("'0.1'::decimal(40)", "a decimal has 1 to 38 digits"),
        ("datediff('microsecond', date '-290000-01-01', date '290000-01-01')", "overflows int64"),
        ("timestamp '290000-01-01' - interval '600000 years'", "overflows timestamp"),
        ("'a'::uuid", "cannot cast 'a' of type string to uuid; try_cast returns null instead"),
        ("1::uuid", "cannot cast int64 to uuid"),
        ("(uuid '00000000-0000-0000-0000-000000000000')::int", "cannot cast uuid to int32"),
        ("uuid '00000000-0000-0000-0000-000000000000' + 1", r"add\(uuid, int64\) is not defined: it takes numbers"),
        ("uuid '00000000-0000-0000-0000-000000000000' = 1", "uuid and int64 have nothing in common"),
        ("uuid '00000000-0000-0000-0000-000000000000' like 'a'", "LIKE takes text, not uuid"),
        ("upper(uuid '00000000-0000-0000-0000-000000000000')", r"upper\(uuid\) is not defined: it takes text"),
        ("{'a': 1} -> 'a'", "read JSON, which is not supported"),
    ],
)
def test_refused_by_name(expression: str, message: str) -> None:
    with pytest.raises(qcore.QcoreError, match=message):
        value_of(expression)


@pytest.mark.parametrize(
    "rows",
    [
        "(values (99.5::decimal(36, 1)), (0.25::decimal(36, 35))) v(x)",
        "(select 99.5::decimal(36, 1) as x union all select 0.25::decimal(36, 35))",
        "(select unnest([99.5::decimal(36, 1), 0.25::decimal(36, 35)]) as x)",
    ],
)
def test_decimals_that_fit_their_common_type(rows: str, oracle: duckdb.DuckDBPyConnection) -> None:
    """All digits after the point are kept."""
    for expression in ("max(x)", "min(x)", "sum(x)"):
        query = f"{expression} from {rows}"
        assert value_of(query) == oracle.execute(f"select {query}").fetchall()[0][0]


def test_documented_differences_from_duckdb() -> None:
    """The documented differences.

    Nanoseconds, which DuckDB's client truncates; exact sums; long decimals; version(); halves of intervals; integer
    division.
    """
    assert value_of("'2024-01-01 00:00:00.123456789'::timestamp_ns").nanosecond == 789
    assert value_of("fsum(x) from (values (1e16), (1e0), (-1e16)) t(x)") == 1.0
    assert value_of("format('{}', 12345678901234567890.12::decimal(38, 2))") == "12345678901234567890.12"
    long = "12345678901234567890.125::decimal(38, 3)"
    assert value_of(f"printf('%f|%.1f|%s', {long}, {long}, {long})") == (
        "12345678901234567890.125000|12345678901234567890.1|12345678901234567890.125"
    )
    assert value_of("version()").startswith("qcore ")
    assert value_of("(timestamp '2024-01-03' - timestamp '2024-01-01') / 2") == pa.MonthDayNano([0, 1, 0])
    assert value_of("date '2024-01-01' + interval 1 day") == dt.date(2024, 1, 2)
    assert value_of("7::decimal(38, 0) // 2") == Decimal(3)


@pytest.mark.parametrize("dialect", ["qcore", "duckdb", "postgresql", "spark"])
def test_casts_of_every_dialect_raise_errors(dialect: str) -> None:
    with pytest.raises(qcore.ExecutionError, match="cannot cast 'x'"):
        value_of("cast('x' as int)", dialect)
    assert value_of("try_cast('x' as int)", dialect) is None


def test_division_in_dialects() -> None:
    assert value_of("7 / 2") == value_of("7 / 2", "duckdb") == value_of("7 / 2", "spark") == 3.5
    assert value_of("7 / 2", "postgresql") == 3
    assert value_of("7 // 2") == value_of("-7 // 2") + 6 == 3
    assert value_of("typeof(7 / 2)") == "DOUBLE"
    assert value_of("7.5 / 2") == 3.75
    assert value_of("interval 3 days / 2") == pa.MonthDayNano([0, 1, 43_200_000_000_000])
