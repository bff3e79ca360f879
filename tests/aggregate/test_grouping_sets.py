"""Grouping sets, rollup, cube and GROUPING() against DuckDB. SPEC Q2."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
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
    "select a, b, s, avg(v), max(s), min(distinct v), bool_and(v > 0), bit_xor(b) from t group by rollup(a, b, s)",
    "select a, b, s, count(*), avg(f), sum(f) from t group by grouping sets((a, b), (b, s), (a, b), (b), ())",
    "select a + 1, count(*) from t where a > 100 group by rollup(a + 1)",
    "select s, a, stddev(v), sum(v) from t group by rollup(s, a)",
    "with r as (select a, b, sum(v) as x from t group by rollup(a, b)) select * from r, r as q where r.x = q.x",
    "select k, b, count(*), min(k) from t group by rollup(k, b)",
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
            "f": column(pa.float64(), lambda: rng.choice([0.5, -0.0, 1e9, float("nan")])),
            "k": column(pa.string(), lambda: rng.choice(["p", "q"])).dictionary_encode(),
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


def plan_of(query: str, source: Any) -> str:
    return str(qcore.sql(query, {"t": source}, threads=2).explain())


def test_rows_are_grouped_once(tmp_path: Path) -> None:
    """Q2: ROLLUP groups the rows by all keys, and then those groups by fewer. Few other sets are computed likewise."""
    t = table(5000)
    rolled = plan_of("select a, b, s, avg(v) from t group by rollup(a, b, s)", t)
    assert (rolled.count("Scan t"), rolled.count("Shared "), rolled.count("SharedRead ")) == (1, 3, 3), rolled
    assert "sets" not in rolled
    path = tmp_path / "t.parquet"
    pq.write_table(t, path)
    two_sets = "select a, b, sum(v) from t group by grouping sets((a), (b))"
    few = plan_of(two_sets, str(path))
    assert "Aggregate by [a, b]" in few and "sets" not in few
    many = plan_of("select a, b, f, v, count(*) from t group by grouping sets((a, b), (f, v))", str(path))
    assert "sets ((0, 1), (2, 3))" in many
    assert "sets" in plan_of("select a, b, count(distinct v) from t group by rollup(a, b)", t)
    assert "sets" in plan_of("select a, b, stddev(v) from t group by rollup(a, b)", t)


def test_a_group_in_no_grouping_set_may_overflow(tmp_path: Path) -> None:
    """Q2: a group by all keys has a sum above 64 bits. The sums of the requested sets fit."""
    large = 1 << 62
    rows = [(1, 1, large)] * 3 + [(1, 2, -large), (2, 1, -large)] * 2 + [(2, 2, large), *[(2, 2, 0)] * 50]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({name: [row[i] for row in rows] for i, name in enumerate("abv")}), path)
    query = "select a, b, sum(v) from t group by grouping sets((a), (b))"
    assert "Aggregate by [a, b]" in plan_of(query, str(path))
    result = qcore.sql(query, {"t": str(path)}).to_arrow()
    found = sorted(zip(*(column.to_pylist() for column in result.columns), strict=True), key=str)
    assert found == sorted([(1, None, large), (2, None, -large), (None, 1, large), (None, 2, -large)], key=str)


def test_bits_of_other_values(duck: duckdb.DuckDBPyConnection) -> None:
    """Q2: bit operators apply to other values than GROUPING()."""
    t = table(100)
    duck.register("t", t)
    query = "select v & 3, v | 4, v << 2, v >> 1 from t where v >= 0"
    assert_same_rows(qcore.sql(query, {"t": t}).to_arrow(), duck.sql(query).to_arrow_table())
