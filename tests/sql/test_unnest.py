"""unnest, range and generate_series, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select t.a, x.e from t join t as v on t.a = v.a, unnest(t.l) as x(e)",
        "select a, unnest(l) as e from t",
        "select a, unnest(l), unnest([1, 2]) from t where a = 1",
        "select t.a, x from t, unnest(t.l) as u(x)",
        "select t.a, x from t left join unnest(t.l) as u(x) on true",
        "select t.a, x, o from t, unnest(t.l) with ordinality as u(x, o)",
        "select * from range(3) r(i), generate_series(1, 2)",
        "select a from t where exists (select 1 from unnest(t.l) as v(e) where e > 2)",
        "select (select sum(e) from unnest(t.l) as v(e)) from t",
        "select unnest(l) + 1 from t",
        "select t.a, e from t, lateral unnest(t.l) as x(e)",
        "select a from t, lateral range(2)",
        "select t.a, e from t, lateral generate_series(1, t.a) as x(e)",
        "select t.a, e, n from t, lateral generate_series(3, t.a, -1) with ordinality as x(e, n)",
        "select t.a, e from t left join lateral range(t.a - 1) as x(e) on true where t.a is not null",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select unnest(a) from t", "unnest takes a list or a map, not int64"),
        ("select a from t where unnest(l) = 1", "unnest cannot be in WHERE"),
        ("select * from repeat('x', 3)", "the table function repeat is not supported; there are unnest, range"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_a_long_series_is_planned_without_its_values() -> None:
    """A list of its constants would take seconds."""
    plan = plan_query("select sum(i) from range(1000000000) r(i)", SCHEMAS).plan
    assert len(list(plan.walk())) < 10
