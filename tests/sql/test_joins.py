"""Joins, USING, NATURAL and LATERAL, beside DuckDB's answers. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

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
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


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
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)
