"""FROM without SELECT, and the names of columns that the query gave none (SPEC Q1)."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore

T = pa.table({"a": [1, 2, None], "s": ["x", "y", "from t"]})


@pytest.mark.parametrize(
    "query",
    [
        "from t",
        "from t where a = 1",
        "from t order by a desc nulls last limit 1",
        "select s from (from t) q where a > 1",
        "with w as (from t where a = 2) from w union all from t",
        "with w as (select a from t) from w join t using (a)",
        "from t left join (from t where a = 1) q using (a)",
        "from t select s",
        "select s from t where s = 'from t'",
    ],
)
def test_from_alone_selects_all(query: str) -> None:
    database, session = duckdb.connect(), qcore.Session()
    database.register("t", T)
    session.register("t", T)
    wanted, got = database.sql(query).to_arrow_table(), session.sql(query).to_arrow()
    assert got.column_names == wanted.column_names
    rows = [sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr) for table in (got, wanted)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("date '2024-01-31' + interval 1 month", "'2024-01-31' + INTERVAL '1 month'"),
        ("d - interval '2' hour", "d - INTERVAL '2 hours'"),
        ("d + interval '1 year 3 days 90 seconds'", "d + INTERVAL '12 months 3 days 90 seconds'"),
        ("d - interval '1 millisecond'", "d - INTERVAL '1 millisecond'"),
        ("d + interval '0' day", "d + INTERVAL '0 days'"),
        ("try_cast('x' as int)", "'x'"),
        ("'it''s'", "'it''s'"),
    ],
)
def test_names_of_constants(expression: str, name: str) -> None:
    result = qcore.Session().sql(f"select {expression} from (select timestamp '2024-01-01 00:00:00' as d) q")
    assert result.to_arrow().column_names == [name]
