"""Window functions, named windows and frames, beside DuckDB's answers. SPEC Q2."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select a, rank() over w, row_number() over (w rows unbounded preceding) from t window w as (order by c desc)",
        "select a, lag(a, 2, 0) over (order by a), ntile(2) over (order by a), nth_value(a, 2) over "
        "(order by a) from t",
        "select a, first_value(a ignore nulls) over (order by c) from t",
        "select a, sum(c) over (partition by b order by a rows between 1 preceding and current row "
        "exclude current row) from t",
        "select a, sum(a) over (order by a range between 1 preceding and 1 following) from t",
        "select a, count(*) over (order by a groups 1 preceding) from t",
        "select a, sum(a) filter (where a > 1) over (order by a), count(distinct b) over (order by a) from t",
        "select a, string_agg(b, ',' order by b) over (partition by a) from t",
        "select a, avg(a) over (), median(c) over (order by a) from t",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select lag(a, a) over (order by a) from t", "lag takes a whole number as a constant.*row_number"),
        ("select ntile(a) over (order by a) from t", "ntile takes a whole number as a constant"),
        ("select sum(a) over (order by a rows a preceding) from t", "a frame's distances are constants.*column 37"),
        ("select count(t.*) from t", "t.* stands in a select list"),
        ("select sum(c) over w from t window w as (w order by a)", "the window 'w' is defined by itself"),
        ("select sum(c) over w from t window w as (v), v as (w)", "there is no window 'v'|is defined by itself"),
        ("select sum(c) over w from t", "there is no window 'w'"),
        ("select sum(c) over (rows between current row and 1 preceding) from t", "cannot end before it begins"),
        (
            "select sum(c) over (rows between unbounded following and current row) from t",
            "cannot begin at UNBOUNDED FOLLOWING",
        ),
        ("select sum(c) over (order by a, c range 1 preceding) from t", "needs exactly one column"),
        ("select sum(c) over (rows -1 preceding) from t", "is negative"),
        ("select ntile(0) over () from t", "must be positive"),
        ("select row_number() from t", "needs OVER"),
        ("select nosuch(a) over () from t", "no window function 'nosuch'"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)
