"""Subqueries in every position, among nulls and of no rows, against DuckDB. SPEC Q2."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows

T = pa.table({"id": [1, 2, 3, 4, 5, 6], "a": [1, 2, None, 4, 5, None], "k": [1, 1, 2, 2, None, 3]})
TABLES = {
    "with_null": pa.table({"x": [1, None, 4, 7], "k": [1, 1, 2, None]}),
    "without": pa.table({"x": [1, 4, 7], "k": [1, 2, None]}),
    "empty": pa.table({"x": pa.array([], pa.int64()), "k": pa.array([], pa.int64())}),
}
# s is replaced by each of the tables.
QUERIES = [
    "select id from t where a not in (select x from s) or id = 1",
    "select id, a in (select x from s) as m, a not in (select x from s) as n from t",
    "select id from t where a not in (select x from s where s.k = t.k)",
    "select id from t where a not in (select x from s where s.k = t.k) or a = 5",
    "select id from t where a not in (select x from s where s.k < t.k) or k = 2",
    "select id from t where (a in (select x from s)) is null",
    "select id from t where coalesce(a in (select x from s), true)",
    "select id from t where coalesce(a in (select x from s where s.k = t.k), true)",
    "select id from t where (a in (select x from s where s.k < t.k)) is null or id = 2",
    "select id, case when a + 1 in (select x from s) then 'y' when not (a in (select x from s)) then 'n' else 'u' end "
    "from t",
    "select id from t where not (a in (select x from s) and id > 2)",
    "select id from t where not (a in (select x from s where s.k = t.k) and id > 2)",
    "select id from t where (a in (select x from s) or id = 3) and k not in (select k from s)",
    "select id from t where exists (select 1 from s where x = t.a) or a not in (select x from s)",
    "select id from t where exists (select 1 from s where s.k = t.k) or a not in (select x from s where s.k = t.k)",
    "select id, exists (select 1 from s) as some, not exists (select 1 from s where x > 3) as none from t",
    "select 3 in (select x from s) as p, 1 in (select x from s) as q, null in (select x from s) as r",
    "select sum(case when a in (select x from s) then 1 else 0 end) from t group by k",
    # A scalar subquery inside a join's condition.
    "select t.id, s.x from t left join s on t.a = s.x and t.id > (select min(x) from s)",
    "select t.id, s.x from t full join s on t.a = (select min(x) from s)",
    "select t.id, s.x from t right join s on s.x > (select min(a) from t) and t.a = s.x",
    # Conditions without columns above an aggregate without keys, which returns a row for no input rows.
    "select count(*) n from t having (select max(x) from s) > 5",
    "select n from (select count(*) n from t) d where (select max(x) from s) > 50",
    "select m from (select min(x) m from s where false) d where not (m = m)",
]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("query", QUERIES)
def test_as_duckdb(query: str, table: str, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("t", T)
    duck.register("s", TABLES[table])
    actual = qcore.sql(query, {"t": T, "s": TABLES[table]}, threads=2).to_arrow()
    assert_same_rows(actual, duck.sql(query))


def test_null_aware_mark_of_a_plan() -> None:
    other = qcore.PlanBuilder().values(TABLES["with_null"].select(["x"]))
    plan = qcore.PlanBuilder().values(T).hash_join(other, "a", "x", how="null_aware_mark").project("id", "mark").build()
    rows = qcore.Session(threads=2).execute(plan).to_arrow().to_pydict()
    assert dict(zip(*rows.values(), strict=True)) == {1: True, 2: None, 3: None, 4: True, 5: None, 6: None}


def test_limits_past_every_row(duck: duckdb.DuckDBPyConnection) -> None:
    """The sum of count and offset exceeds the range of integers."""
    duck.register("t", T)
    for query in (
        "select * from t order by id limit 9223372036854775807 offset 2",
        "select id from t order by id limit 2 offset 9223372036854775807",
        "select id from (select * from t order by id limit 9223372036854775807 offset 1) x where id > 1 "
        "order by id limit 9223372036854775806 offset 1",
    ):
        assert_same_rows(qcore.sql(query, {"t": T}, threads=2).to_arrow(), duck.sql(query), ordered=True)


def test_marks_of_several_joins_are_told_apart(duck: duckdb.DuckDBPyConnection) -> None:
    """Two inputs filter by different marks. They must not be shared."""
    duck.register("t", T)
    duck.register("s", TABLES["without"])
    part = "select id from t where (a in (select x from s) or id = 6) and (k in (select k from s) or id = 5) and {}"
    query = f"{part.format('true')} union all {part.format('a in (select x from s)')}"
    assert_same_rows(qcore.sql(query, {"t": T, "s": TABLES["without"]}, threads=2).to_arrow(), duck.sql(query))
