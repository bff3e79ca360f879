"""Rules of the planner that a query is planned without: what may fail is computed of rows that are asked. SPEC Q1."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

TABLES = {
    "a": pa.table({"id": [1, 2, 3], "x": [1, 2, 3]}),
    "b": pa.table({"id": [1, (1 << 63) - 1, 5], "x": [7, 8, 9]}),
}


@pytest.mark.parametrize(
    "query",
    [
        "select * from a join b on a.id = b.id where 2 >= a.id + 1",
        "select * from a join b using (id) where a.id + 1 <= 2",
        "select * from a join b on a.id = b.id and 2 >= a.id + 1",
        "select * from a left join b on a.id = b.id where 2 >= a.id + 1",
        "select * from b right join a on a.id = b.id where a.id * 2 <= 2",
        "select * from a, b where a.id = b.id and -2 - a.id >= -3",
        "select * from a where a.id in (select id from b) and 2 >= a.id + 1",
        "select * from a where exists (select 1 from b where b.id = a.id) and a.id + 1 <= 2",
        "select * from (select a.id as k from a join b on a.id = b.id) x where x.k + 1 <= 2",
        "with c as (select id as k from a) select * from c join b on c.k = b.id where k * 2 <= 2",
        "select * from a join b on a.id = b.id where abs(a.id) + 1 <= 2",
    ],
)
def test_conditions_are_computed_of_their_own_side(query: str) -> None:
    """Q1: of the equal key of the other side they would overflow, on a row that meets none."""
    database, session = duckdb.connect(), qcore.Session(threads=1)
    for name, table in TABLES.items():
        database.register(name, table)
        session.register(name, table)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())


NEVER_NULL = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    "query",
    [
        "select coalesce((select 8 where false), 4) as x",
        "select (select 8 where false) is null as x",
        "select k, coalesce((select v from t u where u.k = t.k + 1), -1) as x from t",
        "select k from t where (select v from t u where u.k = t.k + 1) is null",
        "select k from t where (select v from t where k = 99) is not null or k = 1",
        "select coalesce((select max(v) from t where false), 4) as x, (select count(*) from t where false) as c",
        "select k, (select v from t u where u.k = t.k + 1) is not distinct from null as x from t",
        "select nullif((select v from t where k = 99), 1) is null as x",
        "select case when (select v from t where k = 99) = 1 then 1 else 2 end as x from t",
        "select t.k from t left join t u on t.k = u.k + 1 where u.k is null",
        "select t.k, coalesce(u.k, -1) as x from t left join t u on t.k = u.k + 1",
        "select t.k, u.v is null as x from t full join (select k + 2 as k, v from t) u on t.k = u.k",
        "select k from t where k not in (select v from t where k = 99)",
        "select k from t where k <> all (select v from t where k = 99)",
        "select sum(v) is null as x, coalesce(min(k), 0) as y from t where k > 99",
        "select lag(v) over (order by k) is null as x, coalesce(lag(v) over (order by k), 0) as y from t",
        "select k, grouping(k) as g, k is null as x from t group by rollup (k)",
    ],
)
def test_what_is_never_null_may_be_missing(query: str) -> None:
    """Q3: a subquery without rows, the other side of an outer join and an aggregate of no rows give null."""
    table = pa.table({"k": [1, 2, 3], "v": [10, 20, 30]}, schema=NEVER_NULL)
    database, session = duckdb.connect(), qcore.Session(threads=1)
    database.register("t", table)
    session.register("t", table)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())
