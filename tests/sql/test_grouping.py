"""GROUP BY, grouping sets and GROUPING, compared with DuckDB. SPEC Q2."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select a, b, grouping(a), grouping(a, b), count(*) from t group by rollup(a, b)",
        "select a, b, count(*) from t group by cube((a, b), c)",
        "select a, b, count(*) from t group by grouping sets ((a), (b), ())",
        "select a, b, count(*) from t group by grouping sets (rollup(a, b), (b))",
        "select a, b, c, count(*) from t group by a, rollup(b, c)",
        "select date '2024-01-01' + a::int from t group by rollup (date '2024-01-01' + a::int)",
        "select a, case when grouping(a) = 1 then 'all' else 'one' end from t group by rollup(a)",
        "select count(*) from t group by ()",
        "select max(c) filter (where a > 1), count(distinct b), string_agg(b, ',' order by a desc), "
        "array_agg(a order by c) from t",
        "select mode() within group (order by b), percentile_disc(0.5) within group (order by a), median(c) from t",
        "select arg_max(b, a), max(a, 2), first(b order by a desc), sum(distinct a) from t",
        "select a + 1, sum(c) from t group by a + 1",
        "select b, sum(a) + 1, sum(a) * 2 from t group by b",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select grouping(c) from t group by rollup(a)", "GROUPING takes expressions of GROUP BY"),
        (
            "select count(*) from t group by cube(a, a, a, a, a, a, a, a, a, a, a, a, a)",
            "CUBE of 13 columns has 8192 grouping sets",
        ),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)
