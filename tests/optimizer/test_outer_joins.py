"""Outer joins moved above inner joins, and outer joins of which only rows without a match remain (SPEC Q2, Q4)."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.plan import nodes as p

N = 4000
TABLES = {
    "sales": pa.table({
        "item": [None if i % 97 == 0 else i % 500 for i in range(N)],
        "ticket": [None if i % 89 == 0 else i % 700 for i in range(N)],
        "day": [None if i % 50 == 0 else i % 100 for i in range(N)],
        "price": [i * 7 % 1000 for i in range(N)],
    }),
    "returns": pa.table({
        "r_item": [None if i % 41 == 0 else i % 450 for i in range(900)],
        "r_ticket": [None if i % 43 == 0 else i % 600 for i in range(900)],
        "amount": [None if i % 3 == 0 else i * 11 % 1000 for i in range(900)],
    }),
    "days": pa.table({"d_day": range(100), "month": [i // 10 for i in range(100)]}),
    "shops": pa.table({"s_day": [i % 20 for i in range(60)], "shop": range(60)}),
}  # fmt: skip
LEFT = "from sales left join returns on item = r_item and ticket = r_ticket "
# Query, and the joins of its plan from the root down.
QUERIES = {
    "a filter of days": (f"select price, amount {LEFT} join days on day = d_day where month = 3", ["left", "inner"]),
    "two inner joins": (
        f"select price, amount, shop {LEFT} join days on day = d_day join shops on d_day = s_day where month = 1",
        ["left", "inner", "inner"],
    ),
    "a condition in ON": (
        "select price, amount from sales left join returns on item = r_item and amount < price "
        "join days on day = d_day where month = 3",
        ["left", "inner"],
    ),
    "no equal columns": (
        "select price, amount from sales left join returns on item = r_item * 2 + price "
        "join days on day = d_day where month = 3",
        ["left", "inner"],
    ),
    "two outer joins": (
        f"select price, amount, r from {LEFT.removeprefix('from')} left join (select r_ticket as t, max(amount) as r "
        "from returns group by r_ticket) on t = ticket join days on day = d_day where month = 2",
        ["left", "left", "inner"],
    ),
    "joined by what was returned": (f"select price, shop {LEFT} join shops on amount = s_day", ["inner", "left"]),
    "rows without a match": (f"select item, price, amount {LEFT} where r_ticket is null", ["left_anti"]),
    "… and more is asked": (
        f"select item, price, amount {LEFT} where r_item is null and r_ticket is null and price > 10 "
        "and coalesce(amount, price) > 20",
        ["left_anti"],
    ),
    "… on a condition in ON": (
        "select item, price, amount from sales left join returns on item = r_item and amount < price "
        "where r_item is null",
        ["left_anti"],
    ),
    "what may be null with a match": (f"select item, price, amount {LEFT} where amount is null", ["left"]),
    "rows without a match, of some days": (
        f"select price, amount {LEFT} join days on day = d_day where r_item is null and month = 3",
        ["left_anti", "inner"],
    ),
    "rows without a match, computed with": (
        f"select price + d_day as x, amount {LEFT} join days on day = d_day where r_item is null and month = 3",
        ["left_anti", "inner"],
    ),
    "NOT EXISTS, of some days": (
        "select price from sales join days on day = d_day where month = 3 "
        "and not exists (select 1 from returns where r_item = item and r_ticket = ticket)",
        ["left_anti", "inner"],
    ),
    "all its columns": (f"select * {LEFT} join days on day = d_day where month = 3", ["left", "inner"]),
}


@pytest.mark.parametrize("name", QUERIES)
def test_outer_joins(name: str) -> None:
    """Q4: the joins are in the cheaper order, and the rows are those of DuckDB."""
    text, kinds = QUERIES[name]
    result = qcore.sql(text, TABLES, threads=2)
    joins = [node.kind for node in result.plan.walk() if isinstance(node, (p.HashJoin, p.NestedLoopJoin))]
    assert joins == kinds
    connection = duckdb.connect()
    for table, rows in TABLES.items():
        connection.register(table, rows)
    assert_same_rows(result.to_arrow(), connection.sql(text).to_arrow_table())
