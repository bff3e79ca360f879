"""Subqueries in expressions, compared with DuckDB. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select a, (select count(*) from u where u.a = t.a) from t",
        "select a from t where a >= all (select a from t where a is not null)",
        "select a from t where a > any (select a from t)",
        "select a from t where not a > all (select a from t)",
        "select i from (select a as i from t) s where i >= all (select a from u where a is not null)",
        "select a > any (select a from u), a <= all (select a from u) from t",
        "select (1, 2) < any (select 1, 3)",
        "select 4 = any([1, 2, 3, null])",
        "select a = all(l), a <> all(l), a = any(l), a = some(l) from t where l is not null",
        "select a from t where (a, b) in (select a, b from u)",
        "select a from t where row(a, b) in (select a, b from u)",
        "select row(a, b) in (select a, b from u), row(a, b) in (select (a, b) from u) from t",
        "select row(1, 2) = any (select 1, 2)",
        "select (a, b) in (select a, b from u), (a, b) not in (select a, b from u) from t",
        "select a in (select a from u), a not in (select a from u) from t",
        "select a from t where a not in (select a from u where a is not null)",
        "select a from t where a not in (select a from u)",
        "select a from t where a in (values (1), (2))",
        "select a, b in (values ('x')), b not in (values ('x'), (null)) from t",
        "select a from t where b not in (values ('x'))",
        "select a from t where (a, b) in (values (1, 'x'), (2, 'y'))",
        "select case when exists (select 1 from u where u.a = t.a) then 'y' else 'n' end from t",
        "select a from t where a > 1 or exists (select 1 from u where u.a = t.a)",
        "select a from t where not exists (select 1 from u where u.a = t.a) and a is not null",
        "select a from t where c > (select avg(c) from t t2 where t2.b = t.b and t2.a >= (select "
        "min(u.a) from u where u.b = t.b))",
        "select a, (select max(x.d + t.a) from u x where x.d > (select min(y.d) from u y where y.a = t.a)) from t",
        "select a, (select d from u where u.a = t.a and u.d = (select max(d) from u w where w.a = t.a)) from t",
        "select (select (select t.a + max(d)) from u) from t",
        "select b, (select sum(u.d) from u where u.a = max(t.a)) from t group by b",
        "select b, (select sum(t.a)) from t group by b",
        "select (select max(d) from u where u.a <= t.a) c, count(*) from t "
        "group by (select max(d) from u where u.a <= t.a)",
        "select b, count(*) from t group by b having count(*) > (select count(*) from u where u.b = t.b)",
        "select b from t group by b having exists (select 1 from u where u.b = t.b)",
        "select sum(a) filter (where a > (select min(a) from u)) from t",
        "select a, sum(a) over (partition by (select min(a) from u)) from t",
        "select a from t qualify sum(a) over (order by a) > (select min(a) from u)",
        "select a from t where a in (select a from u union select 5)",
        "select a, (select array_agg(d) from (select d from u where u.a = t.a limit 2) s) from t",
        "select array(select a from u order by d desc)",
        "select a, array(select d from u where u.a = t.a) from t",
        "select sum(d) from u where a in (select a from t where t.b = u.b)",
        "select a, (with q as (select d from u where u.a = t.a) select (select max(d) from q) from q limit 1) from t",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select (select a, d from u) from t", "must give one column, not 2"),
        ("select a in (select a, d from u) from t", "must give one column, not 2"),
        ("select (a, b) in (select a from u) from t", "have nothing in common"),
        ("select (select sum(t.a) from u) from t group by", "syntax error"),
        ("select a from t where a > (select max(zz) from u)", "unknown column 'zz'"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)
