"""Operators, and rows compared with subqueries, against DuckDB. SPEC Q1, Q2."""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest

import qcore

T = pa.table(
    {
        "i": [1, 2, None, 3],
        "s": ["a", " b ", None, "xcx"],
        "dt": [datetime.date(1, 2, 3), datetime.date(9999, 12, 31), None, datetime.date(2024, 2, 29)],
        "tm": [datetime.time(1), datetime.time(2, 30), None, datetime.time(3, 0, 0, 1)],
    }
)
U = pa.table({"x": [1, 2, None], "y": ["a", "b", None]})
TABLES = {"t": T, "u": U}


def rows(text):
    result = qcore.sql(text, TABLES, threads=2).to_arrow()
    return sorted(map(repr, zip(*(column.to_pylist() for column in result.columns), strict=True)))


def expected(text):
    connection = duckdb.connect()
    for name, table in TABLES.items():
        connection.register(name, table)
    return sorted(map(repr, connection.sql(text).fetchall()))


@pytest.mark.parametrize(
    "text",
    [
        "select i from t where i is distinct from 2 and s = 'a'",
        "select i from t where i is not distinct from 2 or s = 'a'",
        "select i is distinct from 2 q, s from t",
        "select case when i is distinct from 2 then 1 else 0 end as a from t where not i is not distinct from 3",
        "select i + 1 is distinct from 2 + 1 and s = 'a' or i = 3 as a from t",
        "select i between 1 and 2 is distinct from true as a from t",
        "select i from t left join u on i is not distinct from x where y is distinct from 'b' order by i limit 3",
        "select i, count(*) from t group by i having i is distinct from 2 and count(*) = 1 order by i",
        "select 1 as a from t having bool_or(i > 1) filter (where i < 3) is not distinct from true",
        "select s from t where starts_with(s, 'a') or starts_with('a_%' || s, 'a_%x') or starts_with(s, '%')",
        "select i from t where i not in (1) or i not in (2)",
        "select i from t where not (i in (1, 2) and i in (3))",
        "select i in (1, 2) and i in (3) as a, (i in (1) or s = 'a') and i in (2, 3) as b from t",
        "select s from t where (i in (1) and i in (2)) is null",
        "select mode(s order by s) as a, mode(s order by s desc) as b, mode(s order by i desc) as c from t",
        "select c.n from (select cast(null as decimal(15, 2)) as n from t where (select min(i) from t) not between "
        "null::int and null::int) c group by grouping sets ((c.n)) having null::int < min(1)",
        "select n, count(*) from (select i + 0.5 as n from t where (select min(x) from u) between 1 and 2 "
        "and 1 / 4.0 > 0) c group by grouping sets ((n)) having min(1) > 0",
        "select i from t where extract(year from dt) in (-3, 2024) or extract(year from dt) <> 9999",
        "select i from t where extract(year from dt) > 9998 or extract(year from dt) < -3 or extract(year from dt) = 1",
        "select lead(1::decimal(9, 0), 1, -100::decimal(9, 0)) over (order by i) as a from t",
        "select lag(i + 0.5, 2, 1234.25) over (order by i) as a from t",
        "with w as (select null::int - null::int as n from t where null::date not in (select null::date from u)), "
        "v as (select null::boolean as b from w group by w.n, w.n) select 1 as a from v where v.b",
        "select i is null as a from (select i, s from t where 5 not in (select x from u where x > 0)) q group by i, i",
        "with w as (select s, count(*) as n from t group by grouping sets ((s))) select distinct n from w "
        "where null::int not in (select n from w where n > 100)",
        "select concat(s, null::text) as a, concat(null::text, null) as b from t",
        "select trim(from ' x ') as a, trim(both from ' x ') as b, trim(leading from s) as c from t",
        "select trim(both 'x' from s) as a, trim(trailing 'x' from s) as b from t",
        "select if(i = 1, 'one', 'more') as a from t",
        "select arg_max(s, i) as a, min_by(i, s) as b from t",
        "select first(i order by i desc) as a, list(i order by i) as b from t where i > 0",
        "select i, count(*) from t group by all order by all desc",
        "with a as (select i from t), first(i) as (select i from a), list(x) as (select 1) select * from first, list",
        "select i from t where tm = cast('01:00:00' as time)",
        "select tm < time '02:30:00' as a, tm from t",
        "select max(tm) as a from t where tm > '01:30:00'",
    ],
)
def test_as_duckdb(text):
    assert rows(text) == expected(text)


@pytest.mark.parametrize(
    "text",
    [
        "select i from t where (i, s) in (select x, y from u)",
        "select i from t where (i, s) not in (select x, y from u)",
        "select i from t where (i, s) not in (select x, y from u where x is not null)",
        "select i from t where (i, s) not in (select x, y from u where x is not null) and i > 0",
        "select i from t where not ((i, s) in (select x, y from u where x is not null))",
        "select i from t where (i, s) in (select x, y from u) or i = 3",
        "select i from t where ((i, s) in (select x, y from u)) is null",
        "select i from t where (i, 'a') in (values (1, 'a'), (3, 'b'))",
        "select i from t where (i + 1, trim(s)) not in (select x, y from u where y is not null)",
        "select i from t where (i, s, 1) in (select x, y, 1 from u) order by i limit 1",
        "select i from t where (i, s) not in (select x, y from u where false)",
        "select i from t where 5 not in (select x from u)",
        "select i from t where 5 not in (select x from u where x is not null) and s = 'a'",
        "select i from t where null not in (select x from u)",
        "select i from t where null not in (select x from u where x > 100)",
        "select i from t where not (1 + 4 in (select x + 1 from u)) or i = 1",
        "select i from t where 3 not in (select null::int)",
        "select i from t where null::int not in (select null::int)",
        "select i from t where 'a AND b' not in (select y from u where y is not null)",
        "select i from t where (5 not in (select x from u)) is null",
        "select i from t where i not in (select null::bigint from u where u.x > t.i)",
    ],
)
def test_rows_in_subqueries(text):
    """A comparison of rows with nulls is null unless another column differs."""
    assert rows(text) == expected(text)


@pytest.mark.parametrize(
    "text",
    [
        "select i, exists (select 1 from u where x = i) as a from t",
        "select i, not exists (select 1 from u where x = i) and i < 3 as a from t",
        "select case when exists (select * from u where x = i and y = s) then 1 else 0 end as a from t",
        "select exists (select 1 from u where x > 5) as a",
    ],
)
def test_exists_in_a_select_list(text):
    assert rows(text) == expected(text)


def test_a_group_of_which_no_row_counts_has_no_first_value():
    """A driver may keep no values for any of its groups."""
    text = "select i, arg_max(s, i) as a, array_agg(s) filter (where s is not null) as b from t group by i"
    assert rows(text) == expected(text)
