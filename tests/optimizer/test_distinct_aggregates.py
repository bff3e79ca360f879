"""Distinct aggregates computed from groups by their argument: where the rule applies, and rows against DuckDB."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import qcore
from optimized_plans import check_rule, scan
from oracle import assert_same_rows
from qcore.builder.aggregate_steps import agg

T = scan("t")


def test_the_values_are_grouped_first() -> None:
    plan = T.aggregate(["b"], {"n": agg("count", "c", distinct=True), "s": agg("sum", "a"), "r": ("count",)}).build()
    after = [
        "Project b, n, cast(s_sum as int64), coalesce(r_count, 0)",
        "  Aggregate",
        "    Aggregate",
        "      Scan t",
    ]
    check_rule(plan, "distinct_aggregates", ["Aggregate", "  Scan t"], after)


_RNG = np.random.default_rng(7)
_N = 6000
_FLOATS = _RNG.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -2.25], _N)
ROWS = pa.table({
    "k": pa.array(_RNG.integers(0, 12, _N), mask=_RNG.random(_N) < 0.1),
    "x": pa.array(_RNG.integers(0, 90, _N), mask=_RNG.random(_N) < 0.1),
    "f": pa.array(_FLOATS, mask=_RNG.random(_N) < 0.1),
    "d": pa.array(_RNG.integers(0, 400, _N).astype("int32"), pa.date32()),
    "i": pa.array(_RNG.integers(0, 300, _N)),
    "m": pa.array(_RNG.integers(0, 500, _N), pa.int64()).cast(pa.decimal128(20, 0)).cast(pa.decimal128(22, 2)),
    "b": pa.array(_RNG.random(_N) < 0.5, mask=_RNG.random(_N) < 0.1),
    "s": pa.array([f"text {i}" for i in _RNG.integers(0, 50, _N)]),
})  # fmt: skip

# Query, and the number of Aggregates of its plan.
QUERIES = {
    "no key": ("select count(distinct x), sum(distinct x), avg(distinct x), min(distinct x), count(*) from t", 2),
    "no row": ("select count(distinct x), sum(distinct x), avg(k), sum(k), count(k), max(b) from t where x > 99", 2),
    "no row, by key": ("select k, count(distinct x) from t where x > 99 group by k", 2),
    "one key": ("select k, count(distinct x), count(x), sum(x), avg(m), max(d), bool_or(b) from t group by k", 2),
    "key and value alike": ("select k, count(distinct k), count(*) from t group by k", 2),
    "expressions": ("select x % 7, sum(distinct x // 3), min(s) from t group by x % 7", 2),
    "dates": ("select k, count(distinct d), min(d), max(distinct d) from t group by k", 2),
    "decimals": ("select d, sum(distinct m), avg(distinct m), sum(m) from t group by d", 2),
    "floats": ("select count(distinct f), count(f), max(f) from t", 2),
    "float keys": ("select f, count(distinct x) from t group by f", 2),
    "other calls filtered": ("select k, count(distinct x), sum(x) filter (where i > 150) from t group by k", 2),
    "names that are taken": ("select k as distinct_value, count(distinct x) as x_count, count(x) from t group by k", 2),
    # Partial sums would overflow; the whole sums do not.
    "large sums": (
        f"select a, sum(b), count(distinct c) from (values (1, {2**63 - 1}, 1), (1, {2**63 - 1}, 1), "
        f"(1, {1 - 2**63}, 2), (1, {1 - 2**63}, 3)) v(a, b, c) group by a",
        2,
    ),
    # The rule does not apply.
    "filtered": ("select k, count(distinct x) filter (where i > 150) from t group by k", 1),
    "two values": ("select k, count(distinct x), count(distinct d) from t group by k", 1),
    "text": ("select count(distinct s) from t", 1),
    "text key": ("select s, count(distinct x) from t group by s", 1),
    "cannot be merged": ("select k, count(distinct x), median(x) from t group by k", 1),
    "only repeatable": ("select k, max(distinct x) from t group by k", 1),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_of_duckdb(name: str, threads: int) -> None:
    query, n_aggregates = QUERIES[name]
    session = qcore.Session(threads=threads, batch_rows=512)
    session.register("t", ROWS)
    result = session.sql(query)
    shown = str(result.explain())
    assert shown.count("Aggregate ") == n_aggregates, shown
    connection = duckdb.connect()
    connection.register("t", ROWS)
    assert_same_rows(result.to_arrow(), connection.sql(query).to_arrow_table())
