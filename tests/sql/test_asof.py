"""ASOF JOIN, compared with DuckDB. SPEC Q1, Q2."""

from __future__ import annotations

import datetime
import random

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows


def _times(rng: random.Random, n: int, kind: str) -> pa.Array:
    values = [None if rng.random() < 0.1 else rng.randrange(40) for _ in range(n)]
    if kind == "double":
        made = [None if v is None else float("nan") if v == 39 else v / 2 for v in values]
        return pa.array(made, pa.float64())
    if kind == "timestamp":
        start = datetime.datetime(2024, 1, 31)
        return pa.array(
            [None if v is None else start + datetime.timedelta(hours=v) for v in values], pa.timestamp("us")
        )
    if kind == "text":
        return pa.array([None if v is None else chr(97 + v % 26) for v in values])
    return pa.array(values, pa.int64())


def _tables(kind: str) -> dict[str, pa.Table]:
    rng = random.Random(kind)
    keys = lambda n: [rng.choice(["a", "b", "c", None]) for _ in range(n)]  # noqa: E731
    left = pa.table({"n": range(60), "k": keys(60), "x": _times(rng, 60, kind)})
    right = pa.table({"k": keys(50), "x": _times(rng, 50, kind)})
    return {"l": left, "r": right, "none": right.slice(0, 0)}


def _both(query: str, tables: dict[str, pa.Table]) -> None:
    database, session = duckdb.connect(), qcore.Session(threads=2, batch_rows=16, dialect="duckdb")
    for name, table in tables.items():
        database.register(name, table)
        session.register(name, table)
    wanted = database.sql(query).to_arrow_table()
    assert_same_rows(session.sql(query).to_arrow(), wanted, check_names=True)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["integer", "double", "timestamp", "text"])
@pytest.mark.parametrize("sign", [">=", ">", "<=", "<"])
def test_every_comparison(kind: str, sign: str) -> None:
    """Q1: with nulls, repeated keys and no key. A null key matches nothing."""
    tables = _tables(kind)
    for outer in ("", "left "):
        _both(f"select l.n, l.x, r.x as y, r.k from l asof {outer}join r on l.k = r.k and l.x {sign} r.x", tables)
        _both(f"select n, r.x from l asof {outer}join r on r.x {sign} l.x", tables)


@pytest.mark.parametrize(
    "query",
    [
        "select * from l asof join (select distinct * from r) q using (k, x)",
        "select * from l asof left join (select distinct * from r) q using (k, x) order by n",
        "select * exclude (n) from l asof join (select distinct k, x, 1 as one from r) q on l.x >= q.x and (l.k = q.k)",
        "select a.*, b.x as y from l a asof left join (select distinct x from r) b on a.x > b.x where a.n < 9",
        "select b.* from l a asof join (select distinct x from r) b on a.x > b.x",
        "select n, y from (select n, x from l) asof join (select distinct x as y from r) on x + 1 >= y - 2",
        "select n, r.x from l asof join r on l.x >= r.x join none on none.x = r.x",
        "select n, q.x, v.c from l asof join (select distinct x from r) q on l.x >= q.x "
        "left join (values (3, 'c'), (4, 'd')) v(x, c) on v.x = q.x",
        "select count(*) as c, count(none.x) as d from l asof left join none on l.k = none.k and l.x >= none.x",
        "select count(*) as c from l asof join none on l.x >= none.x",
        "select count(*) as c from none asof left join r on none.x <= r.x",
        "with q as (select distinct x from r where x < 20) select l.n, q.x from q asof join l on q.x >= l.n",
        "select max(y) as m from (select r.x as y from l asof join r on l.x >= r.x where r.x > 7) union all select 1",
        "select l.n, r.x, none.k from l asof join r on l.x >= r.x asof left join none on r.x >= none.x",
        "select a.n, q.x from l a join l b using (n) asof join (select distinct x from r) q on a.x > q.x",
        "select n, q.* from l asof full join (select distinct k, x from r) q on l.k = q.k and l.x > q.x",
        "select n, q.* from l asof right join (select distinct k, x from r) q on l.k = q.k and q.x >= l.x",
        "select n, k, x, one from l asof full join (select distinct k, x, 1 as one from r) q using (k, x)",
        "select n, k, x, one from l asof right join (select distinct k, x, 1 as one from r) q using (k, x)",
        "select n from l asof semi join r on l.k = r.k and l.x >= r.x",
        "select n from l asof anti join r on l.k = r.k and l.x >= r.x",
        "select n, q.x from l asof left join (select distinct x from r) q on l.x >= q.x and q.x < 15 and n < 40",
        "select n, q.x from l asof left join (select distinct x from r) q on l.x between q.x and 20",
        "select n, q.x from l asof left join (select distinct k, x from r) q "
        "on l.k is not distinct from q.k and q.x::double <= l.x",
        "select distinct on (k) k, n from (select l.k, n from l asof join r on l.x >= r.x) order by k, n",
    ],
)
def test_asof_among_other_clauses(query: str) -> None:
    """Q1."""
    _both(query, _tables("integer"))


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("l asof join r on l.k = r.k", "one <, <=, > or >=, not 0"),
        ("l asof join r on l.x > r.x and l.n < r.x", "one <, <=, > or >=, not 2"),
        ("l asof join r on l.x <> r.x", "takes =, <, <=, > and >= joined by AND"),
        ("l asof join r on l.x > r.x or l.k = r.k", "takes =, <, <=, > and >= joined by AND"),
        ("l asof join r on l.x > l.n", "one <, <=, > or >=, not 0"),
        ("l asof join r on l.x + r.x > 3", "an expression of the one table and one of the other"),
        ("l asof join r", "ASOF JOIN has no condition"),
        ("l asof join r on l.x > r.x and (select true)", "a subquery in ON of an ASOF JOIN is not supported"),
        ("l, lateral (select l.x + 1 as y) q asof join lateral (select q.y) p on l.x > p.y", "LATERAL"),
        ("l positional join r", "POSITIONAL JOIN: the rows of its left side have no order"),
    ],
)
def test_unsupported_asof_joins(tables: str, said: str) -> None:
    """Q1: the error names the clause and the remedy."""
    with pytest.raises(qcore.PlanError, match=said):
        qcore.sql(f"select * from {tables}", _tables("integer"))
