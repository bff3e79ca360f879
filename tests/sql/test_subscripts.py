"""Subscripts of texts, and of the lists of array_agg, against DuckDB. SPEC Q1, Q3."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError

TABLE = pa.table({
    "i": pa.array([1, 2, None, 3, -4, 0], pa.int64()),
    "s": ["hello", "größe", None, "", "a,b,c", "x"],
    "l": [[1, 2], [], None, [3, None], [5], [6, 7, 8]],
    "g": ["a", "a", "b", "b", None, "a"],
})  # fmt: skip
QUERIES = [
    "select s[1] as a, s[-1] as b, s[0] as c, s[10] as d, s[-20] as e from t",
    "select s[1:2] as a, s[2:] as b, s[:2] as c, s[-3:-2] as d, s[0:2] as e from t",
    "select s[4:2] as a, s[2:-2] as b, s[-10:2] as c, s[i:i + 1] as d, s[i] as e from t",
    "select s[:] as a, l[:] as b, s[null] as c, s[1:null] as d from t",
    "select 'hello'[2] as a, (s || 'x')[1:2] as b, upper(s)[1] as c, s[1][1] as d, t.s[2] as e from t",
    "select s[1] as a, l[1] as b, l[1:1] as c from t where s[1] = 'h' or l[1] > 2",
    "select string_split(s, ',')[2][1] as a from t",
    "select s[1] as a, count(*) as n from t group by s[1]",
    "select array_agg(i order by i)[2] as a, array_agg(i order by i)[1] as b, array_agg(i order by i)[-2] as c from t",
    "select (array_agg(i order by i))[3] as a, list(i order by i)[2] as b, array_agg(i order by i)[9] as c from t",
    "select array_agg(i order by i)[0] as a, array_agg(i order by i)[1:2] as b from t",
    "select array_agg(i order by i)[1 + 1] as a from t",
    "select g, array_agg(i order by i)[2] as a, array_agg(s order by i) filter (where i > 1)[2] as b from t group by g",
]


@pytest.mark.parametrize("query", QUERIES)
def test_q1_as_duckdb(query: str) -> None:
    duck = duckdb.connect()
    duck.register("t", TABLE)
    actual = qcore.sql(query, {"t": TABLE}, dialect="duckdb").to_arrow()
    assert_same_rows(actual, duck.sql(query).to_arrow_table())


def test_q1_values_without_parts_are_refused() -> None:
    with pytest.raises(PlanError, match="it takes a list, not int64"):
        qcore.sql("select i[1] from t", {"t": TABLE})
