"""Window functions, named windows and frames, compared with DuckDB. SPEC Q2."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS, check

import qcore
from oracle import assert_same_rows
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
        "select a, count(*) over w from t window w as (order by a groups between 1 preceding and current row)",
        "select groups, sum(groups) over (order by groups groups unbounded preceding) from (select a as groups from t) "
        "where not groups between 7 and 9 and (groups between 1 and 5) order by groups",
        "select a, sum(a) filter (where a > 1) over (order by a), count(distinct b) over (order by a) from t",
        "select a, string_agg(b, ',' order by b) over (partition by a) from t",
        "select a, avg(a) over (), median(c) over (order by a) from t",
        "select d, lag(d, a) over (order by d), lead(d, 3 - a, -1) over (order by d) from u",
        "select d, lag(a, d // 10 - 2 ignore nulls) over (order by d), nth_value(d, a) over (order by d) from u",
        "select d, ntile(a) over (order by d), ntile(d // 10) over (order by d) from u",
        "select d, lag(d, 1 + 1) over (order by d) from u",
        "select d, lag(a, 0, 9 ignore nulls) over (order by d), lag(a, 1, 9 ignore nulls) over (order by d) from u",
        "select d, lead(a, d // 20 - 1, 9 ignore nulls) over (order by d desc) from u",
        "select d, sum(d) over (order by d rows between coalesce(a, 0) preceding and d // 20 following) from u",
        "select d, count(distinct b) over (order by b groups between coalesce(a, 0) preceding and current row) from u",
        "select a, sum(sum(d)) over (order by a rows count(*) preceding) from u group by a",
        "select d, lag(d, (select max(a) from t where t.a <= u.a)) over (order by d) from u",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select lag(a, c) over (order by a) from t", "lag counts in whole numbers, not in double; cast the number"),
        ("select ntile(b) over (order by a) from t", "ntile counts in whole numbers, not in string"),
        (
            "select sum(a) over (order by c range between a preceding and current row) from t",
            "the distances of a RANGE frame must be constants: numbers or intervals",
        ),
        (
            "select sum(a) over (order by a rows c preceding) from t",
            "a frame of ROWS is counted in whole numbers, not in double",
        ),
        ("select count(t.*) from t", "t.* is only allowed in a select list"),
        ("select sum(c) over w from t window w as (w order by a)", "the definition of the window 'w' refers to itself"),
        ("select sum(c) over w from t window w as (v), v as (w)", "there is no window 'v'|refers to itself"),
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


T = pa.table({
    "i": pa.array([1, 2, 3, 4, None, 6, 7], pa.int64()),
    "g": ["a", "b", "a", None, "b", "a", "c"],
    "f": [1.5, 2.25, None, -3.0, 0.0, 7.5, 1e10],
    "b": [True, False, None, True, True, False, None],
})  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "max(i) over (w rows between 1 preceding and current row) as o from t window w as (order by i)",
        "max(i) over (w order by i) as o from t window w as (partition by g)",
        "min(i) over (w order by i rows 1 preceding) as o from t window w as (partition by g)",
        "max(f) over (w partition by b) as o from t window w as (order by g)",
        "max(f) over w2 as o from t window w as (partition by g), w2 as (w order by i)",
        "max(f) over (w2 rows 1 preceding), count(*) over (w), count(*) over w as c from t "
        "window w as (partition by g), w2 as (w order by i)",
        "max(f) over w3 as o from t window w as (partition by g), w2 as (w order by i), w3 as (w2 rows 2 preceding)",
        "max(f) over (w rows unbounded preceding) as w from t window w as (partition by g order by i)",
        'max(f) over ("W" order by i) as o from t window "W" as (partition by g)',
        "* from (select i, max(f) over (w order by i) as o from t window w as (partition by g)) x, "
        "(select max(f) over (w order by i) as p from t window w as (partition by b)) y",
    ],
)
def test_windows_that_build_on_others(query: str) -> None:
    """Q2: partitions and order are taken from the named window."""
    database, session = duckdb.connect(), qcore.Session(threads=2)
    database.register("t", T)
    session.register("t", T)
    query = f"select i, {query}" if not query.startswith("*") else f"select {query}"
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("max(f) over (w order by i) from t", "there is no window 'w'"),
        ("max(f) over (x order by i) from t window w as (order by g)", "there is no window 'x'"),
        ("max(f) over v from t window v as (w order by i), w as (partition by g)", "there is no window 'w'"),
        ("max(f) over (w order by b) from t window w as (order by g)", "the window 'w' already has ORDER BY"),
        (
            "max(f) over (w partition by b) from t window w as (partition by g)",
            "the window 'w' already has PARTITION BY",
        ),
        ("max(f) over (w rows 2 preceding) from t window w as (order by g rows 1 preceding)", "'w' has a frame"),
    ],
)
def test_inputs_that_do_not_fit_are_errors(query: str, said: str) -> None:
    session = qcore.Session()
    session.register("t", T)
    with pytest.raises(PlanError) as caught:
        session.sql(f"select {query}").to_arrow()
    assert said in str(caught.value)
