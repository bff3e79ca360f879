"""Tables, common tables and views, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check, rows

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "with c as (select 1 as x) select * from (with c as (select 2 as x) select * from c) s, c",
        "with x as (select a from t), y as (select a from x) select * from x join y using (a)",
        "with x(k) as materialized (select a from t) select count(*) from x, x y",
        "select s.k from (select a, b from t) s(k)",
        "select x.a from (select a, b from t) x where x.b = 'y'",
        "with c0 as (select a from t), c1 as (select a from c0), c2 as (select a from c1), c3 as "
        "(select a from c2), c4 as (select a from c3), c5 as (select a from c4) select count(*) from c5",
        "with x as (select a from t) select count(*) from x x0, x x1, x x2",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from nosuch", "unknown table 'nosuch'"),
        ("with c as (select 1), c as (select 2) select * from c", "two common tables are named 'c'"),
        ("with c as (select * from c) select * from c", "unknown table 'c'"),
        ("select * from (select 1) s(a, b)", "has 1 columns, and 2 names"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_a_name_with_its_catalogue() -> None:
    """A name may have a catalogue and a schema."""
    assert len(rows('select "memory"."main"."t".a from "memory"."main"."t"')) == 5
    assert len(rows("select main.t.a from main.t")) == 5


def test_views_name_one_another() -> None:
    views = {"v": "select a + 1 as k from t", "w": "select k from v where k > 2"}
    assert plan_query("select * from w join v using (k)", SCHEMAS, views=views).output_names == ["k"]
    with pytest.raises(PlanError, match="reads itself"):
        plan_query("select * from v", SCHEMAS, views={"v": "select * from v"})


def test_a_common_table_that_is_read_often_is_planned_once() -> None:
    """Each of 12 common tables reads the one before twice, so copies would be 2 to the power of 12."""
    parts = ["c0 as (select a from t)", *(f"c{n} as (select x.a from c{n - 1} x, c{n - 1} y)" for n in range(1, 13))]
    plan = plan_query(f"with {', '.join(parts)} select count(*) from c12", SCHEMAS).plan
    assert len(list(plan.walk())) < 400
