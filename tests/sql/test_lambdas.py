"""Lambdas and list comprehensions, beside DuckDB's answers. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select list_transform(l, lambda x: x + 1), list_filter(l, lambda x: x > 1), list_reduce([1, 2, "
        "3], lambda x, y: x + y) from t",
        "select [x * 2 for x in l if x > 1], list_transform(l, lambda x: x + a) from t",
        "select list_transform(l, lambda x, i: x * i) from t",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select list_transform(l, lambda x: random()) from t", "would be the same for all elements"),
        ("select list_transform(l, lambda x: sum(x)) from t", "cannot read its parameters"),
        ("select list_transform(a, lambda x: x) from t", "it takes a list, not int64"),
        ("select l -> 1 from t", "read JSON"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)
