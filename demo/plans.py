"""TPC-H Q1, Q3 and Q6 as plans built by hand; each scan gets its splits from the application."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from qcore import PlanBuilder, col, lit

DATE = datetime.date
COLUMNS = {
    1: {
        "lineitem": [
            "l_returnflag",
            "l_linestatus",
            "l_quantity",
            "l_extendedprice",
            "l_discount",
            "l_tax",
            "l_shipdate",
        ]
    },
    3: {
        "customer": ["c_custkey", "c_mktsegment"],
        "orders": ["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"],
        "lineitem": ["l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"],
    },
    6: {"lineitem": ["l_quantity", "l_extendedprice", "l_discount", "l_shipdate"]},
}


def scan(number: int, table: str, schemas: dict[str, Any]) -> PlanBuilder:
    """A scan without a source. Its node id is the table's name. The application adds the splits."""
    columns = COLUMNS[number][table]
    return PlanBuilder().scan(table, columns=columns, schema=schemas[table], id=table)


def q01(schemas: dict[str, Any]) -> PlanBuilder:
    """Pricing summary report."""
    discounted = col("l_extendedprice") * (lit(1) - col("l_discount"))
    return (
        scan(1, "lineitem", schemas)
        .filter(col("l_shipdate") <= lit(DATE(1998, 9, 2)))
        .project(
            {
                "l_returnflag": col("l_returnflag"),
                "l_linestatus": col("l_linestatus"),
                "quantity": col("l_quantity"),
                "price": col("l_extendedprice"),
                "discount": col("l_discount"),
                "discounted": discounted,
                "charge": discounted * (lit(1) + col("l_tax")),
            }
        )
        .aggregate(
            keys=["l_returnflag", "l_linestatus"],
            aggs={
                "sum_qty": ("sum", "quantity"),
                "sum_base_price": ("sum", "price"),
                "sum_disc_price": ("sum", "discounted"),
                "sum_charge": ("sum", "charge"),
                "avg_qty": ("avg", "quantity"),
                "avg_price": ("avg", "price"),
                "avg_disc": ("avg", "discount"),
                "count_order": ("count",),
            },
        )
        .order_by(["l_returnflag", "l_linestatus"])
    )


def q03(schemas: dict[str, Any]) -> PlanBuilder:
    """Shipping priority."""
    day = lit(DATE(1995, 3, 15))
    customers = scan(3, "customer", schemas).filter(col("c_mktsegment") == lit("BUILDING"))
    orders = (
        scan(3, "orders", schemas)
        .filter(col("o_orderdate") < day)
        .hash_join(customers, left_on=["o_custkey"], right_on=["c_custkey"], how="left_semi")
    )
    return (
        scan(3, "lineitem", schemas)
        .filter(col("l_shipdate") > day)
        .hash_join(orders, left_on=["l_orderkey"], right_on=["o_orderkey"], how="inner")
        .project(
            {
                "l_orderkey": col("l_orderkey"),
                "volume": col("l_extendedprice") * (lit(1) - col("l_discount")),
                "o_orderdate": col("o_orderdate"),
                "o_shippriority": col("o_shippriority"),
            }
        )
        .aggregate(keys=["l_orderkey", "o_orderdate", "o_shippriority"], aggs={"revenue": ("sum", "volume")})
        .project({name: col(name) for name in ("l_orderkey", "revenue", "o_orderdate", "o_shippriority")})
        .top_n(["revenue desc", "o_orderdate"], 10)
    )


def q06(schemas: dict[str, Any]) -> PlanBuilder:
    """Forecasting revenue change."""
    return (
        scan(6, "lineitem", schemas)
        .filter(
            col("l_shipdate").between(DATE(1994, 1, 1), DATE(1994, 12, 31))
            & col("l_discount").between(Decimal("0.05"), Decimal("0.07"))
            & (col("l_quantity") < lit(24))
        )
        .project({"volume": col("l_extendedprice") * col("l_discount")})
        .aggregate(keys=[], aggs={"revenue": ("sum", "volume")})
    )


PLANS = {1: q01, 3: q03, 6: q06}
