"""LIMIT, OFFSET and FETCH, compared with DuckDB. SPEC Q2."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from bound_queries import SCHEMAS, check, rows

import qcore
from oracle import assert_same_rows
from qcore.errors import PlanError, QcoreError
from qcore.sql.bind import plan_query


@pytest.mark.parametrize(
    "query",
    [
        "select a from t order by c limit (select 2)",
        "select a from t order by c limit 40%",
        "select a from t order by c limit 1 + 1 offset 1",
        "select a from t order by c offset 2",
        "select a from t order by c limit null",
        "select a from t order by c limit all",
        "select a from t order by c limit all offset 1",
    ],
)
def test_ordered_answers_are_duckdbs(query: str) -> None:
    check(query, ordered=True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select a from t limit -1", "cannot be negative"),
        ("select a from t limit 200%", "a percentage is from 0 % to 100 %"),
        ("select a from t limit a", "unknown column 'a'"),
        ("select a from t limit 'x'", "takes a number of rows, not string"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_query(query, SCHEMAS)


def test_fetch() -> None:
    assert len(rows("select a from t fetch first 2 rows only")) == 2
    assert len(rows("select a from t offset 1 rows fetch next row only")) == 1


N = 10_007
TABLES = {
    "t": pa.table({"i": [n * 7919 % N for n in range(N)], "g": [n % 5 for n in range(N)]}),
    "u": pa.table({"i": pa.array([1, 2, 2, 9, None], pa.int64()), "n": [10, 20, 30, 40, 50]}),
}


@pytest.mark.parametrize(
    "query",
    [
        "select i from t order by i limit 20%",
        "select i, g from t order by g desc, i limit 33.9 percent",
        "select i from t order by i limit 50% offset 9000",
        "select i from t order by i limit 0%",
        "select i from t order by i limit 100% offset 1",
        "select i from u order by i desc nulls last limit 50%",
        "select 42 limit 50%",
        "select i from t where i < 0 order by i limit 50%",
        "select i from t order by i limit (select 3)",
        "select i from t order by i limit (select count(*) from u) offset (select max(n) from u)",
        "select i from t order by i offset (select max(n) from u) limit (select count(*) from u)",
        "select i from t order by i offset (select max(n) * 200 from u) rows",
        "select i from t order by i limit (select null)",
        "select i from t order by i limit 1 offset (select null)",
        "select i from t order by i limit (select i from u where i > 20) offset 10000",
        "select i from t order by i limit (select 2.6)",
        "select i from t order by i limit 2.0",
        "select i from t order by i limit '2'",
        "select i from t order by i limit least(2, 3)",
        "with c as (select count(*) as n from u) select i from t order by i limit (select n from c)",
        "with c as (select i from t order by i limit 1%) select sum(i), count(*) from c",
        "select * from (select i from t order by i limit 50%) x join u using (i) order by all",
        "select i from t union all (select i from u order by i limit 50%) order by 1 limit 30",
        "select i from t union all select i from u order by i nulls last limit 50%",
        "(select i from t order by i limit 50%) except (select i from u order by i limit (select 2)) order by 1",
        "select g, count(*) as c from t group by g order by c, g limit 50%",
        "select distinct g from t order by g limit 50%",
        "select i, row_number() over (order by -i) as r from t order by i limit 50%",
        "select g from t order by i + 1 desc limit 40%",
        "select i from t where i in (select i from u order by i limit 40%) order by i",
        "select i from (select i, g from t order by i limit 50%) order by g desc, i limit 50%",
        "select i from t order by i limit (select count(*) from (select n from u order by n limit 50%))",
        "from u order by i nulls last limit 30%",
        "values (3), (1), (2) order by 1 limit 50%",
    ],
)
def test_limits(both: tuple[qcore.Session, duckdb.DuckDBPyConnection], query: str) -> None:
    session, database = both
    assert_same_rows(session.sql(query).to_arrow(), database.sql(query).to_arrow_table(), ordered=True)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("(select count(*) from (select n from u where u.i = o.i order by n limit 50%))", [0, 1, 0, 0]),
        ("(select n from u where u.i = o.i order by n limit (select 1) offset (select 1))", [None, 30, None, None]),
    ],
)
def test_in_a_correlated_subquery(
    both: tuple[qcore.Session, duckdb.DuckDBPyConnection], query: str, rows: list[int | None]
) -> None:
    """Q2: the limit applies to the rows for each outer row. DuckDB does not support it."""
    values = "(values (1), (2), (3), (9)) o(i)"
    assert both[0].sql(f"select {query} as c from {values} order by o.i").to_arrow()["c"].to_pylist() == rows


@pytest.mark.parametrize("query", ["select i from t limit (select -1)", "select i from t limit 1 offset (select -1)"])
def test_negative_numbers_are_no_limit(both: tuple[qcore.Session, duckdb.DuckDBPyConnection], query: str) -> None:
    with pytest.raises(QcoreError, match="-1"):
        both[0].sql(query).to_arrow()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select i from t limit 101%", "a percentage is from 0 % to 100 %"),
        ("select i from t limit -1 percent", "a percentage is from 0 % to 100 %"),
        ("select i from t limit (5 + 5)%", "the percentage must be a number"),
        ("select i from t offset 10%", "syntax error"),
        ("select i from t limit i", "unknown column 'i'"),
    ],
)
def test_bad_limits_are_errors(both: tuple[qcore.Session, duckdb.DuckDBPyConnection], query: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        both[0].sql(query).to_arrow()
    assert said in str(caught.value)
