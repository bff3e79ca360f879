"""Windows that build on named ones, beside DuckDB's. SPEC Q2."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError

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
    """Q2: partitions and order are the named window's."""
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
        ("max(f) over (w order by b) from t window w as (order by g)", "the window 'w' has ORDER BY already"),
        ("max(f) over (w partition by b) from t window w as (partition by g)", "the window 'w' has PARTITION BY"),
        ("max(f) over (w rows 2 preceding) from t window w as (order by g rows 1 preceding)", "'w' has a frame"),
    ],
)
def test_what_does_not_fit_is_said(query: str, said: str) -> None:
    session = qcore.Session()
    session.register("t", T)
    with pytest.raises(PlanError) as caught:
        session.sql(f"select {query}").to_arrow()
    assert said in str(caught.value)
