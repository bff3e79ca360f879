"""Names of types in SQL."""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.functions.dialect import Dialect
from qcore.sql.types import read_type

sqlglot = pytest.importorskip("sqlglot")


def type_of(text: str, syntax: str = "duckdb", dialect: Dialect | None = None) -> pa.DataType:
    cast = sqlglot.parse_one(f"select cast(x as {text})", read=syntax).expressions[0]
    return read_type(cast.args["to"], dialect or Dialect.find("spark" if syntax == "spark" else "qcore"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", pa.int32()),
        ("int2", pa.int16()),
        ("bigint unsigned", pa.uint64()),
        ("oid", pa.int64()),
        ("hugeint", pa.decimal128(38, 0)),
        ("decimal", pa.decimal128(18, 3)),
        ("numeric(5)", pa.decimal128(5, 0)),
        ("decimal(5, 2)", pa.decimal128(5, 2)),
        ("float4", pa.float32()),
        ("double precision", pa.float64()),
        ("varchar(3)", pa.string()),
        ("bytea", pa.binary()),
        ("datetime", pa.timestamp("us")),
        ("timestamp(0)", pa.timestamp("s")),
        ("timestamp(3)", pa.timestamp("ms")),
        ("timestamp(7)", pa.timestamp("ns")),
        ("timestamp_ns", pa.timestamp("ns")),
        ("timestamp with time zone", pa.timestamp("us", "UTC")),
        ("interval", pa.month_day_nano_interval()),
        ("time", pa.time64("us")),
        ("uuid", pa.uuid()),
        ("uuid[]", pa.list_(pa.uuid())),
        ("int[][]", pa.list_(pa.list_(pa.int32()))),
        ("int[3]", pa.list_(pa.int32())),
        ("map(int, text)", pa.map_(pa.int32(), pa.string())),
        (
            "struct(a int, b decimal(4, 1)[])",
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.decimal128(4, 1)))]),
        ),
    ],
)
def test_types_by_name(text: str, expected: pa.DataType) -> None:
    assert type_of(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("json", "the type JSON is not supported"),
        ("decimal(40)", r"DECIMAL\(40\) is not supported: a decimal has 1 to 38 digits"),
        ("decimal(3, 5)", r"DECIMAL\(3, 5\) is not supported"),
        ("bananas", "there is no type 'bananas'"),
        ("timestamp(12)", "at most nine digits"),
        ("struct(a int, A int)", "has each field once"),
        ("bit", "the type BIT is not supported"),
    ],
)
def test_types_that_there_are_not(text: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        type_of(text)


def test_timestamps_of_spark() -> None:
    local, instant = pa.timestamp("us"), pa.timestamp("us", "UTC")
    zoned = Dialect(syntax="spark", timestamp="instant")
    assert [type_of(f"timestamp{end}", "spark") for end in ("", "_ltz", "_ntz")] == [local, instant, local]
    assert [type_of(f"timestamp{end}", "spark", zoned) for end in ("", "_ltz", "_ntz")] == [instant, instant, local]
    assert type_of("timestamp", "duckdb", Dialect(timestamp="instant")) == instant
    assert type_of("decimal", "spark") == pa.decimal128(10, 0)
    assert type_of("array<struct<a:int>>", "spark") == pa.list_(pa.struct([("a", pa.int32())]))


DAYS = [
    datetime.date(2024, 1, 31),
    None,
    datetime.date(1969, 7, 20),
    datetime.date(2000, 2, 29),
    datetime.date(1, 1, 1),
]
T = pa.table({
    "u": pa.array([1, 2**64 - 1, 3, None, 7], pa.uint64()),
    "n": pa.array([-1, -(2**63), 2**63 - 1, 5, -2], pa.int64()),
    "i": pa.array([1, 2, 3, None, 2], pa.int64()),
    "g": ["a", "b", "a", None, "b"],
    "r": pa.array([1.5, None, float("nan"), float("inf"), -0.5], pa.float32()),
    "day": DAYS,
    "ts": pa.array([day and datetime.datetime(*day.timetuple()[:3], 7, 8, 9) for day in DAYS], pa.timestamp("us")),
    "l": [[1, 2], [], None, [None], [3]],
    "span": ["1 year -2 days", "04:05:06.5", None, "3 weeks ago", "1 quarter 2.5 hours"],
})  # fmt: skip


def answer(text: str, dialect: str = "duckdb") -> pa.Table:
    session = qcore.Session(threads=1, dialect=dialect)
    session.register("t", T)
    return session.sql(text).to_arrow()


def expected(text: str) -> pa.Table:
    connection = duckdb.connect()
    connection.register("t", T)
    return connection.sql(text).to_arrow_table()


@pytest.mark.parametrize(
    "text",
    [
        "select u // n as a, n // u as b, u % n as c, n % u as d, u + n as e from t",
        "select u // 2 as a, 2 // u as b, u % 2 as c, u // -2 as d, u // null as e, (u - 1) // n as f from t",
        "select sum(u // 2) as a, u // n > 0 as b from t group by b",
        "select case when u // 2 > 1 then u // n end as a, u // 3 between 0 and n // 2 as b from t",
    ],
)
def test_unsigned_integers_divided_by_signed(text: str) -> None:
    """Q3: // and % of uint64 and signed integers are exact, also next to other operators."""
    assert_same_rows(answer(text), expected(text))
    assert_same_rows(answer(text, "qcore"), expected(text))


def test_unsigned_integers_stay_unsigned_beside_constants() -> None:
    """Q3: the result of uint64 and a constant in its range is uint64. A result outside of the range is an error."""
    text = "select u // 2 as a, u % 10 as b, u - 1 as c from t"
    assert answer(text).schema == expected(text).schema
    with pytest.raises(qcore.QcoreError, match="overflows uint64"):
        answer("select u + 1 from t")


@pytest.mark.parametrize(
    "text",
    [
        "select length(l::text) as a, len((l::varchar)) as b, length(cast([i] as text)) as c, length(l) as d from t",
        "select length({'a': i}::text) as a, typeof(i::text) as b, typeof(l) as c, typeof(null) as d from t",
        "select hex(i::text) as a, sha256(i::text) as b, length(upper(l::text)) as c from t",
    ],
)
def test_text_that_a_query_asks_for(text: str) -> None:
    """Q2: the optimizer does not remove a cast to text that is an argument of a function of any type."""
    assert_same_rows(answer(text), expected(text))


@pytest.mark.parametrize(
    "text",
    [
        "select span::interval as a, cast(span as interval) = interval '1 year -2 days' as b from t",
        "select ts + span::interval as a, ts - (i || ' days')::interval as b from t",
        "select '1 year 2 months'::interval as a, '01:02:03'::interval as b, try_cast(g as interval) as c from t",
        "select interval '1 quarter' as a, ts + interval 1 quarter as b, ts - interval '2' quarters as c from t",
        "select interval '2 quarters 1 day' as a, interval '3 millennia' as b from t",
    ],
)
def test_intervals_of_text(text: str) -> None:
    """Q3: text cast to intervals, with quarters."""
    assert_same_rows(answer(text), expected(text))


@pytest.mark.parametrize(
    "text",
    [
        "select cast([r] as varchar[]) as a, cast([day, null] as text[]) as b, cast([[i]] as varchar[][]) as c from t",
        "select cast([r] as int[]) as a, cast([r / 2] as decimal(5, 1)[]) as b from t where i < 2",
        "select cast(l as varchar[]) as a, try_cast([g] as int[]) as b from t",
    ],
)
def test_lists_of_other_elements(text: str) -> None:
    """Q3: elements are cast like single values."""
    assert_same_rows(answer(text), expected(text))


def test_a_cast_and_one_that_may_fail_are_two() -> None:
    """Q3: try_cast and cast of the same value are different expressions."""
    text = "select try_cast(g as interval) as a, try_cast([g] as int[]) as b from t"
    assert_same_rows(answer(text), expected(text))
    for wrong in (
        "try_cast(g as interval) as a, cast(g as interval)",
        "try_cast([g] as int[]) as a, cast([g] as int[])",
    ):
        with pytest.raises(qcore.QcoreError):
            answer(f"select {wrong} as b from t")


def test_intervals_turned_over() -> None:
    """Q3: negative intervals."""
    text = (
        "select -to_days(i) as a, - interval '2' day as d, -span::interval as b, -interval '1 month 2 days' as c from t"
    )
    assert_same_rows(answer(text), expected(text))


@pytest.mark.parametrize(
    "text",
    [
        "select isfinite(day) as a, isinf(ts) as b, isfinite(r) as c, isinf(r) as d, isfinite(i) as e from t",
        "select isinf('inf'::double) as a, isfinite('-inf'::float) as b, isfinite(1.5) as c",
        "select age(day) = age(current_date, day) as a, typeof(age(ts)) as b from t",
        "select make_timestamp_ns(i) as a from t",
        "select make_timestamp(cast(median(epoch_us(ts)) as bigint)) as a, quantile_disc(day, 0.5) as b from t",
        "select strftime(day, '%Y-%m-%d') as a, strftime(ts, '%y %Y') as b from t",
    ],
)
def test_functions_of_times(text: str) -> None:
    """Q2: functions of dates and timestamps with the same name as functions of numbers."""
    assert_same_rows(answer(text), expected(text))


@pytest.mark.parametrize(
    "text",
    [
        "select * from (values (1.5), ('nan'::double)) v(a)",
        "select a + 1 as b, a * 1.5 as c from (values (1.5), (2), (null), ('inf'::double)) v(a) where a > 1",
        "select * from (values (1.25::real), (2.5)) v(a)",
        "select * from (values (1.5e0::decimal(9, 3)), (2.25)) v(a)",
    ],
)
def test_floats_among_decimals_in_values(text: str) -> None:
    """Q3: a column of VALUES with decimals and floats has floats."""
    assert_same_rows(answer(text), expected(text))


@pytest.mark.parametrize(
    "text",
    [
        "select g, count(*) as i from t group by g having i > 1",
        "select g, sum(i) as i from t group by g having sum(i) + i > 4 and i > 1",
        "select g, i + 100 as i from t group by g, i having i > 2",
        "select g, i % 2 as i, count(*) as n from t group by rollup (g, t.i) having i > 1",
        "select upper(g) as g, max(i) as i from t group by upper(g) having g = 'A' and coalesce(i, 0) > 2",
        "select g, max(i) as i from t group by all having i between 2 and 8 and exists (select 1 from t where i > 2)",
        "select i + 1 as i, count(*) as n from t group by 1 having cast(i as text) like '%3'",
        "select max(i) as i from t having i > 2",
    ],
)
def test_aliases_in_having(text: str) -> None:
    """Q1: a name of both an alias and a column means the alias in HAVING, unless the query groups by the column."""
    assert_same_rows(answer(text), expected(text))


@pytest.mark.parametrize(
    ("value", "type_", "shown"),
    [
        ("coalesce(cast(d as decimal(9, 2)), cast(i as decimal(38, 0)))", pa.decimal128(38, 2), "2.25"),
        (
            "case when i = 1 then cast(d as decimal(9, 2)) else cast(i as decimal(38, 0)) end",
            pa.decimal128(38, 2),
            "2.25",
        ),
        ("nullif(i, cast(5 as double))", pa.int64(), "1"),
    ],
)
def test_the_type_of_values_that_meet(value: str, type_: pa.DataType, shown: str) -> None:
    """Q3: the types that docs/SQL.md documents where they differ from DuckDB."""
    made = answer(f"select {value} as a from (select i, i + 1.25 as d from t where i = 1)").column(0)
    assert (made.type, str(made[0].as_py())) == (type_, shown)


def test_text_beside_dates_in_unions() -> None:
    """Q3: text is cast to dates. Other text is an error."""
    made = answer("select '2024-01-31' as a union all select day from t where day is not null").column(0)
    assert made.type == pa.date32()
    with pytest.raises(qcore.QcoreError, match="'x' of type string to date32"):
        answer("select 'x' as a union all select day from t")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select g from t order by g collate nocase", r"COLLATE NOCASE is not supported.*lower\(x\)"),
        ("select epoch_ms(i) from t", r"epoch_ms takes a date or a timestamp; use make_timestamp_ms\(x\)"),
        ("select median(day) from t", r"median\(\) takes numbers; for timestamps write make_timestamp"),
        (
            "select stddev(ts) from t",
            r"stddev\(\) takes numbers; for timestamps write make_timestamp\(cast\(stddev\(epoch_us\(x\)\)",
        ),
        ("select quantile_cont(ts, 0.5) from t", r"quantile_cont\(\) takes numbers; .*quantile_disc\(x, 0.5\)"),
        ("select g::interval from t", "'a' is not an interval"),
        (
            "select g, max(i) as i from t group by g having t.i > 1",
            r"column .i. is neither in GROUP BY nor inside an aggregate; add it to GROUP BY, or write any_value",
        ),
    ],
)
def test_refused_with_the_remedy(text: str, message: str) -> None:
    """Q1: the error names the missing feature and the remedy."""
    with pytest.raises(qcore.QcoreError, match=message):
        answer(text)


def test_only_collations_by_code_points_are_supported() -> None:
    """Q1: COLLATE "C" has no effect, because text is always compared so."""
    assert answer("""select g from t where g = 'a' collate "C" order by g collate binary""")["g"].to_pylist() == [
        "a",
        "a",
    ]
