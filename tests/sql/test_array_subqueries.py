"""ARRAY(subquery), compared with DuckDB (SPEC Q1)."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

T = pa.table({"i": pa.array([1, 2, None, 9], pa.int64()), "g": ["a", "b", None, "a"]})
U = pa.table({"i": [1, 2, 2, 9, None], "w": ["p", "q", "r", "s", "t"], "n": pa.array([10, 20, 30, 40, 50], pa.int32())})


@pytest.fixture
def session() -> qcore.Session:
    session = qcore.Session(threads=2, dialect="duckdb")
    session.register("t", T)
    session.register("u", U)
    return session


@pytest.mark.parametrize(
    "subquery",
    [
        "select n from u where n > 1000",
        "select n from u order by n desc",
        "select n from u where u.i = t.i order by w desc",
        "select w from u where u.n > t.i * 10 order by 1 desc limit 2",
        "select w as q from u where u.n > t.i * 10 order by q desc offset 1",
        "select i from u order by i nulls first",
        "select distinct i from u where u.n > t.i * 10 order by i desc nulls last",
        "select u.i from u where u.n > t.i * 10 union select 3 order by 1",
        "select max(n) as m from u where u.n > t.i * 10 group by i order by m desc",
        "select max(n) from u where u.n > t.i * 10 group by i order by i desc nulls last",
        "select (select max(g) from t y where y.i = u.i) from u where u.n > t.i * 10 order by n",
        "select row_number() over (order by n desc) from u where u.n > t.i * 10 order by n",
        "with x as (select * from u where n > 10) select n from x where x.i = t.i order by n",
        "values (t.i)",
        "select array(select y.i from t y where y.i < u.i order by y.i desc) from u order by n",
        "from u select n where u.i = t.i order by n",
        "(select n from u where u.i = t.i order by n)",
    ],
)
def test_as_duckdb(subquery: str, session: qcore.Session, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    duck.register("u", U)
    query = f"select i, array({subquery}) as a, len(array({subquery})) as n, array({subquery})[1] as b from t"
    assert_same_rows(session.sql(query).to_arrow(), duck.sql(query).to_arrow_table())


def test_a_computed_limit(session: qcore.Session, duck: duckdb.DuckDBPyConnection) -> None:
    """DuckDB allows only constant limits in correlated subqueries."""
    duck.register("u", U)
    query = "select array(select n from u order by n desc limit (select 2) offset (select 1)) as a"
    assert session.sql(query).to_arrow() == duck.sql(query).to_arrow_table()
    correlated = "select i, array(select n from u where u.n > t.i * 10 order by n desc limit {}) as a from t order by i"
    computed, constant = (session.sql(correlated.format(limit)).to_arrow() for limit in ("(select 2)", "2"))
    assert computed == constant


@pytest.mark.parametrize(
    ("subquery", "message"),
    [
        ("select n, w from u order by n", r"one column.*row\(a, b\)"),
        ("select distinct i from u order by -i", "ORDER BY of a SELECT DISTINCT takes expressions of its select list"),
    ],
)
def test_refused(subquery: str, message: str, session: qcore.Session) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        session.sql(f"select array({subquery}) from t")
