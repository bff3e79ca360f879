"""PlanBuilder's window(), distinct(), grouping sets and enforce_single_row() against DuckDB (SPEC Q1, Q2)."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, PlanError, agg, col, lit, window
from random_tables import random_table

TABLE = random_table(
    11, 500, {"k": pa.int32(), "x": pa.int64(), "d": pa.decimal128(9, 2), "s": pa.string()}, n_distinct=12
)
# The column id makes rows different, so that every order is total and the result unique.
ROWS = TABLE.append_column("id", pa.array(range(len(TABLE)), pa.int64()))

CALLS: dict[str, tuple[Any, str]] = {
    "row_number": ("row_number", "row_number() over w"),
    "rank": ("rank", "rank() over w"),
    "percent_rank": ("percent_rank", "percent_rank() over w"),
    "ntile": (("ntile", 3), "ntile(3) over w"),
    "lag": (("lag", "x"), "lag(x) over w"),
    "lead of an expression": (("lead", col("id") * 2, 3), "lead(id * 2, 3) over w"),
    "lag past nulls": (window("lag", "x", 2, ignore_nulls=True), "lag(x, 2 ignore nulls) over w"),
    "first_value": (("first_value", "s"), "first_value(s) over w"),
    "nth_value": (("nth_value", "s", 2), "nth_value(s, 2) over w"),
    "sum": (("sum", "d"), "sum(d) over w"),
    "count": (("count",), "count(*) over w"),
    "three rows": (
        window("sum", "x", frame=("rows", -2, 0)),
        "sum(x) over (partition by k order by id rows between 2 preceding and current row)",
    ),
    "range": (
        window("count", frame=("range", -20, 10)),
        "count(*) over (partition by k order by id range between 20 preceding and 10 following)",
    ),
    "groups": (
        window("max", "x", frame=("groups", -1, 1)),
        "max(x) over (partition by k order by id groups between 1 preceding and 1 following)",
    ),
    "without ties": (
        window("sum", "x", frame=("groups", -1, 1), exclude="group"),
        "sum(x) over (partition by k order by id groups between 1 preceding and 1 following exclude group)",
    ),
    "range of decimals": (
        window("count", frame=("range", -20.5, 0.5)),
        "count(*) over (partition by k order by id range between 20.5 preceding and 0.5 following)",
    ),
    "median": (("median", "d"), "median(cast(d as double)) over w"),
    "quantile_disc": (("quantile_disc", "s", 0.3), "quantile_disc(s, 0.3) over w"),
    "string_agg": (
        window("string_agg", "s", lit("-"), order_by="id desc"),
        "string_agg(s, '-' order by id desc) over w",
    ),
    "array_agg": (window("array_agg", "x", filter=col("x") > 3), "array_agg(x) filter (where x > 3) over w"),
    "mode": (window("mode", "x", order_by="x"), "mode(x order by x) over w"),
    "first of an order": (
        window("first_value", "s", order_by=["x desc", "id"]),
        "first_value(s order by x desc nulls last, id) over w",
    ),
    "sum of some": (window("sum", "x", filter="d > 0"), "sum(x) filter (where d > 0) over w"),
    "count of some": (window("count", filter="d > 0"), "count(*) filter (where d > 0) over w"),
    "any_value": (("any_value", "x"), "first_value(x ignore nulls) over w"),
    "last": (
        window("last", "x", frame=("rows", -40, 0)),
        "last_value(x ignore nulls) over (partition by k order by id rows 40 preceding)",
    ),
    "distinct": (
        window("count", "x", frame=("rows", None, None), distinct=True),
        "count(distinct x) over (partition by k)",
    ),
}


def run(builder: PlanBuilder, threads: int = 2) -> pa.Table:
    return qcore.Session(threads=threads, batch_rows=64).execute(builder.build()).to_arrow()


def in_duckdb(text: str) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("t", ROWS)
        return connection.sql(text).to_arrow_table()


@pytest.mark.parametrize("name", CALLS)
def test_window_functions(name: str) -> None:
    call, text = CALLS[name]
    got = run(PlanBuilder().values(ROWS).window({"w": call}, partition_by=["k"], order_by=["id"]).project(["id", "w"]))
    assert_same_rows(got, in_duckdb(f"select id, {text} as w from t window w as (partition by k order by id)"))


def test_a_window_keeps_the_columns_and_their_order() -> None:
    calls = {"a": ("sum", col("x") + 1), "b": "rank"}
    got = run(PlanBuilder().values(ROWS).window(calls, order_by="d desc nulls first"))
    assert got.schema.names == [*ROWS.schema.names, "a", "b"]
    assert_same_rows(
        got.select(["id", "a", "b"]),
        in_duckdb(
            "select id, sum(x + 1) over w as a, rank() over w as b from t window w as (order by d desc nulls first)"
        ),
    )


def test_a_range_of_decimals_counts_in_whole_numbers() -> None:
    given = PlanBuilder().values(ROWS).window({"n": window("count", frame=("range", -1, 1))}, order_by="d")
    text = "select id, count(*) over (order by d range between 1 preceding and 1 following) as n from t"
    assert_same_rows(run(given).select(["id", "n"]), in_duckdb(text))


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ("rollup", "rollup (k, s)"),
        ("cube", "cube (k, s)"),
        ([["k"], ["s"], []], "grouping sets ((k), (s), ())"),
        (["k", ["s", "k"]], "grouping sets ((k), (k, s))"),
    ],
)
def test_grouping_sets(sets: Any, text: str) -> None:
    aggs = {"n": ("count",), "d": agg("sum", "d")}
    got = run(PlanBuilder().values(ROWS).aggregate(["k", "s"], aggs, grouping_sets=sets))
    assert_same_rows(got, in_duckdb(f"select k, s, count(*) as n, sum(d) as d from t group by {text}"))


def test_distinct_rows() -> None:
    got = run(PlanBuilder().values(ROWS.select(["k", "s"])).distinct())
    assert_same_rows(got, in_duckdb("select distinct k, s from t"))


def test_a_single_row() -> None:
    one = PlanBuilder().values(ROWS).aggregate(aggs={"m": ("max", "id")}).enforce_single_row()
    assert run(one).to_pylist() == [{"m": len(ROWS) - 1}]
    assert run(PlanBuilder().values(ROWS.select(["id"])).filter(col("id") < 0).enforce_single_row()).to_pylist() == [
        {"id": None}
    ]
    with pytest.raises(qcore.ExecutionError, match="more than one row"):
        run(PlanBuilder().values(ROWS).enforce_single_row())


@pytest.mark.parametrize(
    ("calls", "options", "message"),
    [
        ({}, {}, "needs a call"),
        ({"w": "first_row"}, {}, "no window function 'first_row'"),
        ({"w": ("sum", "y")}, {}, "'y'"),
        ({"w": ("sum", "s")}, {}, "sum"),
        ({"w": ("sum", "x", "x")}, {}, "does not take 2 arguments"),
        ({"w": ("lag",)}, {}, "needs a column"),
        ({"w": ("lag", "x", 1.5)}, {}, "whole number"),
        ({"w": "ntile"}, {}, "needs a number"),
        ({"w": ("quantile_cont", "x")}, {}, "a value and a fraction"),
        ({"w": window("rank", filter="x > 1")}, {}, "takes no filter"),
        ({"w": window("sum", "x", order_by="id")}, {}, "sum takes no order_by"),
        ({"w": window("sum", "x", exclude="peers")}, {}, "a frame excludes no others"),
        ({"w": window("sum", "x", frame=("rows", -1.5, 0))}, {}, "whole numbers or None"),
        ({"x": "rank"}, {}, "'x'"),
        ({"w": "rank"}, {"partition_by": ["z"]}, "'z'"),
        ({"w": window("sum", "x", frame=("row", 0, 0))}, {}, "rows, range, groups"),
        ({"w": window("sum", "x", frame=("rows", 2, 1))}, {}, "ends before it starts"),
        ({"w": window("sum", "x", frame=("range", -1, 1))}, {"order_by": ["k", "x"]}, "exactly one column"),
        ({"w": window("sum", "x", frame=("range", -1, 1))}, {"order_by": ["s"]}, "over string is not supported"),
    ],
)
def test_windows_that_cannot_be(calls: Any, options: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        PlanBuilder().values(ROWS).window(calls, **options)


@pytest.mark.parametrize("sets", ["both", [], [["x"]]])
def test_grouping_sets_that_cannot_be(sets: Any) -> None:
    with pytest.raises(PlanError, match="grouping_sets"):
        PlanBuilder().values(ROWS).aggregate(["k"], {"n": ("count",)}, grouping_sets=sets)
