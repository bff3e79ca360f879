"""Aggregates that are computed from others, or from lists, against DuckDB. SPEC Q2."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError

N = 120
T = pa.table({
    "id": pa.array(range(N), pa.int64()),
    "g": [None if i % 13 == 0 else "abcd"[i * 7 % 4] for i in range(N)],
    "i": pa.array([None if i % 11 == 5 else i * 37 % 23 - 9 for i in range(N)], pa.int64()),
    "f": [None if i % 7 == 2 else (i * 31 % 17) / 4 - 1.5 for i in range(N)],
    "d": [None if i % 9 == 4 else Decimal(i * 13 % 50 + 1) / 100 for i in range(N)],
    "s": [None if i % 8 == 3 else "xyz"[i % 3] for i in range(N)],
    "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 5) for i in range(N)],
    "one": [1.5] * N,
})  # fmt: skip
QUERIES = [
    "select product(f) as a, skewness(i) as b, kurtosis(i) as c, kurtosis_pop(i) as d, mad(f) as e from t",
    "select g, product(d) as a, skewness(f) as b, kurtosis(f) as c, mad(i) as d, entropy(s) as e from t group by g",
    "select g, histogram(s) as a, histogram(i) as b, histogram(day) as c from t group by g",
    "select product(i) as a, skewness(i) as b, kurtosis(f) as c, mad(f) as d, entropy(i) as e, histogram(i) as f "
    "from t where i > 900",
    "select skewness(one) as a, kurtosis(one) as b, kurtosis_pop(one) as c, mad(one) as d, entropy(one) as e from t",
    "select id % 60 as k, skewness(f) as a, kurtosis(f) as b, kurtosis_pop(f) as c, mad(f) as d from t group by k",
    "select product(distinct i) as a, entropy(s) filter (where i > 2) as b, round(product(f) * 2, 3) as c "
    "from t where f > 0",
    "select quantile_cont(f, [0.25, 0.5]) as a, quantile_disc(f, [0.25, 0.5]) as b, quantile(i, [0.1]) as c from t",
    "select g, quantile_cont(f, [0.25, 0.75]) as a, quantile_cont(i, [0.5]) filter (where i > 3) as b from t "
    "group by g",
    "select id, quantile_cont(f, [0.25, 0.5]) over (order by id rows 2 preceding) as a from t",
    "select quantile_cont(f, [0.25, 0.5]) as a from t where i > 900",
    "select g, geomean(d) as a, geometric_mean(d) as b, sem(i) as c, favg(i) as d, fsum(i) as e, kahan_sum(f) "
    "as f from t "
    "group by g",
    "select sem(f) filter (where i > 2) as a from t",
    "select id, geomean(d) over (order by id rows 3 preceding) as a from t where d is not null",
    "select list_avg([i, 2]) as a, list_median([i, 2, f]) as b, list_stddev_pop([i, f]) as c from t where i "
    "is not null",
    "select arg_min(s, i * 1000 + id, 2) as a, arg_max(f, i * 1000 + id, 3) as b, max(i, 2) as c, min(f, 4) "
    "as d from t",
    "select g, max(i, 2) as a, max_by(id, i * 1000 + id, 3) filter (where i > 1) as b from t group by g",
    "select max(i, 2) as a, arg_max(s, i, 2) as b from t where i > 900",
    "select list_product([i, 2]) as a, list_histogram([i, i, 2]) as b, list_mad([1, 5, 9]) as c from t where "
    "i is not null",
]


@pytest.mark.parametrize("query", QUERIES)
def test_q2_as_duckdb(query: str) -> None:
    duck = duckdb.connect(config={"threads": 1})
    duck.register("t", T)
    actual = qcore.sql(query, {"t": T}, threads=2, dialect="duckdb").to_arrow()
    assert_same_rows(actual, duck.sql(query).to_arrow_table())


@pytest.mark.parametrize("call", ["product(i)", "histogram(i)", "max(i, 2)", "arg_min(i, i * 1000 + id, 2)"])
def test_q2_over_windows(call: str) -> None:
    """Aggregates computed from the list of all values, over frames."""
    query = f"select id, {call} over (order by id) as x from t where i is not null and id < 60"
    duck = duckdb.connect(config={"threads": 1})
    duck.register("t", T)
    actual = qcore.sql(query, {"t": T}, threads=2, dialect="duckdb").to_arrow()
    assert_same_rows(actual, duck.sql(query).to_arrow_table())


def test_q2_errors_name_the_fault() -> None:
    with pytest.raises(PlanError, match="takes a list of at least one fraction"):
        qcore.sql("select quantile_cont(i, []) from t", {"t": T})
    with pytest.raises(PlanError, match="takes numbers"):
        qcore.sql("select product(s) from t", {"t": T})
