"""Subplans that occur several times are computed once, with DuckDB's results (SPEC Q2, V8)."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.plan import nodes as p

SALES = pa.table({
    "shop": [i * i % 7 for i in range(5000)],
    "day": [i % 30 for i in range(5000)],
    "price": [float(i % 100) for i in range(5000)],
})  # fmt: skip

SUMS = "with sums as (select shop, day, sum(price) as total, count(*) as n from sales group by shop, day) "
# Query, the number of its subplans that are read more than once, and the number of their additional readers.
QUERIES = {
    "self join": (SUMS + "select a.shop, a.total, b.total from sums a join sums b on a.shop = b.shop", 1, 1),
    "self join, other columns used": (
        SUMS + "select a.shop, a.day, a.total from sums a join sums b on a.day = b.day + 1 and a.total > b.total",
        1, 1,
    ),
    "compared with its own average": (SUMS + "select * from sums where total > (select avg(total) from sums)", 1, 1),
    "three times": (
        SUMS + "select a.total from sums a, sums b, sums c where a.shop = b.shop and b.day = c.day and a.day = c.day",
        1, 2,
    ),
    "shared within shared": (
        SUMS + ", best as (select shop, max(total) as best from sums group by shop) "
        "select s.shop, s.day, a.best from sums s join best a on s.shop = a.shop join best b on a.best <= b.best",
        2, 2,
    ),
    "union": (SUMS + "select shop, total from sums union all select day, total from sums", 1, 1),
    "only rows of one place counted": (
        SUMS + "select max(b.total) filter (where b.shop > 2) from sums a cross join sums b group by b.n", 1, 1,
    ),
    "only rows counted": (SUMS + "select count(*) from sums a cross join sums b", 1, 1),
    "limit": (SUMS + "select a.shop from sums a join sums b on a.shop = b.shop order by 1 limit 3", 1, 1),
    "windows": (
        "with w as (select shop, day, row_number() over (partition by shop order by day, price) as r from sales) "
        "select a.shop, a.day, b.day from w a join w b on a.shop = b.shop and a.r = b.r + 1 where a.shop < 10",
        1, 1,
    ),
    "joins that aggregates read whole": (
        "with j as (select a.shop, a.day, b.price from sales a join sales b on a.shop = b.shop and a.day = b.day "
        "where a.shop = 1 and a.price = 3 and b.price = 13) "
        "select shop, sum(price) from j group by shop union all select day, max(price) from j group by day",
        1, 1,
    ),
    "joins of which much is kept": (
        "with j as (select a.shop, a.day, b.price from sales a join sales b on a.shop = b.shop and a.day = b.day) "
        "select shop, sum(price) from j group by shop union all select day, max(price) from j group by day",
        0, 0,
    ),
    "other groups wanted": (
        SUMS + "select * from sums a join sums b on a.day = b.day where a.shop = 1 and b.shop = 2", 1, 1,
    ),
    "a constant computed": (
        "with s as (select shop, sum(price) as total from sales where day >= cast('3' as bigint) + 0 "
        "and day < cast('3' as bigint) + 4 group by shop) "
        "select shop, total from s where total = (select max(total) from s)",
        1, 1,
    ),
    "other groups wanted, of two keys": (
        SUMS + "select a.total, b.total from sums a join sums b on a.day = b.day + 1 "
        "where a.shop = 1 and a.day > 3 and b.shop < 4 and b.day > 3",
        1, 1,
    ),
    "other groups wanted, or all": (
        SUMS + "select a.shop, a.day, b.total from sums a join sums b on a.day = b.day where a.shop = 1", 1, 1,
    ),
    "other groups wanted, of four": (
        SUMS + "select a.total, b.total, c.total, d.total from sums a, sums b, sums c, sums d where a.day = b.day "
        "and b.day = c.day and c.day = d.day and a.shop = 1 and b.shop = 2 and c.shop = 4 and d.shop = 1",
        2, 3,
    ),
    "other groups wanted, through joins": (
        "with s as (select a.shop, b.day, sum(a.price) as total from sales a join sales b on a.day = b.shop "
        "and a.price = b.price group by a.shop, b.day) "
        "select a.day, a.total, b.total from s a join s b on a.day = b.day "
        "where a.shop = 1 and b.shop = 2 and b.day < 9",
        1, 1,
    ),
    "other groups wanted, other sums": (
        "select * from (select shop, day, sum(price) as s from sales group by shop, day having shop = 1) a "
        "join (select shop, day, max(price) as s from sales group by shop, day having shop = 2) b on a.day = b.day",
        0, 0,
    ),
    "other rows wanted": (
        "select * from (select day, sum(price) as s from sales where shop = 1 group by day) a "
        "join (select day, sum(price) as s from sales where shop = 2 group by day) b on a.day = b.day",
        0, 0,
    ),
    "other constants": (
        "select * from (select shop, sum(price * 2) as s from sales group by shop) a "
        "join (select shop, sum(price * 3) as s from sales group by shop) b on a.shop = b.shop",
        0, 0,
    ),
    "other keys": (
        "select * from (select shop, sum(price) as s from sales group by shop) a "
        "join (select day, sum(price) as s from sales group by day) b on a.shop = b.day",
        0, 0,
    ),
    "other functions": (
        "select * from (select shop, min(price) as s from sales group by shop) a "
        "join (select shop, max(price) as s from sales group by shop) b on a.shop = b.shop",
        0, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_and_places(name: str, threads: int, duck: duckdb.DuckDBPyConnection) -> None:
    """Q2: only equal subplans are computed once. Each reader gets all rows under its own names."""
    text, n_shared, n_reads = QUERIES[name]
    result = qcore.sql(text, {"sales": SALES}, threads=threads, timeout=30)
    shown = str(result.explain())
    assert (shown.count("Shared "), shown.count("SharedRead ")) == (n_shared, n_reads), shown
    duck.register("sales", SALES)
    assert_same_rows(result.to_arrow(), duck.sql(text).to_arrow_table())


def test_a_read_without_its_subplan_is_refused() -> None:
    schema = pa.schema([("a", pa.int64())])
    like = p.Values("0", schema, pa.table({"a": [1]}))
    with pytest.raises(qcore.PlanError, match="node read reads the shared subplan 'gone'"):
        qcore.Task(p.SharedRead("read", schema, "gone", ("a",), like)).wait()


def test_an_error_in_a_subplan_surfaces_once() -> None:
    """D9: both sides of the join wait for the subplan that fails."""
    text = "with s as (select day, sum(cast(word as bigint)) as x from t group by day) "
    text += "select * from s a join s b using (day)"
    table = pa.table({"day": [1, 2], "word": ["1", "no number"]})
    with pytest.raises(qcore.ExecutionError, match="no number"):
        qcore.sql(text, {"t": table}, threads=3, timeout=30).to_arrow()


def test_a_subplan_without_readers_is_not_computed() -> None:
    """V8: the other side of the join is empty, so the last reader of the subplan leaves early."""
    text = SUMS + "select * from sums a join sums b on a.shop = b.shop where a.total > 1000000000 limit 0"
    assert qcore.sql(text, {"sales": SALES}, threads=2, timeout=30).to_arrow().num_rows == 0
