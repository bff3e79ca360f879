"""Names of columns without an alias: their expressions as written. SPEC Q1."""

from __future__ import annotations

import pytest
from bound_queries import SCHEMAS

from qcore.sql.bind import plan_query

NAMES = {
    "select Sum( C ) from t": ["sum( c )"],
    "select 1 , a + 1 , 'X', \"a\" + 1 from t": ["1", "a + 1", "'X'", "a + 1"],
    "select a is distinct from 1, a from t": ["a is distinct from 1", "a"],
    "select distinct on (a, b) a, c + 1 from t": ["a", "c + 1"],
    "select a -- first\n + 1 from t": ["a + 1"],
    "select NULL, null from t": ["NULL", "NULL"],
    "select mode() within group (order by b) from t": ["mode() within group (order by b)"],
    "select (select a + 1 from u limit 1), A from t": ["(select a + 1 from u limit 1)", "a"],
    'select a as "X y", b Z from t': ["X y", "Z"],
    "select 1 union select 2": ["1"],
}


@pytest.mark.parametrize("query", NAMES)
def test_names(query: str) -> None:
    assert plan_query(query, SCHEMAS).output_names == NAMES[query]


def test_repeated_names_of_a_derived_table() -> None:
    query = "select * from (select a, a, sum(a) over (), sum(a) over () from t)"
    assert plan_query(query, SCHEMAS).output_names == ["a", "a_1", "sum(a) over ()", "sum(a) over ()_1"]
