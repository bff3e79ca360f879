"""Statistical and other less common aggregates, with and without keys, against DuckDB. SPEC Q2."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore import agg, lit

_random = random.Random(5)


def _some(value: object) -> object:
    return None if _random.random() < 0.25 else value


N = 3_000
T = pa.table({
    "id": list(range(N)),
    "k": [_some(_random.randrange(3)) for _ in range(N)],
    "g": [_random.randrange(700) for _ in range(N)],
    "x": [_some(_random.random() * 100) for _ in range(N)],
    "y": [_some(_random.gauss(0, 1)) for _ in range(N)],
    "i": [_some(_random.randrange(50)) for _ in range(N)],
    "s": [_some(_random.choice(["a", "bb", "", "a string too long for a view", "é"])) for _ in range(N)],
    "b": [_some(_random.random() < 0.5) for _ in range(N)],
    "d": pa.array([_some(_random.randrange(10_000)) for _ in range(N)]).cast(pa.int32()).cast(pa.date32()),
})  # fmt: skip

# Expressions for qcore. DuckDB gets the same, unless it has the function under another name.
CALLS: list[tuple[str, str | None]] = [
    ("corr(x, y), covar_pop(x, y), covar_samp(y, x), covar_pop(i, x) filter (where b)", None),
    ("regr_count(x, y), regr_avgx(x, y), regr_avgy(x, y), regr_sxx(x, y), regr_syy(x, y), regr_sxy(x, y)", None),
    ("regr_slope(x, y), regr_intercept(x, y), regr_r2(x, y), corr(distinct x, x)", None),
    ("bit_and(i), bit_or(i), bit_xor(i), bit_xor(distinct i), bool_and(b), bool_or(b)", None),
    ("string_agg(s, '-' order by s, id), string_agg(s, ', ' order by id desc) filter (where b)", None),
    ("string_agg(distinct s, ',' order by s desc)", None),
    ("array_agg(i order by id), array_agg(s order by x desc nulls first, id)", None),
    ("array_agg(d order by id) filter (where b), array_agg(distinct b order by b nulls first)", None),
    ("median(x), median(i) filter (where b), quantile_cont(x, 0.25), quantile_cont(y, 1)", None),
    ("percentile_cont(0.9) within group (order by x), percentile_cont(0.3) within group (order by x desc)", None),
    ("mode(i order by i), mode(s order by s desc) filter (where b), mode(distinct i order by i desc)", None),
    (
        "mode() within group (order by s), quantile_disc(i, 0.3), quantile_disc(s, 1 order by s desc) filter (where b)",
        None,
    ),
    ("percentile_disc(0.6) within group (order by y desc), quantile(d, 0.5)", None),
    ("arg_min(s, id) filter (where b), max_by(i, id), group_concat(s order by s, id), variance(x)", None),
    ("first_value(i order by id), last_value(s order by id)", "first(i order by id), last(s order by id)"),
    ("count(distinct i), sum(distinct i), avg(distinct i), count(distinct s) filter (where b)", None),
    (
        "count(distinct i, s), count(i, s)",
        "count(distinct (i, s)) filter (where i is not null and s is not null), "
        "count(*) filter (where i is not null and s is not null)",
    ),
    ("stddev(x), stddev_pop(x), var_samp(y), var_pop(i), stddev(distinct i)", None),
    ("approx_distinct(i), approx_median(x)", "count(distinct i), median(x)"),
]


@pytest.mark.parametrize("keys", ["", "k", "g", "k, s"])
@pytest.mark.parametrize("calls", CALLS, ids=[calls[:40] for calls, _ in CALLS])
def test_sql(calls: tuple[str, str | None], keys: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    text, oracle = calls
    query = f"select {keys}{', ' if keys else ''}{{}} from t{' group by ' if keys else ''}{keys}"
    actual = qcore.sql(query.format(text), {"t": T}, threads=2).to_arrow()
    assert_same_rows(actual, duck.sql(query.format(oracle or text)), rel_tol=1e-9, abs_tol=1e-9)


def test_without_rows_that_count(duck: duckdb.DuckDBPyConnection) -> None:
    """Without rows, or if no row counts, counts are 0 and other results are null."""
    calls = ", ".join(text for text, _ in CALLS[:9])
    duck.register("t", T)
    for where in ("false", "id < 5 and x is null and y is null and i is null and s is null and b is null"):
        query = f"select {calls} from t where {where}"
        assert_same_rows(qcore.sql(query, {"t": T}, threads=2).to_arrow(), duck.sql(query))


def test_grouping_sets(duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    query = "select k, b, string_agg(s, '-' order by id), corr(x, y), median(x), count(distinct i) from t "
    query += "group by rollup (k, b)"
    assert_same_rows(qcore.sql(query, {"t": T}, threads=2).to_arrow(), duck.sql(query), abs_tol=1e-9)


def test_far_from_zero(duck: duckdb.DuckDBPyConnection) -> None:
    """Values around 1e9 that differ by 1. A sum of squares would lose the differences."""
    xs = [1e9 + _random.random() for _ in range(2_000)]
    table = pa.table({"x": xs, "y": [2 * x + _random.random() for x in xs], "g": [i % 3 for i in range(2_000)]})
    duck.register("far", table)
    query = "select g, stddev(x), var_pop(x), covar_pop(y, x), corr(y, x), regr_slope(y, x) from far group by g"
    for threads in (1, 3):
        assert_same_rows(qcore.sql(query, {"far": table}, threads=threads).to_arrow(), duck.sql(query), rel_tol=1e-6)


def test_builder(duck: duckdb.DuckDBPyConnection) -> None:
    plan = (
        qcore.PlanBuilder()
        .values(T)
        .aggregate(
            ["k"],
            {
                "names": agg("string_agg", "s", lit("+"), order_by=["i desc", "id"], distinct=False),
                "third": agg("quantile_disc", "i", lit(0.33)),
                "n": agg("count", "i", "s", distinct=True, filter="b"),
                "last": agg("last", "y", order_by="id"),
            },
        )
        .build()
    )
    duck.register("t", T)
    expected = duck.sql(
        "select k, string_agg(s, '+' order by i desc nulls last, id), quantile_disc(i, 0.33), "
        "count(distinct (i, s)) filter (where b and i is not null and s is not null), last(y order by id) "
        "from t group by k"
    )
    assert_same_rows(qcore.Session(threads=2).execute(plan).to_arrow(), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("quantile_cont(x, 1.5)", "fraction of quantile_cont is a number from 0 to 1, not"),
        ("quantile_cont(x, y)", "fraction of quantile_cont: it must be a constant"),
        ("string_agg(s, s)", "separator of string_agg: it must be a constant"),
        ("mode(x, y)", r"mode\(double, double\): mode takes 1 argument, line 1"),
        ("quantile_disc(x, y)", "fraction of quantile_disc: it must be a constant, not y"),
        ("quantile_disc(x, 1.5)", "fraction of quantile_disc is a number from 0 to 1"),
        ("bit_and(x)", "bit_and"),
        ("corr(s, d)", "corr"),
    ],
)
def test_refused(call: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        qcore.sql(f"select {call} from t", {"t": T}).to_arrow()
