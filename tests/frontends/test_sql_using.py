"""Outer JOIN … USING and NATURAL JOIN (SPEC Q1): rows and names as DuckDB has them; what is refused."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from qcore.errors import PlanError

TABLES = {
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
    # DataFusion forgets that the columns were merged where their types differ, or a condition goes to both sides.
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
    for name, table in TABLES.items():
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
    for name, table in TABLES.items():
        session.register(name, table)
    with pytest.raises(PlanError, match=message):
        session.sql(query).to_arrow()
