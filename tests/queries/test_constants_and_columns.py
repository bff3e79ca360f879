"""Constants have the values that columns have, also in years beyond 2262 (SPEC Q3)."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

DAY, MOMENT = datetime.date, datetime.datetime
FAR = pa.table({
    "d": [DAY(9999, 12, 31), DAY(1, 1, 1), DAY(2024, 2, 29), None],
    "ts": pa.array([MOMENT(9999, 12, 31, 1), MOMENT(2024, 1, 1), MOMENT(1, 1, 1), None], pa.timestamp("us")),
    "ms": pa.array([MOMENT(9999, 12, 31, 1), MOMENT(2024, 1, 1), MOMENT(1, 1, 1), None], pa.timestamp("ms")),
    "s": ["9999-12-31", "0001-01-01 10:00", "2024-02-29", None],
})  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "select cast(d as timestamp) as a, cast(ts as timestamp) as b, cast(s as timestamp) as c from t",
        "select d < ts as a, d = ts as b, ts between d and d as c, d in (ts) as e, ms >= d as f from t",
        "select d + interval '1 hour' as a, ts - interval '1 hour' as b from t where d > date '0001-01-01'",
        "select d as a from t union all select ts from t",
        "select coalesce(ts, d) as a, greatest(ts, d) as b, case when d is null then ts else d end as c from t",
        "select d > timestamp '2020-01-01' as a, ts > timestamp '9999-01-01' as b, s::timestamp > ts as c from t",
        "select d > now() as a, ts > now() as b, now() < d as c, d <= now() as e from t",
        "select * from t where d >= timestamp '2020-01-01 00:00:01' and ts is not null",
        "select a.d from t as a join t as b on a.d = b.ts",
        "select cast(ts as timestamptz) as a, cast(d as timestamptz) as b from t",
        "select cast(ts - timestamp '2024-01-01' as varchar) is null as a, date_diff('day', d, ts) as b from t",
        "select max(cast(d as timestamp)) as a, min(ts) over () as b from t group by ts",
    ],
)
def test_dates_that_nanoseconds_do_not_reach(query: str) -> None:
    """Timestamps in nanoseconds would end in 2262."""
    database = duckdb.connect()
    database.execute("set timezone = 'UTC'")
    database.register("t", FAR)
    # now() has a time zone there.
    written = query.replace("now()", "now()::timestamp")
    assert_same_rows(qcore.sql(query, {"t": FAR}).to_arrow(), database.sql(written).to_arrow_table())


def test_nanoseconds_stay() -> None:
    """Nanoseconds are kept. Values of other units are compared as if they had nanoseconds."""
    text = "'2024-01-01 00:00:00.123456789'"
    got = qcore.sql(f"select cast({text} as timestamp_ns) as a, cast({text} as timestamp) as b").to_arrow()
    assert got.schema.types == [pa.timestamp("ns"), pa.timestamp("us")]
    assert got["a"].cast(pa.int64()).to_pylist() == [1704067200123456789]
    table = pa.table({
        "d": [DAY(2024, 1, 1), DAY(2024, 1, 2)],
        "n": pa.array([1704067200000000000, 1704067200000000001], pa.timestamp("ns")),
    })  # fmt: skip
    for query, expected in (
        ("n > d", [False, False]), ("n < timestamp_ns '2024-01-01 00:00:00.000000001'", [True, False]),
        ("d < timestamp_ns '2024-01-01 00:00:00.000000001'", [True, False]),
        ("d >= timestamp_ns '2024-01-01 00:00:00.000000001'", [False, True]),
        ("timestamp_ns '2024-01-01 00:00:00.000000001' <= d", [False, True]),
        ("timestamp_ns '2024-01-01 00:00:00.000000001' > d", [True, False]),
    ):  # fmt: skip
        assert qcore.sql(f"select {query} as a from t", {"t": table}).to_arrow()["a"].to_pylist() == expected, query


@pytest.mark.parametrize(
    "query",
    [
        "date '2024-01-01' + interval '5 hours'",
        "date '2024-01-01' - interval '90 minutes'",
        "date '2024-01-31' + interval '1 month 5 hours'",
        "interval '36 hours' + date '2024-01-01'",
        "timestamp '2024-01-31 10:00' + interval '1 month 5 hours'",
        "date '2024-02-01' < date '2024-01-31' + interval '25 hours'",
    ],
)
def test_a_constant_date_moved_by_hours(query: str) -> None:
    """The result is a timestamp, not a date."""
    assert_same_rows(qcore.sql(f"select {query} as a").to_arrow(), duckdb.sql(f"select {query} as a").to_arrow_table())


@pytest.mark.parametrize(
    ("value", "type_", "to"),
    [
        (100.0, "double", "varchar"),
        (-0.0, "double", "varchar"),
        (1e-7, "double", "varchar"),
        (1e15, "double", "varchar"),
        (1e15, "double", "decimal(38, 10)"),
        (Decimal("-0.50"), "decimal(5, 2)", "varchar"),
        (datetime.datetime(2024, 1, 5, 1, 2, 3, 400000), "timestamp", "varchar"),
        (datetime.datetime(2024, 1, 5), "timestamp", "varchar"),
        (datetime.time(1, 2, 3, 500000), "time", "varchar"),
        (datetime.date(9999, 12, 31), "date", "timestamp"),
        ("0x1F", "varchar", "bigint"),
        (" 12 ", "varchar", "int"),
        ("1e3", "varchar", "double"),
        ("2024-1-5", "varchar", "date"),
        ("yes", "varchar", "boolean"),
    ],
)
def test_a_cast_constant_is_a_cast_column(value: object, type_: str, to: str) -> None:
    """The optimizer and the engine compute the same value."""
    text = f"cast('{value}' as {type_})"
    queries = (f"select try_cast({text} as {to}) as a", f"select try_cast(cast(c as {type_}) as {to}) as a from t")
    constant, column = (qcore.sql(query, {"t": pa.table({"c": [str(value)]})}).to_arrow() for query in queries)
    assert constant["a"].to_pylist() == column["a"].to_pylist()
