"""Text as an argument of a function of numbers needs a cast. SPEC Q1, Q3."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

import qcore
from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query", ["select a + '2', a = '2', '1.5' < c from t", "select b || 'x', least(b, 'x') from t"]
)
def test_constants_and_comparisons_need_no_cast(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select b + 1 from t", "it takes numbers; cast the text, as in cast\\(x as double\\), line 1, column 8"),
        ("select sqrt(b) from t", "sqrt\\(string\\) is not defined"),
        ("select a like '1%' from t", "LIKE takes text, not int64; cast the value"),
    ],
)
def test_columns_of_text_are_cast(query: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan_query(query, SCHEMAS)


def test_spark_converts() -> None:
    (row,) = qcore.sql("select '2' + 1 as a, sqrt('4') as b", {}, dialect="spark").to_arrow().to_pylist()
    assert row["a"] == 3 and row["b"] == 2
