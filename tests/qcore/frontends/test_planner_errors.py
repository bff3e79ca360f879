"""What a query that cannot be planned is told: the planner's findings in the words of who wrote the query (SPEC Q1)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore import PlanError
from qcore.frontends.sql import plan_sql

TABLES = {
    "t": pa.schema([("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int64()))]),
    "u": pa.schema([("a", pa.int64()), ("c", pa.string())]),
}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select x from t", "unknown column 'x' in the query; there are a, b, c, l"),
        ("select * from nosuch", "unknown table 'nosuch' in the query; there are t, u"),
        ("select a from t, u", "column 'a' is in more than one table of the query; say in which, as in t.a"),
        ("select uper(b) from t", "unknown function 'uper' in the query; did you mean 'upper'"),
        ("select qqqqq(b) from t", "unknown function 'qqqqq' in the query; docs/FUNCTIONS.md lists what there is"),
        ("select row_number() from t", "row_number is a window function; write row_number(…) OVER (…)"),
        (
            "select * from u right join lateral (select u.a + 1 as m) x on true",
            "LATERAL syntax is not supported for FULL OUTER and RIGHT",
        ),
        ("select a + b from t", "Int64 + Utf8 is not defined; cast one side to a type that goes with the other"),
        ("select l + 1 from t", "List(Int64) + Int64 is not defined"),
        ("select sum(b) from t", "not Utf8; cast the argument"),
        ("select upper(a) from t", "upper() takes String, not Int64; cast the argument"),
        ("select a from t limit -1", "LIMIT must be >= 0, '-1' was provided"),
        ("select a from t limit 1 offset -1", "OFFSET must be >=0, '-1' was provided"),
        ("insert into t values (1)", "INSERT is not supported: qcore runs queries"),
        ("  Delete from t", "DELETE is not supported"),
        ("drop table t", "DROP TABLE is not supported"),
        ("select 'abc", "Unterminated string literal at Line: 1, Column: 8"),
        ("selec a from t", "found: selec at Line: 1, Column: 1"),
        ("select a from t where b", "non-boolean predicate 't.b' returning Utf8"),
    ],
)
def test_q1_a_query_that_cannot_be_planned(query: str, message: str) -> None:
    with pytest.raises(PlanError) as raised:
        plan_sql(query, TABLES)
    assert message in str(raised.value)
