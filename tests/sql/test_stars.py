"""Stars and COLUMNS, beside DuckDB's answers. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS, check

from qcore.errors import PlanError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select * exclude (l) replace (a + 1 as a) rename (b as bb) from t",
        "select t.* from t where t.a = 1",
        "select s.* from t as s(k) where k = 1",
        "select columns('a|c') from t",
        "select min(columns(* exclude (l))) from t",
        "select a from t where columns(['a', 'c']) > 0",
        "select s.* from (select {'x': a, 'y': b} as s from t)",
        "select * like 'a%' from t",
    ],
)
def test_answers_are_duckdbs(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select *", "\\* needs a table"),
        ("select x.* from t", "unknown table 'x'"),
        ("select * exclude (zz) from t", "unknown column 'zz'"),
        ("select concat(*columns('a')) from t", "as arguments is not supported"),
        ("select columns('a') + columns('b') from t", "choose different columns"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)
