"""Plans of another producer, DataFusion, compared with DuckDB's answers to the same SQL (SPEC Q1, B3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from sweeps import every

datafusion = pytest.importorskip("datafusion")

QUERIES = Path(__file__).parents[2] / "bench" / "tpch" / "queries"
T = pa.table({
    "a": pa.array([1, 2, 3, None, 5, 2, -7], pa.int64()),
    "i": pa.array([1, 2, None, 4, 5, 6, 7], pa.int32()),
    "s": ["x", "yy", None, "special x", "", "abc", "x"],
    "f": pa.array([0.5, -1.25, None, 2.0, 3.5, 0.0, 1e10], pa.float64()),
    "l": pa.array([[1, 2], [], None, [None, 4], [5], [6, 7, 8], [9]], pa.list_(pa.int64())),
})  # fmt: skip
U = pa.table({"a": pa.array([1, 2, 2, None, 9], pa.int64()), "b": pa.array([10, 20, None, 2, 5], pa.int64())})

TEXTS = [
    "select a + i as x, a - 1 as y, a / 2 as z, a % 3 as m, -a as n, f / 2 as q from t",
    "select case a when 1 then 'one' when 2 then 'two' else s end as x, coalesce(a, i, 0) as y from t",
    "select upper(s) as u, length(s) as n, s like '%x%' as k, s not ilike 'X%' as j, s || '!' as e from t",
    "select substr(s, 1, 2) as p, trim(s) as t, replace(s, 'x', '-') as r, strpos(s, 'x') as q from t",
    "select a in (1, 2, null) as x, i not in (1, 2) as y, a is distinct from i as z, a between 1 and 3 as b from t",
    "select cast(f as bigint) as x, cast(a as varchar) as y, try_cast(s as int) as z from t where f < 100 and f <> 3.5",
    "select sqrt(abs(f)) as x, round(f, 1) as y, floor(f) as z, power(a, 2) as p, ln(3.0) as n, log(2, 8) as l from t",
    "select date_part('year', d) as y, d + interval '1 day' > date '2024-02-29' as l from "
    "(select date '2024-02-28' + i::int as d from t) q",
    "select count(*) as n, count(a) as c, sum(a) as s, avg(a) as v, min(s) as l, max(f) as h from t",
    "select count(distinct a) as n, stddev(f) as d, var_pop(f) as v, median(a) as m, bool_or(a > 2) as b from t",
    "select s, sum(a) filter (where a > 0) as x, array_agg(a order by i) as l from t group by s having count(*) > 0",
    "select s, i, sum(a) as x from t group by grouping sets ((s), (i), ()) order by 1, 2",
    "select s, grouping(s) as g, sum(a) as x from t group by rollup (s)",
    "select a, row_number() over (order by i) as n, sum(a) over (partition by s order by i) as x from t",
    "select i, lag(a, 1) over (order by i) as p, lead(a, 2, 0) over (order by i) as q, ntile(2) over (order by i) as n "
    "from t where i is not null",
    "select i, sum(a) over (order by i rows between 1 preceding and 1 following) as x from t where i is not null",
    "select t.a, u.b from t left join u on t.a = u.a and u.b > 5",
    "select t.a, u.b from t full join u on t.a = u.a",
    "select a from t where a in (select a from u) and not exists (select 1 from u where u.b = t.i)",
    "select a from t where i > (select avg(b) from u where u.a = t.a)",
    "select a from t where i > (select avg(b) from u) or a = 1",
    "select a from t union select a from u",
    "select a from t except select a from u",
    "select a from t intersect select a from u",
    "select a, i from t order by a desc nulls last, i limit 3 offset 1",
    "select * from (values (1, 'x'), (2, null)) as v(p, q)",
    "select array_has(l, 2) as h, array_length(l) as n, l[1] as e, [a, 7] as m from t",
    "select distinct s from t",
    "with r as (select a, count(*) as n from t group by a) select x.a, y.n from r x join r y on x.a = y.n",
]  # fmt: skip


def produce_plan(context: Any, text: str) -> bytes:
    """DataFusion's optimized plan of a query."""
    plan = context.sql(text).optimized_logical_plan()
    return bytes(datafusion.substrait.Producer.to_substrait_plan(plan, context).encode())


@pytest.mark.parametrize("text", TEXTS)
def test_plans_mean_what_the_text_means(text: str, duck: duckdb.DuckDBPyConnection) -> None:
    context, session = datafusion.SessionContext(), qcore.Session(threads=2)
    for name, table in (("t", T), ("u", U)):
        context.from_arrow(table, name)
        session.register(name, table)
        duck.register(name, table)
    found = session.substrait(produce_plan(context, text)).to_arrow()
    # In DataFusion / of integers is integer division.
    assert_same_rows(found, duck.sql(text.replace("a / 2", "a // 2")), ordered="order by a" in text)


@pytest.mark.parametrize("number", every(3, range(1, 23)))
def test_tpch(number: int, tpch_dir: Path, duck: duckdb.DuckDBPyConnection) -> None:
    """Q4: all 22 queries."""
    context, session = datafusion.SessionContext(), qcore.Session(threads=2)
    for path in tpch_dir.glob("*.parquet"):
        context.register_parquet(path.stem, str(path))
        session.register(path.stem, str(path))
        duck.sql(f"create view {path.stem} as from '{path}'")
    text = (QUERIES / f"q{number:02}.sql").read_text()
    assert_same_rows(session.substrait(produce_plan(context, text)).to_arrow(), duck.sql(text))


def test_a_plan_of_many_terms() -> None:
    """By default protobuf reads messages up to 100 levels deep."""
    context, session = datafusion.SessionContext(), qcore.Session(threads=1)
    context.from_arrow(T, "t")
    session.register("t", T)
    text = f"select {' + '.join(['a'] * 200)} as x from t"
    with pytest.raises(qcore.PlanError, match="nested more than 100 levels deep"):
        session.substrait(produce_plan(context, text))
