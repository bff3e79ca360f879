"""ORDER BY ALL (SPEC Q1): rows in DuckDB's order, for named columns and for a star."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore

TABLES = {
    "t": pa.table({"x": [2, 1, None, 2], "y": ["b", "a", "c", None]}),
    "u": pa.table({"x": [2, 1, 1], "z": [0.5, 1.5, None]}),
}


@pytest.mark.parametrize(
    "query",
    [
        "select * from t order by all",
        "select * from t order by all desc nulls last limit 2",
        "select x * 2 as d, y from t order by all nulls first",
        "select t.*, z from t join u using (x) order by all desc",
        "select * from t full join u using (x) order by all",
        "select * exclude (y), y || 'x' as w from t order by all",
        "select x from t union all select x from u order by all",
        "select * from t union all by name select * from u order by all",
        "with w as (select * from t order by all limit 3) select * from w order by all desc",
        "select * from (select * from u order by all limit 2) as d order by all",
        "select count(*) as n, x from t group by all order by all",
        "select distinct on (x) x, y from t order by all",
        "with w as (select * from t order by all desc limit 2) select * from w natural full join u order by all",
        "with w as (select x as o from (select x, y from t) a natural join (select x, y as e from t) b natural join "
        "(select x, z from u) c) select * from t order by all",
        "select count(*) * 2 as n from (select * from t order by all) as d order by all",
    ],
)
def test_order_by_all(query: str) -> None:
    database, session = duckdb.connect(), qcore.Session()
    for name, table in TABLES.items():
        database.register(name, table)
        session.register(name, table)
    assert session.sql(query).to_arrow().to_pylist() == database.sql(query).to_arrow_table().to_pylist()


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(qcore.PlanError, match="unknown table 'nowhere'"):
        qcore.sql("select * from nowhere order by all", TABLES)
