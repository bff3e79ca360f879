"""FROM without SELECT (SPEC Q1)."""

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
        "from t select distinct a where s <> 'y' order by a limit 1",
        "from t full join (from t select a + 1 as a) q using (a) select *",
        "from (from t select s, count(*) as n group by s) select max(n) as n union all from t select a where a = 1",
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
