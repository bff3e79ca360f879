"""Timestamps with time zones: parts, truncation, casts and arithmetic in local time, against zoneinfo. SPEC Q3."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest
from expression_table import evaluate

import qcore
from oracle import assert_same_rows
from qcore import col, lit
from qcore.expression.tree import Expr, call

ZONES = ["Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC", "+05:30"]
UTC = dt.UTC
HOUR = dt.timedelta(hours=1)


def zone_of(name: str) -> dt.tzinfo:
    return dt.timezone(dt.timedelta(hours=5, minutes=30)) if name == "+05:30" else ZoneInfo(name)


def instants() -> list[dt.datetime | None]:
    """Instants of 30 years, each half hour around the clock changes of 2024, and a null."""
    found: list[dt.datetime | None] = [
        dt.datetime(1995 + i, 1 + i % 12, 1 + i % 28, i % 24, 7, 9, 123_000, tzinfo=UTC) for i in range(30)
    ]
    for start in (dt.datetime(2024, 3, 30, 12), dt.datetime(2024, 10, 26, 12), dt.datetime(2024, 11, 2, 22)):
        found += [start.replace(tzinfo=UTC) + i * HOUR / 2 for i in range(60)]
    return [*found, None]


def values_of(zone: str, expr: Expr) -> list[Any]:
    batch = pa.record_batch({"w": pa.array(instants(), pa.timestamp("us", zone))})
    return evaluate(batch, expr).column(0).to_pylist()


PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "year": lambda local: local.year,
    "month": lambda local: local.month,
    "day": lambda local: local.day,
    "hour": lambda local: local.hour,
    "minute": lambda local: local.minute,
    "iso_day_of_week": lambda local: local.isoweekday(),
    "day_of_year": lambda local: local.timetuple().tm_yday,
    "week": lambda local: local.isocalendar().week,
    "millisecond": lambda local: local.second * 1000 + local.microsecond // 1000,
}


@pytest.mark.parametrize("zone", ZONES)
def test_parts_are_of_local_time(zone: str) -> None:
    for part, of in PARTS.items():
        expected = [None if when is None else of(when.astimezone(zone_of(zone))) for when in instants()]
        assert values_of(zone, call(part, col("w"))) == expected, part
    seconds = [None if when is None else when.timestamp() for when in instants()]
    assert values_of(zone, call("epoch", col("w"))) == seconds


@pytest.mark.parametrize("zone", ZONES)
def test_casts_are_to_local_time(zone: str) -> None:
    locals_ = [None if when is None else when.astimezone(zone_of(zone)).replace(tzinfo=None) for when in instants()]
    assert values_of(zone, col("w").cast(pa.timestamp("us"))) == locals_
    assert values_of(zone, col("w").cast(pa.date32())) == [local and local.date() for local in locals_]
    assert values_of(zone, col("w").cast(pa.time64("us"))) == [local and local.time() for local in locals_]
    # The same instant has another local time in another zone.
    assert values_of(zone, col("w").cast(pa.timestamp("us", "Asia/Tokyo"))) == instants()


def test_text_has_the_offset() -> None:
    winter, summer = dt.datetime(2024, 1, 1, 12, 0, 0, 500_000, UTC), dt.datetime(2024, 7, 1, 12, tzinfo=UTC)
    for zone, expected in {
        "Europe/Paris": ["2024-01-01 13:00:00.5+01", "2024-07-01 14:00:00+02"],
        "Asia/Kolkata": ["2024-01-01 17:30:00.5+05:30", "2024-07-01 17:30:00+05:30"],
        "America/New_York": ["2024-01-01 07:00:00.5-05", "2024-07-01 08:00:00-04"],
        "UTC": ["2024-01-01 12:00:00.5+00", "2024-07-01 12:00:00+00"],
    }.items():
        batch = pa.record_batch({"w": pa.array([winter, summer], pa.timestamp("us", zone))})
        assert evaluate(batch, col("w").cast(pa.string())).column(0).to_pylist() == expected


@pytest.mark.parametrize("zone", ZONES[:4])
def test_text_as_an_instant(zone: str) -> None:
    """Text is local time, or has an offset from UTC. Constants and columns give the same."""
    texts = ["2024-07-01 03:30", "2024-07-01T03:30:00.5+02", "2024-07-01 03:30:00-0530", "2024-07-01 03:30Z",
             "2024-07-01", None]  # fmt: skip
    here = ZoneInfo(zone)
    expected = [
        dt.datetime(2024, 7, 1, 3, 30, tzinfo=here),
        dt.datetime(2024, 7, 1, 1, 30, 0, 500_000, tzinfo=UTC),
        dt.datetime(2024, 7, 1, 9, 0, tzinfo=UTC),
        dt.datetime(2024, 7, 1, 3, 30, tzinfo=UTC),
        dt.datetime(2024, 7, 1, tzinfo=here),
        None,
    ]
    there = pa.timestamp("us", zone)
    for type_ in (pa.string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        batch = pa.record_batch({"s": pa.array(texts, pa.string()).cast(type_)})
        assert evaluate(batch, col("s").cast(there)).column(0).to_pylist() == expected
    for text, when in zip(texts, expected, strict=True):
        assert evaluate(batch, lit(text, pa.string()).cast(there)).column(0).to_pylist() == [when] * len(texts)


@pytest.mark.parametrize("zone", ["Europe/Paris", "Asia/Kolkata"])
def test_constants_of_local_time_beside_instants(zone: str) -> None:
    """Constants are compared in local time, as columns are."""
    local = dt.datetime(2024, 7, 1, 3, 30)
    when = local.replace(tzinfo=ZoneInfo(zone))
    table = pa.table({"w": pa.array([when, when - HOUR], pa.timestamp("us", zone))})
    for text in ("w = timestamp '2024-07-01 03:30'", "w >= '2024-07-01 03:30'", "w > timestamp '2024-07-01 03:29:59'"):
        found = qcore.sql(f"select w from t where {text}", {"t": table}, time_zone=zone).to_arrow()
        assert found["w"].to_pylist() == [when], text
    from qcore.optimizer.simplify import simplify

    constant = lit(local, pa.timestamp("us")).cast(pa.timestamp("us", zone))
    assert repr(simplify(constant, pa.schema([]))) == str(when)


@pytest.mark.parametrize("zone", ZONES[:4])
def test_local_time_as_an_instant(zone: str) -> None:
    """A local time that occurs twice is the later instant. One that is skipped moves forward by the skipped time."""
    local = [when and when.replace(tzinfo=None) for when in instants()]
    batch = pa.record_batch({"w": pa.array(local, pa.timestamp("us"))})
    got = evaluate(batch, col("w").cast(pa.timestamp("us", zone))).column(0).to_pylist()

    def instant(when: dt.datetime) -> dt.datetime:
        here = ZoneInfo(zone)
        early, late = (when.replace(tzinfo=here, fold=fold).astimezone(UTC) for fold in (0, 1))
        # In a gap, fold 0 means the offset before the gap, which gives a later time.
        return late if late.astimezone(here).replace(tzinfo=None) == when else early

    assert [when and when.astimezone(UTC) for when in got] == [when and instant(when) for when in local]


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Asia/Kolkata"])
def test_truncation_is_of_local_time(zone: str) -> None:
    def start_of_day(when: dt.datetime) -> dt.datetime:
        return when.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0)

    def start_of_month(when: dt.datetime) -> dt.datetime:
        return start_of_day(when).replace(day=1)

    for unit, start in {"day": start_of_day, "month": start_of_month}.items():
        expected = [when and start(when) for when in instants()]
        assert values_of(zone, call("date_trunc", lit(unit), col("w"))) == expected


@pytest.mark.parametrize(
    ("zone", "night"),
    [("Europe/Berlin", (2021, 10, 31)), ("Europe/Berlin", (2021, 3, 28)), ("Australia/Lord_Howe", (2021, 4, 4)),
     ("America/New_York", (2021, 11, 7)), ("Africa/Monrovia", (1972, 1, 7))],
)  # fmt: skip
def test_truncation_where_a_clock_is_set_back(zone: str, night: tuple[int, int, int]) -> None:
    """A local time occurs twice. Truncation below an hour keeps it the first or the second."""
    middle = int(dt.datetime(*night, tzinfo=dt.UTC).timestamp())
    instants = pa.array([(middle + n * 607) * 10**6 + 7 for n in range(-150, 150)], pa.timestamp("us", zone))
    table = pa.table({"x": instants})
    duck = duckdb.connect()
    duck.execute(f"set timezone = '{zone}'")
    duck.register("t", table)
    for unit in ("millisecond", "second", "minute", "hour", "day"):
        query = f"select date_trunc('{unit}', x) as y from t"
        found = qcore.sql(query, {"t": table}, threads=1).to_arrow()
        expected = duck.sql(query).to_arrow_table()
        assert found["y"].cast(pa.int64()).to_pylist() == expected["y"].cast(pa.int64()).to_pylist(), unit


def test_months_and_days_move_the_clock_and_hours_the_instant() -> None:
    zone = "Europe/Paris"
    interval = pa.month_day_nano_interval()
    before = dt.datetime(2024, 3, 30, 12, tzinfo=ZoneInfo(zone))
    batch = pa.record_batch({"w": pa.array([before], pa.timestamp("us", zone))})
    moved = {
        (0, 1, 0): dt.datetime(2024, 3, 31, 12, tzinfo=ZoneInfo(zone)),
        (1, 0, 0): dt.datetime(2024, 4, 30, 12, tzinfo=ZoneInfo(zone)),
        (0, 0, 24 * 3600 * 10**9): dt.datetime(2024, 3, 31, 13, tzinfo=ZoneInfo(zone)),
        (0, 1, 3600 * 10**9): dt.datetime(2024, 3, 31, 13, tzinfo=ZoneInfo(zone)),
    }
    for by, expected in moved.items():
        assert evaluate(batch, col("w") + lit(pa.MonthDayNano(by), interval)).column(0).to_pylist() == [expected]
    back = evaluate(batch, col("w") - lit(pa.MonthDayNano((0, 0, 3600 * 10**9)), interval)).column(0).to_pylist()
    assert back == [before - HOUR]


SPANS = [
    "6 months 4 days 4 hours",
    "1 month 1 day",
    "-1 month 26 hours",
    "3 days -2 hours",
    "2 months 30 days",
    "-49 hours",
]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
def test_intervals_over_a_change_of_clocks(zone: str) -> None:
    """Q3: hours are added last if all parts are positive, else first.

    Where a local time occurs twice, days have 24 hours.
    """
    days = ((1, 31), (2, 29), (3, 31), (4, 28), (5, 3), (8, 6), (9, 4), (10, 27), (11, 3))
    hours = [dt.datetime(2024, month, day, hour, 30, tzinfo=UTC) for month, day in days for hour in range(24)]
    table = pa.table({"x": pa.array([*hours, None], pa.timestamp("us", zone))})
    duck = duckdb.connect()
    duck.execute(f"set timezone = '{zone}'")
    duck.register("t", table)
    for span in SPANS:
        query = f"select x + interval '{span}' as a, x - interval '{span}' as b from t"
        found = qcore.sql(query, {"t": table}, threads=1).to_arrow()
        expected = duck.sql(query).to_arrow_table()
        for name in ("a", "b"):
            assert found[name].cast(pa.int64()) == expected[name].cast(pa.int64()), (span, name)


def test_intervals_of_a_column_move_instants() -> None:
    """Q3: for instants in UTC hours are added first if a part is negative, for local times never."""
    spans = [(-1, -1, -5 * 3600 * 10**9), (1, 1, 5 * 3600 * 10**9), (0, 1, -3600 * 10**9), (-6, 4, 4 * 3600 * 10**9)]
    when = dt.datetime(2024, 3, 1, 2)
    table = pa.table({
        "x": pa.array([when.replace(tzinfo=UTC)] * len(spans), pa.timestamp("us", "UTC")),
        "y": pa.array([when] * len(spans), pa.timestamp("us")),
        "span": pa.array(map(pa.MonthDayNano, spans), pa.month_day_nano_interval()),
    })  # fmt: skip
    duck = duckdb.connect()
    duck.execute("set timezone = 'UTC'")
    duck.register("t", table)
    query = "select x + span as a, x - span as b, y + span as c, y - span as d from t"
    found, expected = qcore.sql(query, {"t": table}, threads=1).to_arrow(), duck.sql(query).to_arrow_table()
    assert [c.cast(pa.int64()) for c in found.columns] == [c.cast(pa.int64()) for c in expected.columns]


def test_in_sql() -> None:
    table = pa.table({"w": pa.array(instants(), pa.timestamp("us", "Europe/Paris")), "v": range(len(instants()))})
    query = "select cast(w as date) as d, extract(hour from w) as h, count(*) as n, min(v) as v from t group by 1, 2"
    expected: dict[Any, list[int]] = {}
    for v, when in enumerate(instants()):
        local = when and when.astimezone(ZoneInfo("Europe/Paris"))
        expected.setdefault((local and local.date(), local and local.hour), []).append(v)
    got = qcore.sql(query, {"t": table}).to_arrow().to_pylist()
    assert {(row["d"], row["h"]): (row["n"], row["v"]) for row in got} == {
        key: (len(values), min(values)) for key, values in expected.items()
    }


def test_at_time_zone() -> None:
    """AT TIME ZONE of SQL converts a local time to an instant, and an instant to a local time."""
    noon = dt.datetime(2024, 7, 1, 12)
    instant = pa.array([noon.replace(tzinfo=UTC)], pa.timestamp("us", "UTC"))
    table = pa.table({"n": pa.array([noon], pa.timestamp("us")), "w": instant})
    query = """select extract(hour from w at time zone 'Asia/Tokyo') as shown,
                      extract(epoch from n at time zone 'Asia/Tokyo') as instant from t"""
    expected = {"shown": 21, "instant": dt.datetime(2024, 7, 1, 3, tzinfo=UTC).timestamp()}
    assert qcore.sql(query, {"t": table}).to_arrow().to_pylist() == [expected]


@pytest.mark.parametrize(
    "listed",
    [
        "w at time zone 'Asia/Tokyo' as a, w at time zone 'Europe/Paris' as b, n at time zone 'Europe/Paris' as c",
        "n at time zone 'Europe/Paris' at time zone 'America/New_York' as a",
        "(n + interval '1 day') at time zone 'Asia/Tokyo' = w as a, n = w at time zone 'UTC' as b",
        "w = timestamptz '2024-01-31 22:30:00+00' as a, w > timestamptz '2024-07-01 00:00:00+02' as b",
        "w between timestamptz '2024-01-01' and timestamp with time zone '2024-12-31 00:00:00-05' as a",
        "n::timestamptz at time zone 'Asia/Tokyo' as a, cast(n as timestamptz) = w as b",
        "n::timestamp with time zone at time zone 'Asia/Tokyo' as a, n::timestamptz as b",
        "timestamp '2024-07-01 08:00:00' at time zone 'America/New_York' = timestamptz '2024-07-01 12:00:00Z' as a",
        "timestamptz '2024-07-01 12:00:00Z' at time zone 'America/New_York' as a",
        "timestamp '2024-07-01 08:00:00' at time zone 'America/New_York' as a",
        "t.n at time zone 'Asia/Tokyo' as a, coalesce(t.n, n) at time zone 'Asia/Tokyo' as b",
        "case when n > timestamp '2024-03-01' then n end at time zone 'Asia/Tokyo' as a",
        "extract(hour from w at time zone 'Asia/Tokyo') + 1 as a, date_trunc('day', w at time zone 'Asia/Tokyo') as b",
        "max(w at time zone 'Asia/Tokyo') over () as a, (w at time zone 'Asia/Tokyo')::date as b",
        "cast(w at time zone 'Asia/Tokyo' as varchar) as a, timezone('Asia/Tokyo', n) as b",
        "date_diff('microsecond', n::date, n) as a, date_diff('millisecond', n, timestamp '2024-01-01') as b",
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_sql_as_duckdb(listed: str, zone: str) -> None:
    """Instants compared with constants, and AT TIME ZONE both ways, in sessions with several zones."""
    text = f"select {listed} from t"
    moments = [when and when.replace(tzinfo=None) for when in instants()]
    table = pa.table({"w": pa.array(instants(), pa.timestamp("us", "UTC")), "n": pa.array(moments, pa.timestamp("us"))})
    connection = duckdb.connect()
    connection.execute(f"set timezone = '{zone}'")
    connection.register("t", table)
    found = qcore.sql(text, {"t": table}, time_zone=zone).to_arrow()
    assert_same_rows(found, connection.sql(text).to_arrow_table())


def test_differences_finer_than_the_values() -> None:
    days = pa.array([dt.date(2024, 1, 1)])
    table = pa.table({"d": days, "s": days.cast(pa.timestamp("s")), "u": days.cast(pa.timestamp("us"))})
    listed = ", ".join(
        f"date_diff('{unit}', {c}, {c} + interval '2 seconds') as {unit}_{c}"
        for c in "su"
        for unit in ("millisecond", "microsecond", "nanosecond")
    )
    row = qcore.sql(f"select {listed} from t", {"t": table}).to_arrow().to_pylist()[0]
    assert list(row.values()) == [2 * 10**3, 2 * 10**6, 2 * 10**9] * 2
    query = "select date_diff('millisecond', d, d + 1) as x from t"
    assert qcore.sql(query, {"t": table}).to_arrow().to_pylist() == [{"x": 86_400_000}]


def test_zones_are_named() -> None:
    with pytest.raises(qcore.PlanError, match="no time zone 'Mars/Olympus'"):
        qcore.sql("select timestamp '2024-01-01' at time zone 'Mars/Olympus'")
    with pytest.raises(qcore.PlanError, match="zone's name as a text literal"):
        qcore.sql("select timestamp '2024-01-01' at time zone z from t", {"t": pa.table({"z": ["UTC"]})})
