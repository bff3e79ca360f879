"""Joins, USING, NATURAL and LATERAL, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS, check, rows

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select * from t join u using (a)",
        "select a, x.d from t full join u x using (a)",
        "select a, t.c, u.d from t right join u using (a)",
        "select t.a from t natural join u",
        "select a from t semi join u using (a)",
        "select a from t anti join u using (a)",
        "select * from (t join u on t.a = u.a) where d > 10",
        "select count(*) from t, u where t.a = u.a",
        "select t.a, u.d from t cross join u",
        "select t.a, q.d from t, lateral (select d from u where u.a = t.a) q",
        "select t.a, q.d from t left join lateral (select d from u where u.a = t.a) q on true",
        "select t.a, q.d from t, (select d from u where u.a = t.a) q",
        "select * from t join lateral (select u.d as e from u where u.a = t.a) s on s.e > 5",
        "select a from t, lateral (select d from u where u.a = t.a and exists (select 1 from u v where "
        "v.d > u.d + t.a)) q",
        "select t.a from t join u on t.a = u.a and exists (select 1 from u v where v.d > u.d)",
        "select t.a, u.d from t left join u on t.a = u.a and u.d > (select min(d) from u x where x.a >= t.a)",
        "select t.a, u.d from t full join u on t.a = u.a and u.d > (select min(d) from u x where x.a >= t.a)",
        "select t.a, u.d from t left join u on t.a = u.a and exists (select 1 from u x where x.a = t.a and x.d < u.d)",
        "select t.a, u.d, v.d from t, u right join u v on u.a = v.a",
        "select t.a, u.a from t left join u on t.a = u.a and t.a > 1",
        "select x.a from t x join t y on x.a = y.a join u on u.a = y.a",
        "select x.* from (t join u on t.a = u.a) as x",
        "select x.* from (t join u using (a)) as x(k, l)",
        "select x.d from (t x1 join u on x1.a = u.a) x",
        "select * from ((t join u using (a)) as y join u as v using (a)) as x",
        "select x.a, y.d, y.b from (select a from t order by a) x positional join "
        "(select d, b from u order by d limit (select 3)) y",
        "select x.a, y.d from (select a from t order by a) x positional join "
        "(select d from u order by d desc limit 2) y",
        "select * from (select b from t order by c) x positional join (select a from u order by d) y",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("select * from (t) as x", "select * from t as x"),
        ("select e from t, (unnest(t.l)) as x(e)", "select e from t, unnest(t.l) as x(e)"),
        ("select u.d, q.* from u, ((select u.a as z) as k) as q", "select u.d, q.* from u, (select u.a as z) as q"),
    ],
)
def test_a_table_in_parentheses(query: str, same: str) -> None:
    """DuckDB 2.0.1 does not allow these parentheses, which DuckDB 2.0.0 ignored."""
    check(query, same)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from t left join u", "needs ON or USING"),
        ("select * from t join u using (c)", "unknown column 'c' in USING, on its right side"),
        ("select a from t, u", "the column 'a' is in more than one table; write t.a or u.a"),
        (
            "select * from t right join lateral (select t.a) q on true",
            "RIGHT JOIN of a table that reads the tables before it",
        ),
        ("select * from t natural join (select 1 as zz) q", "no column of the same name"),
        ("select * from t join u on t.c", "is of type double, not boolean"),
        ("select * from (select a from t order by a) x positional join u", "the rows of its right side have no order"),
        ("select * from t cross apply (select d from u where u.a = t.a) q", "CROSS APPLY .*CROSS JOIN LATERAL"),
        ("select * from t outer apply (select d from u where u.a = t.a) q", "OUTER APPLY .*LEFT JOIN LATERAL"),
        ("select * from t, (u join lateral (select t.a as z) q on true)", "write the joins without brackets"),
        ("select * from t right semi join lateral (select t.a) q on true", "RIGHT SEMI JOIN of a table that reads"),
        ("select t.a from (t join u using (a)) x", "unknown column 't.a'"),
        ("select t.a from t, t", "two tables are named 't'; give one an alias"),
        ("select t.* from t, t", "two tables are named 't'; give one an alias"),
        ("select a from t, t", "the column 'a' is in more than one table; give the tables aliases"),
        ("select x.a from t as x(a int)", "a type of a column in an alias"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


@pytest.mark.parametrize("kind", ["semi", "anti"])
def test_right_semi_and_anti_joins(kind: str) -> None:
    """DuckDB has left semi and anti joins only."""
    for condition in ("using (a)", "on t.a = u.a and t.c < u.d", "on u.d > (select min(d) from u v where v.a = t.a)"):
        assert sorted(rows(f"select d from t right {kind} join u {condition}")) == sorted(
            rows(f"select d from u {kind} join t {condition}")
        )


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
    """Q1: with the equal key of the other side they would overflow, in a row without a match."""
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
def test_columns_without_nulls_become_null_in_outer_joins_and_subqueries(query: str) -> None:
    """Q3: a subquery without rows, the other side of an outer join, and an aggregate without rows give null."""
    table = pa.table({"k": [1, 2, 3], "v": [10, 20, 30]}, schema=NEVER_NULL)
    database, session = duckdb.connect(), qcore.Session(threads=1)
    database.register("t", table)
    session.register("t", table)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())


USING_TABLES = {
    "t": pa.table({"x": [10, 20, 30], "a": [1, 2, None], "b": [1, 1, 1]}),
    "u": pa.table({"y": [5, 6, 7], "a": [2, 3, None], "b": [1, 2, 3]}),
    "v": pa.table({"a": [3, 4, 1], "z": ["p", "q", "r"]}),
    "narrow": pa.table({"a": pa.array([3, 2, None], pa.int16()), "k": [1, 2, 3]}),
}

QUERIES = [
    *(f"select * from t {kind} join u using (a)" for kind in ("left", "right outer", "full", "semi", "anti")),
    *(f"select * from t natural {kind} join u" for kind in ("left", "right", "full outer")),
    *(f"select * from t {kind} join u using (a, b)" for kind in ("left", "right", "full")),
    *(
        f"select * from t {one} join u using (a) {other} join v using (a)"
        for one in ("left", "right", "full", "inner")
        for other in ("left", "right", "full", "inner")
    ),
    "select x, y, z, t.a from t full join u using (a) left join v on v.a = t.a",
    "select * from t right join u using (a) left join v on v.a = t.a",
    "select * from t cross join v full join u using (b)",
    "select x, u.a from t right join u using (a)",
    "select t.*, y from t full join u using (a)",
    "select t.a as l, u.a as r, a as m from t full join u using (a)",
    "select a + 1 as n, y from t full join u using (a) where (a is distinct from 2) and (a > 0 or a is null)",
    "select case when a > 2 then 'big' else 'small' end as s, count(*) as n from t right join u using (a) group by 1",
    "select a, count(*) as n from t full join u using (a) group by a having a > 1",
    "select x a, y from t full join u using (a)",
    "select max(a) as m, min(t.a) as n, min(u.a) as o from t full join u using (a)",
    "select sum(a) over (order by a) as s, a from t full join u using (a)",
    "select * exclude (a) from t full join u using (a)",
    "select p.x, q.a from t as p left join t q using (x)",
    "select a from t full join u using (a) union all select a from v",
    "select a, y from t full join u using (a) where exists (select 1 from v where a = 3)",
    "select q.*, z from (select * exclude (b) from t full join u using (a)) q left join v using (a)",
    "with w as (select a, x from t natural left join v) select * from w natural full join u",
    "select * from t full join (values (1, 2)) as w(a, k) using (a)",
    # Merged columns of different types, with conditions that hold for both sides.
    "select a, k from t join narrow using (a) where a < 3",
    "select a, k from t natural join narrow where a not in (3, null)",
    "select a, count(*) as n from narrow join u using (a) join v using (a) where a > 1.5 group by a having a < 9",
    "select sum(a) over (order by a) as s from narrow join u using (a) where a in (2, 3)",
    "select extract(year from date '2020-01-01') as a2, left('abc', 2) as l, a from t left join u using (a)",
    "select * from (t join u using (a)) left join v using (a)",
    "select * replace (1 as a) from t left join u using (a)",
    "select v.a, x, y from t full join u using (a) join v on v.a = t.a",
    "select distinct on (a) a from t left join u using (a)",
    "select x from t full join u using (a) where exists (select 1 from v w(k, l) where k = a)",
]


def answers(query: str) -> tuple[tuple[list[str], list[tuple]], tuple[list[str], list[tuple]]]:
    database, session = duckdb.connect(), qcore.Session()
    for name, table in USING_TABLES.items():
        database.register(name, table)
        session.register(name, table)
    wanted, got = database.sql(query).to_arrow_table(), session.sql(query).to_arrow()
    return tuple(
        (table.column_names, list(zip(*(column.to_pylist() for column in table.columns), strict=True)))
        for table in (got, wanted)
    )


@pytest.mark.parametrize("query", QUERIES)
def test_rows_and_names_are_duckdbs(query: str) -> None:
    got, wanted = answers(query)
    assert got[0] == wanted[0]
    assert sorted(got[1], key=repr) == sorted(wanted[1], key=repr)


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("listed", ["a, y", "y", "*", "count(*) over () as n, y"])
def test_order_by_a_merged_column(listed: str, direction: str) -> None:
    got, wanted = answers(f"select {listed} from t full join u using (a) order by a {direction}, y nulls last, x")
    assert got == wanted


def test_names_with_capitals() -> None:
    session = qcore.Session()
    session.register("T", pa.table({"A": [1, 2], "x": [3, 4]}))
    session.register("u", pa.table({"A": [2, 5], "y": [6, 7]}))
    got = session.sql("select A, y from T full join u using (A) order by A").to_arrow()
    assert got.to_pydict() == {"A": [1, 2, 5], "y": [None, 6, 7]}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from t left join u using (k)", "unknown column 'k' in USING, on its left side"),
        ("select * from t left join v using (b)", "unknown column 'b' in USING, on its right side"),
        ("select * from t join u on true left join v using (a)", "'a' is in more than one table"),
        ("select * from t natural left join (select 1 as k) w", "no column of the same name"),
        ("select * exclude (k) from t full join u using (a)", "unknown column 'k'"),
        ("select b from t left join u using (a)", "more than one table"),
        ("select * from t left join u using ()", "needs ON or USING"),
        ("select * from t left join nothing using (a)", "unknown table 'nothing'"),
    ],
)
def test_refused(query: str, message: str) -> None:
    session = qcore.Session()
    for name, table in USING_TABLES.items():
        session.register(name, table)
    with pytest.raises(PlanError, match=message):
        session.sql(query).to_arrow()
