"""Grouping sets, rollup, cube and GROUPING() against DuckDB. SPEC Q2."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

QUERIES = [
    "select a, b, count(*), sum(v), min(s) from t group by rollup(a, b)",
    "select a, b, s, count(v), avg(v) from t group by cube(a, b, s)",
    "select a, b, grouping(a), grouping(b), grouping(a, b), sum(v) from t group by grouping sets((a, b), (a), (b), ())",
    "select a, count(*) from t group by grouping sets((a), (a), (), ())",
    "select a, sum(a), count(*) filter (where v > 0), count(distinct b) from t group by rollup(a)",
    "select s, count(*), count(s) from t group by grouping sets((s), ())",
    "select a, b, sum(v) from t group by rollup(a, b) having grouping(b) = 1",
    "select a, grouping(a) as g, count(*) as c from t where a is not null group by rollup(a) order by g, a",
    "select a, x from (select a, b, sum(v) as x from t group by cube(a, b)) where a = 2",
    "select count(*), sum(v) from t group by grouping sets(())",
    "select x, y from (select a as x, count(*) as y, sum(v) as z from t group by grouping sets((a))) where y > 1",
    "select sum(x) from (select a, b, sum(v) as x from t group by cube(a, b))",
]


def table(n_rows: int) -> pa.Table:
    rng = random.Random(n_rows)

    def column(type_: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if rng.random() < 0.15 else value() for _ in range(n_rows)], type_)

    return pa.table(
        {
            "a": column(pa.int64(), lambda: rng.randint(0, 5)),
            "b": column(pa.int32(), lambda: rng.randint(0, 3)),
            "s": column(pa.string(), lambda: rng.choice(["x", "yy", "a string too long to be inline"])),
            "v": column(pa.int64(), lambda: rng.randint(-50, 50)),
        }
    )


@pytest.mark.parametrize("n_rows", [0, 1, 5000])
@pytest.mark.parametrize("query", QUERIES)
def test_as_duckdb(query: str, n_rows: int, duck: duckdb.DuckDBPyConnection) -> None:
    t = table(n_rows)
    duck.register("t", t)
    expected = duck.sql(query).to_arrow_table()
    for threads in (1, 2, 4):
        assert_same_rows(qcore.sql(query, {"t": t}, threads=threads).to_arrow(), expected)


def test_bits_of_other_values(duck: duckdb.DuckDBPyConnection) -> None:
    """Q2: bits are no longer only GROUPING()'s."""
    t = table(100)
    duck.register("t", t)
    query = "select v & 3, v | 4, v << 2, v >> 1 from t where v >= 0"
    assert_same_rows(qcore.sql(query, {"t": t}).to_arrow(), duck.sql(query).to_arrow_table())
