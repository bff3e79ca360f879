"""A session's time zone, in which timestamps with a time zone are read. Compared with DuckDB and zoneinfo. SPEC Q3."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from oracle import assert_same_rows

ZONES = ["America/New_York", "Europe/Paris", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]
UTC = dt.UTC
TEXTS = [
    "2024-07-01 03:30:00",
    "2024-07-01 03:30:00+02",
    "2024-01-01T23:59:59.5Z",
    "2024-03-10 02:30:00",
    "2024-11-03 01:30:00",
    "2024-03-31",
    "2024-12-31 20:00:00-05:30",
    None,
]


def rows() -> pa.Table:
    """Instants around changes of clocks, under two zones; local times; texts with and without words on zones."""
    starts = [dt.datetime(2024, 3, 10, 5), dt.datetime(2024, 10, 26, 22), dt.datetime(2024, 11, 3, 4)]
    found: list[Any] = [start.replace(tzinfo=UTC) + i * dt.timedelta(minutes=47) for start in starts for i in range(13)]
    found.append(None)
    return pa.table({
        "id": range(len(found)),
        "w": pa.array(found, pa.timestamp("us", "UTC")),
        "tokyo": pa.array(found, pa.timestamp("us", "Asia/Tokyo")),
        "local": pa.array([when and when.replace(tzinfo=None) for when in found], pa.timestamp("us")),
        "s": [TEXTS[i % len(TEXTS)] for i in range(len(found))],
    })  # fmt: skip


QUERIES = {
    "parts": "select id, year(w) y, month(w) m, day(w) d, hour(w) h, minute(w) mi, extract(dow from w) dow, "
    "extract(epoch from w) e, hour(tokyo) ht from t",
    "casts": "select id, cast(w as timestamp) a, cast(w as date) b, cast(w as varchar) c, cast(tokyo as varchar) d, "
    "cast(cast(w as timestamp) as timestamptz) e from t",
    "texts": "select id, cast(s as timestamptz) a, hour(cast(s as timestamptz)) h from t",
    "local times": "select id, cast(local as timestamptz) a, cast(cast(local as date) as timestamptz) b from t",
    "truncation": "select id, date_trunc('day', w) a, date_trunc('hour', tokyo) b, date_trunc('month', w) c from t",
    "literals": "select hour(timestamptz '2024-07-01 03:30') a, hour(timestamptz '2024-07-01 03:30+02') b, "
    "timestamptz '2024-07-01 03:30' c, cast(timestamptz '2024-07-01 03:30Z' as date) d, "
    "hour(timestamp '2020-01-01 00:00') e",
    "sums": "select id, w + interval '1 month' a, w - interval '1 day' b, tokyo + interval '90 minutes' c from t",
    "comparisons": "select id, w = local a, w > date '2024-10-27' b, w < timestamp '2024-10-27 01:30' c, w = tokyo d "
    "from t",
    "conditions": "select id from t where w >= timestamptz '2024-10-27 02:00' and hour(w) between 1 and 9",
    "at time zone": "select id, w at time zone 'Asia/Tokyo' a, hour(w at time zone 'Asia/Tokyo') b, "
    "local at time zone 'Asia/Tokyo' c, hour(local at time zone 'Asia/Tokyo') d from t",
    "groups": "select cast(w as date) d, count(*) n, min(w) a, max(tokyo) b from t group by cast(w as date)",
    "joins": "select a.id, b.id other from t a join t b on a.w = b.tokyo where hour(a.w) < 4 order by a.id",
    "unions": "select w from t where id < 3 union all select tokyo from t where id < 3",
    "windows": "select id, lag(w) over (order by id) l, date_diff('day', w, max(w) over ()) d from t",
    "subqueries": "select id, (select max(u.w) from t u where hour(u.w) = hour(t.tokyo)) m from t",
    "lists": "select id, list_transform([w, tokyo], lambda x: hour(x)) h from t",
    "values": "select v, hour(v) h from (values (timestamptz '2024-07-01 03:30'), "
    "(timestamptz '2024-07-01 03:30+02'), (null)) as u(v)",
    "case": "select id, coalesce(w, timestamptz '2024-01-01 00:00') a, case when hour(w) = 1 then tokyo end b from t",
}


@pytest.mark.each_value
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_as_duckdb_in_the_zone(query: str, zone: str) -> None:
    """Q3."""
    table = rows()
    duck = duckdb.connect()
    duck.execute(f"set timezone = '{zone}'")
    duck.register("t", table)
    expected = duck.sql(query).to_arrow_table()
    found = qcore.sql(query, {"t": table}, threads=2, time_zone=zone).to_arrow()
    assert_same_rows(found, expected)
    zones = {type_.tz for type_ in found.schema.types if pa.types.is_timestamp(type_) and type_.tz}
    assert zones <= {zone}, "every timestamp with a time zone has the session's"


def test_by_default_columns_keep_their_zones() -> None:
    query = "select hour(w) a, hour(tokyo) b, tokyo, timestamptz '2024-07-01 03:30' c from t where id = 0"
    found = qcore.sql(query, {"t": rows()}, threads=1).to_arrow()
    assert found.select(["a", "b"]).to_pylist() == [{"a": 5, "b": 14}]
    assert [type_.tz for type_ in found.schema.types[2:]] == ["Asia/Tokyo", "UTC"]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_filters_leave_out_no_row_group_they_need(tmp_path: Path, zone: str) -> None:
    """Bounds of row groups are instants, and constants may be local times."""
    path = str(tmp_path / "t.parquet")
    pq.write_table(rows().drop_columns(["s"]), path, row_group_size=3)
    duck = duckdb.connect()
    duck.execute(f"set timezone = '{zone}'")
    for condition in (
        "w >= timestamp '2024-03-10 08:00' and w < timestamp '2024-03-10 09:00'",
        "w > date '2024-10-27'",
        "w < cast('2024-10-27 01:30' as timestamptz)",
        "cast(w as date) = date '2024-10-26'",
        "cast(w as timestamp) between timestamp '2024-11-03 00:00' and timestamp '2024-11-03 02:00'",
        "local < timestamptz '2024-03-10 08:00'",
        "w in (timestamptz '2024-03-10 00:00', cast('2024-03-10 05:00+00' as timestamptz))",
    ):
        for given in ({"time_zone": zone}, {}):
            expected = duck.sql(f"select id from '{path}' where {condition}").to_arrow_table()
            if not given:
                expected = duckdb_in_utc(f"select id from '{path}' where {condition}")
            found = qcore.sql(f"select id from t where {condition}", {"t": path}, threads=1, **given).to_arrow()
            assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist()), (condition, given)


def duckdb_in_utc(query: str) -> pa.Table:
    duck = duckdb.connect()
    duck.execute("set timezone = 'UTC'")
    return duck.sql(query).to_arrow_table()


def test_the_moment_of_the_query() -> None:
    """25 hours lie between the clocks of Kiritimati and Pago Pago."""
    found = {}
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        query = "select now() as n, current_date as d, cast(now() as date) as e, hour(now()) as h"
        before = dt.datetime.now(UTC)
        (row,) = qcore.sql(query, threads=1, time_zone=zone).to_arrow().to_pylist()
        after = dt.datetime.now(UTC)
        days = {when.astimezone(ZoneInfo(zone)).date() for when in (before, after)}
        hours = {when.astimezone(ZoneInfo(zone)).hour for when in (before, after)}
        assert row["d"] in days and row["e"] in days and row["h"] in hours
        found[zone] = row["d"]
    assert found["Pacific/Kiritimati"] > found["Pacific/Pago_Pago"]


def test_nested_instants() -> None:
    when = dt.datetime(2024, 7, 1, 3, 30, tzinfo=UTC)
    stamp = pa.timestamp("us", "UTC")
    table = pa.table({
        "l": pa.array([[when, None]], pa.list_(stamp)),
        "s": pa.array([{"a": {"b": when}, "c": 1}], pa.struct([("a", pa.struct([("b", stamp)])), ("c", pa.int64())])),
        "m": pa.array([[("k", when)]], pa.map_(pa.string(), stamp)),
    })  # fmt: skip
    found = qcore.sql(
        "select l, s, m, hour(l[1]) as h from t", {"t": table}, threads=1, time_zone="America/New_York"
    ).to_arrow()
    there = pa.timestamp("us", "America/New_York")
    assert found.schema.field("l").type.value_type == there
    assert found.schema.field("s").type.field("a").type.field("b").type == there
    assert found.schema.field("m").type.item_type == there
    assert found["h"].to_pylist() == [23]
    assert found["l"].to_pylist() == [[when, None]] and found["s"].to_pylist() == [{"a": {"b": when}, "c": 1}]


def test_sessions() -> None:
    """Of views, files, tables that queries make, and Substrait."""
    session = qcore.Session(threads=1, time_zone="America/New_York")
    session.register("t", rows())
    session.sql("create view v as select id, hour(w) as h, w from t")
    first = session.sql("select h, w from v where id = 0").to_arrow()
    assert first["h"].to_pylist() == [0] and first.schema.field("w").type.tz == "America/New_York"
    session.sql("create table kept as select w from t").to_arrow()
    assert session.sql("select hour(w) as h from kept limit 1").to_arrow()["h"].to_pylist() == [0]
    assert session.time_zone == "America/New_York"


@pytest.mark.parametrize("zone", ["Amerika/New_York", "", "+5", "New York", 5])
def test_unknown_zones_are_refused(zone: Any) -> None:
    with pytest.raises(qcore.PlanError, match="there is no time zone"):
        qcore.Session(time_zone=zone)


def test_offsets_are_zones() -> None:
    query = "select hour(timestamptz '2024-07-01 00:00Z') as h, cast(timestamptz '2024-07-01 00:00Z' as varchar) as s"
    found = qcore.sql(query, threads=1, time_zone="+05:30").to_arrow()
    assert found.to_pylist() == [{"h": 5, "s": "2024-07-01 05:30:00+05:30"}]


def test_spark_s_timestamps_are_instants() -> None:
    """With a zone in Spark's dialect TIMESTAMP is TIMESTAMP_LTZ; without one all is as before."""
    text = (
        "select hour(timestamp '2020-01-01 00:00') as h, unix_timestamp(timestamp '1970-01-01 00:00') as u, "
        "timestamp_seconds(0) as s, cast(local as timestamp) as l, cast(w as timestamp_ntz) as n, w as timestamp "
        "from t where id = 0"
    )
    found = qcore.sql(text, {"t": rows()}, threads=1, dialect="spark", time_zone="America/New_York").to_arrow()
    zone = pa.timestamp("us", "America/New_York")
    assert found.schema.types[2:] == [zone, zone, pa.timestamp("us"), zone]
    (row,) = found.to_pylist()
    assert (row["h"], row["u"]) == (0, 18000)
    assert row["s"] == dt.datetime(1970, 1, 1, tzinfo=UTC) and row["n"] == dt.datetime(2024, 3, 10, 0, 0)
    before = qcore.sql(text.replace("timestamp_ntz", "timestamp"), {"t": rows()}, threads=1, dialect="spark").to_arrow()
    assert before.schema.types[2:5] == [pa.timestamp("us")] * 3 and before["u"].to_pylist() == [0]
