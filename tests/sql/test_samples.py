"""TABLESAMPLE and USING SAMPLE return as many rows as DuckDB, all from the table. SPEC Q1."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError

N = 20_000
TABLES = {
    "t": pa.table({"i": range(N), "g": [n % 3 for n in range(N)]}),
    "u": pa.table({"i": [1, 2, 2, 9, None], "w": ["p", "q", "r", "s", "t"]}),
}


@pytest.mark.parametrize(
    "query",
    [
        "select count(*), count(distinct i), min(i) >= 0, max(i) < 20000 from (select i from t using sample 300)",
        "select count(*), count(distinct i) from t using sample reservoir(300 rows)",
        "select count(*), count(distinct i) from t tablesample 300 rows",
        "select count(*) from u tablesample 300 rows",
        "select count(*) from t tablesample 0 rows",
        "select count(*), count(distinct i) from t tablesample reservoir(10%)",
        "select count(*), sum(i) from t tablesample bernoulli(100%)",
        "select count(*) from t using sample 0%",
        "select count(*) from t x tablesample (3 rows) join u on true",
        "select count(x.i), count(y.w) from t as x tablesample (3 rows), u as y tablesample 2 rows",
        "select t.i, w from t tablesample (100 percent) join u tablesample system(100%) using (i)",
        "select i from t where i < 5 or i > 19998 using sample 100% order by i limit 6",
        "select i from t where i is distinct from 3 and i < 9 using sample 20000",
        "select g, count(*) from t join u using (i) where i > 1 group by g using sample 100 percent (bernoulli)",
        "from u using sample 5 rows",
        "from t select count(i) using sample 100%",
        "select count(*) from range(100) tablesample 10 rows",
        "select count(*) from (select * from t) x tablesample 4 rows",
        "with c as (select i from t using sample 4) select count(*) from c",
        "select count(*), count(w) <= 3 from t, u using sample 3",
        "select count(*) from t left join u using (i) using sample reservoir(1%)",
        "select count(*) from (t join u on true) tablesample 7 rows",
        "select count(*) from u tablesample 3 rows using sample 2",
        "select count(*) from u union all select count(*) from u using sample 2",
        "(select count(*) from u) union all (select count(*) from u using sample 2)",
    ],
)
def test_as_many_rows_as_in_duckdb(both: tuple[qcore.Session, duckdb.DuckDBPyConnection], query: str) -> None:
    session, database = both
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table())


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from t tablesample 10%",
        "select count(*) from t tablesample bernoulli(10)",
        "select count(*) from t using sample 10 percent",
        "select count(*) from t where i >= 0 using sample 10%",
    ],
)
def test_share_is_drawn_row_by_row(both: tuple[qcore.Session, duckdb.DuckDBPyConnection], query: str) -> None:
    """Q1: the share of rows is right within 382 rows, nine standard deviations."""
    (drawn,) = both[0].sql(query).to_arrow().column(0).to_pylist()
    assert abs(drawn - N // 10) < 382


def test_samples_differ(both: tuple[qcore.Session, duckdb.DuckDBPyConnection]) -> None:
    first, second = (set(both[0].sql("select i from t using sample 100").to_arrow()["i"].to_pylist()) for _ in "ab")
    assert len(first) == len(second) == 100 and first != second


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select i from t using sample 10% (bernoulli, 42)", "a repeatable sample, (bernoulli, 42)"),
        ("select i from t tablesample 10% repeatable (42)", "a repeatable sample, repeatable (42)"),
        ("select 1 from t tablesample 101%", "a percentage is from 0 % to 100 %"),
        ("select 1 from t tablesample bernoulli(3 rows)", "BERNOULLI draws a percentage of the rows"),
        ("select 1 from t tablesample (1.5 rows)", "a sample is n, n ROWS, n % or n PERCENT"),
        ("select 1 from t tablesample (bucket 1 out of 4)", "not (bucket 1 out of 4)"),
        ("select 1 from t tablesample", "a sample is n, n ROWS"),
        ("select 1 using sample 3", "needs tables in FROM"),
    ],
)
def test_bad_samples_are_errors(both: tuple[qcore.Session, duckdb.DuckDBPyConnection], query: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        both[0].sql(query).to_arrow()
    assert said in str(caught.value)
