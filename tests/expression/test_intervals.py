"""Intervals that are compared, ordered, grouped and joined: by their length, as in DuckDB. SPEC Q2, Q3."""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

N = 400
T = pa.table({
    "i": pa.array([None if i % 11 == 5 else i * 7 % 53 - 20 for i in range(N)], pa.int64()),
    "id": pa.array(range(N), pa.int64()),
    "ts": [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=i * 13 % 97) for i in range(N)],
})  # fmt: skip
# Each length in several spellings: 30 days, a month, 720 hours.
V = """(select id, i, case id % 3 when 0 then to_days(i * 10) when 1 then to_hours(i * 240)
    else to_months(i // 3) end as v from t)"""
QUERIES = [
    "select interval '1 month' > interval '29 days' as a, interval '1 month' = interval '30 days' as b",
    "select interval '1 month -1 day' = interval '29 days' as a, interval '-1 hour' < interval '0 days' as b",
    "select interval '1 day' <> interval '24 hours' as a, interval '1 day' is distinct from null as b",
    f"select count(*) as n, count(distinct v) as d from {V} group by v",
    f"select count(*) as n from (select distinct v from {V})",
    f"select epoch(v) as e, count(*) as n, sum(id) as s from {V} group by v",
    f"select epoch(v) as e, count(*) as n from {V} group by rollup(v)",
    f"select epoch(max(v)) as a, epoch(min(v)) as b from {V}",
    f"select id % 5 as g, epoch(max(v)) as a, epoch(min(v) filter (where i > 3)) as b from {V} group by g",
    f"select count(*) as n from {V} a join {V} b on a.v = b.v",
    f"select count(*) as n from {V} a join {V} b on a.v > b.v and a.id % 7 = b.id % 7",
    f"select count(*) as n from {V} a left join {V} b on a.v is not distinct from b.v and b.id < 50",
    f"select count(*) as n from (select v from {V} intersect select to_days(i) from t)",
    f"select count(*) as n from (select v from {V} except select to_days(i) from t)",
    f"select count(*) as n from (select v from {V} except all select to_days(i) from t)",
    f"select count(*) as n from (select v from {V} union select to_days(i) from t)",
    f"select id, rank() over (order by v) as r, dense_rank() over (partition by id % 2 order by v desc) as d from {V}",
    f"select id, sum(id) over (partition by v) as s from {V}",
    "select i from t where to_days(i) in (interval '24 hours', interval '2 days')",
    "select i from t where to_days(i) in (select to_hours(24 * id) from t)",
    "select i from t where to_days(i) between interval '24 hours' and interval '50 hours'",
    "select id, epoch(greatest(to_days(i), interval '2 days')) as a, epoch(least(to_days(i), interval '2 days')) as b,"
    " epoch(nullif(to_days(i), interval '48 hours')) as c from t",
    "select id, case when to_days(i) = interval '24 hours' then 1 else 0 end as a from t",
    f"select string_agg(cast(id as varchar), ',' order by v, id) as a from {V}",
    f"select arg_max(id, v) as a from {V} where i > 0 and id < 30",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("threads", [1, 4])
def test_q3_as_duckdb(query: str, threads: int) -> None:
    duck = duckdb.connect()
    duck.register("t", T)
    actual = qcore.sql(query, {"t": T}, threads=threads, dialect="duckdb").to_arrow()
    assert_same_rows(actual, duck.sql(query).to_arrow_table())


def test_q3_sorted() -> None:
    """All rows in order, and the first rows with a limit."""
    query = f"select id from {V} where v is not null order by v desc, id"
    duck = duckdb.connect()
    duck.register("t", T)
    for text in (query, f"{query} limit 7", f"{query} limit 7 offset 20"):
        rows = qcore.sql(text, {"t": T}, dialect="duckdb").to_arrow()
        assert rows["id"].to_pylist() == [id for (id,) in duck.sql(text).fetchall()]


def test_q3_a_group_shows_one_of_its_intervals() -> None:
    """The value is one of the group's, and not the one used for comparisons."""
    query = (
        "select v, count(*) as n from (values (interval '40 days'), (interval '40 days'), (null)) as x(v) group by v"
    )
    rows = qcore.sql(query, {}).to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["n"]) == [
        {"v": None, "n": 1},
        {"v": pa.MonthDayNano([0, 40, 0]), "n": 2},
    ]
