"""Aggregates of CASE become aggregates with filters. Plans, and answers against DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.plan import nodes as p

ROWS = pa.table({
    "k": pa.array([1, 1, 1, 2, 2, 3, 3, None], pa.int64()),
    "c": pa.array([True, False, None, False, None, True, True, True]),
    "x": pa.array([5, 6, 7, 8, None, None, 5, 5], pa.int64()),
    "d": pa.array([0, 1, 2, 3, 4, 5, 0, 7], pa.int64()),
})  # fmt: skip


def check(call: str) -> list[p.AggregateCall]:
    """Compare the answers of an aggregate with DuckDB's, with and without groups. Returns it as the plan has it."""
    session = qcore.Session(threads=2)
    session.register("t", ROWS)
    database = duckdb.connect()
    database.register("t", ROWS)
    for text in (f"select k, {call} as v from t group by k", f"select {call} as v from t where d < 7 or k is null"):
        result = session.sql(text)
        expected = database.sql(text).to_arrow_table()
        assert_same_rows(result.to_arrow().to_batches(), expected)
    return [call for node in result.plan.walk() if isinstance(node, p.Aggregate) for call in node.aggregates]


@pytest.mark.parametrize("function", ["count", "sum", "avg", "min", "max", "bit_or", "stddev_pop", "var_samp"])
@pytest.mark.parametrize("otherwise", ["", "else null"])
def test_one_branch(function: str, otherwise: str) -> None:
    (found,) = check(f"{function}(case when c then x {otherwise} end)")
    assert (repr(found.arguments), repr(found.filter)) == ("(x,)", "c")


def test_distinct_values() -> None:
    """Another distinct aggregate has a filter: then the values are not grouped first, which would leave no CASE."""
    found = check("count(distinct case when c then x end) as u, count(distinct d) filter (where d > 1)")
    assert [(one.distinct, repr(one.filter)) for one in found] == [(True, "c"), (True, "(d > 1)")]


def test_a_count_of_constants_counts_rows() -> None:
    (found,) = check("count(case when c then 1 end)")
    assert (found.arguments, repr(found.filter)) == ((), "c")


@pytest.mark.parametrize(
    "call",
    [
        "sum(case when c then x else 0 end)",
        "sum(case when c then x when d > 1 then d end)",
        "sum(case when d > 0 then x / d end)",
        "sum(case when c then x end) filter (where d > 1)",
        "sum(case when c then 1 end)",
        "sum(case when null then x end)",
        "count(case when null then 1 end)",
        "count(distinct case when c then x end)",
        "count(distinct case when c then 1 end)",
        "count(distinct case when c then 1 end) as u, count(distinct d) filter (where d > 1)",
        "sum(case when c then x else cast(null as double) end)",
        "array_agg(case when c then x end order by d)",
        "first(case when c then x end order by d)",
    ],
)
def test_others_stay(call: str) -> None:
    assert {repr(one.filter) for one in check(call)} <= {"None", "(d > 1)"}
