"""SELECT: clauses, aliases and positions, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS, check

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "table u",
        "with x as (table u) select a from (table u) where a in (select a from x) union all (select a from t)",
        "select a as x, x + 1 as y from t where y > 2",
        "select a + 1 as k, count(*) from t group by k having k > 2",
        "select a, sum(c) as s from t group by a having s > 1",
        "select count(*) from t having count(*) > 2",
        "select 1 from t having count(*) > 100",
        "select distinct a from t",
        "select distinct on (b) b, a from t order by b, a desc",
        "select a, count(*) over () from t qualify row_number() over (order by a) < 3",
        "select sum(sum(c)) over (order by b) from t group by b",
        "select b, count(*) from t group by 1",
        "select b, max(a) from t group by all",
        "select a from t where (a = 1) is true",
        "select all a from t",
        "select 1 where false",
        "from t select a",
        "from t",
        "select (select a from u where d = 10), a from t group by a",
        "select t.a from t where t.a = 1 and true",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    "query",
    [
        "select a from t order by a desc nulls first limit 2 offset 1",
        "select distinct a from t order by t.a",
        "select a from t order by -a",
        "select min(a) as a from t group by b order by min(a)",
        "select b, max(a) from t group by all order by all",
        "select a from (select a from t) order by a nulls first limit 1",
        "select a, c from t order by 2 desc, 1",
        "select a from t order by (select max(d) from u where u.a = t.a), a",
    ],
)
def test_ordered_answers_are_duckdbs(query: str) -> None:
    check(query, ordered=True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select a from t group by b", "neither in GROUP BY nor inside an aggregate"),
        ("select a from t order by 3", "ORDER BY 3: the select list has 1"),
        ("select a from t group by 3", "GROUP BY 3: the select list has 1"),
        ("select distinct a from t order by c", "takes expressions of its select list"),
        ("select a from t where sum(a) > 1", "an aggregate function cannot be in WHERE"),
        ("select sum(sum(a)) from t", "an aggregate function cannot be in"),
        ("select a from t where row_number() over () = 1", "a window function cannot be in WHERE"),
        (
            "select foo from t",
            "unknown column 'foo' in the query; .*, line 1, column 8\n  select foo from t\n         \\^\\^\\^",
        ),
        ("select a from t where c", "is of type double, not boolean"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


T = pa.table({"a": [1, 2, None], "s": ["x", "y", "from t"]})


@pytest.mark.parametrize(
    "query",
    [
        "from t",
        "from t where a = 1",
        "from t order by a desc nulls last limit 1",
        "select s from (from t) q where a > 1",
        "with w as (from t where a = 2) from w union all from t",
        "with w as (select a from t) from w join t using (a)",
        "from t left join (from t where a = 1) q using (a)",
        "from t select s",
        "from t select distinct a where s <> 'y' order by a limit 1",
        "from t full join (from t select a + 1 as a) q using (a) select *",
        "from (from t select s, count(*) as n group by s) select max(n) as n union all from t select a where a = 1",
        "select s from t where s = 'from t'",
    ],
)
def test_from_alone_selects_all(query: str) -> None:
    database, session = duckdb.connect(), qcore.Session()
    database.register("t", T)
    session.register("t", T)
    wanted, got = database.sql(query).to_arrow_table(), session.sql(query).to_arrow()
    assert got.column_names == wanted.column_names
    rows = [sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr) for table in (got, wanted)]
    assert rows[0] == rows[1]


N_COLUMNS, N_ROWS = 40, 5_000
KEYS = [f"c{n}" for n in range(N_COLUMNS)]


def table() -> pa.Table:
    """Rows of a group g are equal in nearly all columns, so that the last keys decide."""
    rng = random.Random(7)
    columns = {
        name: [rng.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, None]) for _ in range(N_ROWS)] for name in KEYS
    }
    return pa.table({"g": [n % 7 for n in range(N_ROWS)], **columns, "i": rng.sample(range(N_ROWS), N_ROWS)})


def order(columns: list[str]) -> str:
    ways = ["", " desc", " nulls first", " desc nulls last"]
    return ", ".join(f"{name}{ways[n % 4]}" for n, name in enumerate(columns))


@pytest.mark.parametrize(
    "query",
    [
        f"select distinct on (g) g, c3, i from t order by g, {order([*KEYS, 'i'])}",
        f"select distinct on (c0, g) * from t order by c0 desc, g, {order([*KEYS[1:], 'i'])}",
        f"select g, first(i order by {order([*KEYS, 'i'])}), last(i order by {order([*KEYS, 'i'])}) from t group by g",
        f"select g, array_agg(i order by {order([*KEYS, 'i'])}) from t where i < 90 group by g",
        f"select i, last_value(i order by {order([*KEYS, 'i'])}) over (partition by g order by i) from t where i < 99",
    ],
)
def test_many_keys(query: str) -> None:
    rows = table()
    database, session = duckdb.connect(), qcore.Session(threads=2, dialect="duckdb")
    database.register("t", rows)
    session.register("t", rows)
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())


def test_too_many_keys_are_said() -> None:
    keys = ", ".join(f"i + {n}" for n in range(70))
    with pytest.raises(PlanError, match="has 71 arguments and sort keys; the most that it supports is 64"):
        qcore.sql(f"select array_agg(i order by {keys}) from t", {"t": table()}).to_arrow()
