"""LIMIT, OFFSET and FETCH, beside DuckDB's answers. SPEC Q2."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check, rows

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select a from t order by c limit (select 2)",
        "select a from t order by c limit 40%",
        "select a from t order by c limit 1 + 1 offset 1",
        "select a from t order by c offset 2",
        "select a from t order by c limit null",
    ],
)
def test_ordered_answers_are_duckdbs(query: str) -> None:
    check(query, ordered=True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select a from t limit -1", "cannot be negative"),
        ("select a from t limit 200%", "a share is from 0 % to 100 %"),
        ("select a from t limit a", "unknown column 'a'"),
        ("select a from t limit 'x'", "takes a number of rows, not string"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_fetch() -> None:
    assert len(rows("select a from t fetch first 2 rows only")) == 2
    assert len(rows("select a from t offset 1 rows fetch next row only")) == 1
