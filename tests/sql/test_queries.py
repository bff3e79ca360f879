"""SELECT: its clauses, aliases and positions, beside DuckDB's answers. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
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
        ("select a from t where sum(a) > 1", "an aggregate function stands in WHERE"),
        ("select sum(sum(a)) from t", "an aggregate function stands in"),
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
