"""INTERSECT and EXCEPT, distinct and ALL, from SQL and PlanBuilder, against DuckDB. SPEC Q2."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from random_tables import random_table

T = random_table(61, 300, {"a": pa.int32(), "b": pa.string(), "c": pa.float64()}, null_share=0.2)
U = random_table(62, 200, {"a": pa.int32(), "b": pa.string(), "c": pa.float64()}, null_share=0.2)
# Few values, so that rows repeat within an input and occur in the other one.
SMALL_T = pa.table({"a": [1, 1, 2, None, None, 3, 1, 1], "b": ["x", "x", "y", None, None, "z", "q", "x"]})
SMALL_U = pa.table({"a": [1, 2, None, 5, 1, 1], "b": ["x", "y", None, "w", "q", "q"]})

QUERIES = [
    "select a, b from t except all select a, b from u",
    "select a, b from t intersect all select a, b from u",
    "select a from t except select a from u",
    "select b from t intersect select b from u",
    # From left to right, INTERSECT first.
    "select a from t union all select a from u except all select a from t intersect all select a from u",
    "select a from t except all select a from u except all select 1",
    "(select a from t intersect all select a from u) union all (select a from u except all select a from t)",
    "select a from t intersect all (select a from u union all select a from t) order by a nulls first limit 4",
    # Inside others, and with the WITH lists around them.
    "with c as (select a from t where a > 1) select a from c except all select a from u",
    "with c as (select a from t), d as (select a from c except all select a from u) select count(*), sum(a) from d",
    "select count(*) from ((select a from t except all select a from u) union all (select a from u)) x",
    "select a from t where a in (select a from t except all select a from u)",
    "select a, count(*) from (select a, b from t except all select * from u) as x group by a",
    # Types in common, and the first input's names.
    "select a from t except all select cast(a as double) from u",
    "select 'EXCEPT ALL' as x from t intersect all select b from u -- except all",
]


@pytest.fixture
def oracle(duck: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    duck.register("t", SMALL_T)
    duck.register("u", SMALL_U)
    return duck


@pytest.mark.parametrize("query", QUERIES)
def test_sql(query: str, oracle: duckdb.DuckDBPyConnection) -> None:
    actual = qcore.sql(query, {"t": SMALL_T, "u": SMALL_U}, threads=2).to_arrow()
    assert_same_rows(actual, oracle.sql(query), ordered="order by" in query, check_names="count(" not in query)


@pytest.mark.parametrize("keyword", ["intersect", "except"])
@pytest.mark.parametrize("all", [False, True])
def test_builder(keyword: str, all: bool, duck: duckdb.DuckDBPyConnection) -> None:
    """Every column of random tables, which are repeated so that rows occur several times."""
    left = pa.concat_tables([T, T, U.slice(0, 50)])
    right = pa.concat_tables([U, T.slice(100)])
    duck.register("l", left)
    duck.register("r", right)
    expected = duck.sql(f"select * from l {keyword} {'all' if all else ''} select * from r")
    builder = qcore.PlanBuilder().values(left)
    other = qcore.PlanBuilder().values(right)
    made = builder.intersect(other, all=all) if keyword == "intersect" else builder.except_(other, all=all)
    for threads in (1, 3):
        assert_same_rows(qcore.Session(threads=threads).execute(made.build()).to_arrow(), expected, check_names=True)


def test_refused() -> None:
    values = qcore.PlanBuilder().values(SMALL_T)
    with pytest.raises(qcore.PlanError, match="inputs of EXCEPT have 1 and 2 columns"):
        values.except_(values.project("a"))
    with pytest.raises(qcore.PlanError, match="nothing in common"):
        values.intersect(qcore.PlanBuilder().values(pa.table({"a": [True], "b": ["x"]})), all=True)
