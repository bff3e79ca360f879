"""The order of inner joins, with certain and uncertain estimates (SPEC Q2, Q4)."""

from __future__ import annotations

import pyarrow as pa

from qcore.builder.plan_builder import PlanBuilder
from qcore.connectors.base import ColumnStatistics, TableStatistics
from qcore.expression.tree import col
from qcore.optimizer import optimize
from qcore.plan import nodes as p

I64 = pa.int64()


def first_joined(plan: p.PlanNode) -> set[str]:
    """The tables of the lowest join."""
    joins = [node for node in plan.walk() if isinstance(node, (p.HashJoin, p.NestedLoopJoin))]
    return {scan.table for scan in joins[-1].walk() if isinstance(scan, p.Scan)}


def tables(**columns: str) -> dict[str, pa.Schema]:
    return {name: pa.schema([(column, I64) for column in names.split()]) for name, names in columns.items()}


def test_joins_with_keys_come_before_joins_of_unknown_size() -> None:
    """Q4: the cities of customers and suppliers repeat, in unknown numbers. An order has one customer."""
    schemas = tables(customer="c_id c_place", supplier="s_id s_place", orders="o_id o_customer o_supplier")
    sizes = {"customer": 100_000, "supplier": 1_000, "orders": 120_000}
    keys = {"customer": "c_id", "supplier": "s_id", "orders": "o_id"}

    def statistics(scan: p.Scan) -> TableStatistics:
        n_rows = sizes[scan.table]
        return TableStatistics(n_rows, {keys[scan.table]: ColumnStatistics(1, n_rows, 0, n_rows)})

    builder = PlanBuilder(schemas)
    places = builder.scan("customer").hash_join(builder.scan("supplier"), "c_place", "s_place")
    built = places.hash_join(builder.scan("orders"), ["c_id", "s_id"], ["o_customer", "o_supplier"])
    plan = optimize(built.aggregate([], {"n": ("count",)}).build(), statistics)
    assert "orders" in first_joined(plan)


def test_a_guess_of_one_row_does_not_lead_to_a_comparison_of_all_pairs() -> None:
    """Q4: TPC-DS 46 over streams. A filter of a table of unknown size may leave any number of rows."""
    schemas = tables(sales="customer item city", customer="c_id c_address", address="a_id a_city", item="i_id i_x")
    builder = PlanBuilder(schemas)
    some = builder.scan("sales").hash_join(builder.scan("item").filter(col("i_x") == 1), "item", "i_id")
    for bound in range(4):
        some = some.filter(col("customer") != bound).filter(col("item") == col("city") + bound)
    some = some.aggregate(["customer", "city"], {"n": ("count",)})
    joined = some.hash_join(builder.scan("customer"), "customer", "c_id")
    joined = joined.hash_join(builder.scan("address"), "c_address", "a_id", condition=col("city") != col("a_city"))
    plan = optimize(joined.aggregate([], {"m": ("count",)}).build(), lambda scan: None)
    assert not [node for node in plan.walk() if isinstance(node, p.NestedLoopJoin)]
