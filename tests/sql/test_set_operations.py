"""UNION, INTERSECT, EXCEPT and VALUES, compared with DuckDB. SPEC Q2."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select a from t union all select a from u",
        "select a from t except all select a from u",
        "select a from t intersect select a from u",
        "select a from t union select a from u union all select d from u",
        "select 1 union select 2 intersect select 3",
        "select 1 union all select 2 intersect select 2 except select 1 union all select 3 intersect select 4",
        "(select a from t union select d from u) intersect select a from u",
        "select a from t intersect all select a from u intersect select 2",
        "select a, b from t union all by name select b, d from u",
        "values (1, 'a'), (2, null)",
        "select * from (values (1, 'a'), (2.5, 'b')) v(x, y)",
        "values (-1e3, 1 + 1)",
        "select a from t where b = 'x' union all (select d from u order by d limit 1)",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    "query",
    [
        "(select a from t) union all (select a from u) order by a limit 3",
        "select a from t union select a from u order by t.a",
        "select a x from t union select d from u order by x + 1",
        "select a from t union all select d from u order by 1 desc limit 2",
    ],
)
def test_ordered_answers_are_duckdbs(query: str) -> None:
    check(query, ordered=True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select a from t union select a, d from u", "1 and 2 columns; give both the same, line 1, column 30"),
        ("select a from t union select a from u intersect select 1, 2", "INTERSECT have 1 and 2 columns.*column 56"),
        ("values (1), (1, 2)", "1 and 2 values"),
        ("select a from t union select a from u order by zz", "unknown column 'zz'"),
        ("select a from t union select a from u order by 2", "ORDER BY 2: the query has 1 columns, line 1, column 48"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_a_chain_of_a_thousand_unions() -> None:
    query = " union all ".join(f"select {n} as n" for n in range(1000))
    assert len(plan_query(query, SCHEMAS).plan.children) == 1000
