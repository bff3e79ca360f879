"""TPC-H queries as a Polars user writes them: lazy frames, streaming engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import polars as pl

Tables = dict[str, pl.LazyFrame]


def q01(tables: Tables) -> pl.LazyFrame:
    """Pricing summary report."""
    discounted = pl.col("l_extendedprice") * (1 - pl.col("l_discount"))
    return (
        tables["lineitem"]
        .filter(pl.col("l_shipdate") <= date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            pl.sum("l_quantity").alias("sum_qty"),
            pl.sum("l_extendedprice").alias("sum_base_price"),
            discounted.sum().alias("sum_disc_price"),
            (discounted * (1 + pl.col("l_tax"))).sum().alias("sum_charge"),
            pl.mean("l_quantity").alias("avg_qty"),
            pl.mean("l_extendedprice").alias("avg_price"),
            pl.mean("l_discount").alias("avg_disc"),
            pl.len().alias("count_order"),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q03(tables: Tables) -> pl.LazyFrame:
    """Shipping priority."""
    day = date(1995, 3, 15)
    return (
        tables["customer"]
        .filter(pl.col("c_mktsegment") == "BUILDING")
        .join(tables["orders"].filter(pl.col("o_orderdate") < day), left_on="c_custkey", right_on="o_custkey")
        .join(tables["lineitem"].filter(pl.col("l_shipdate") > day), left_on="o_orderkey", right_on="l_orderkey")
        .group_by("o_orderkey", "o_orderdate", "o_shippriority")
        .agg((pl.col("l_extendedprice") * (1 - pl.col("l_discount"))).sum().alias("revenue"))
        .select(pl.col("o_orderkey").alias("l_orderkey"), "revenue", "o_orderdate", "o_shippriority")
        .sort("revenue", "o_orderdate", descending=[True, False])
        .head(10)
    )


def q06(tables: Tables) -> pl.LazyFrame:
    """Forecasting revenue change."""
    return (
        tables["lineitem"]
        .filter(
            pl.col("l_shipdate") >= date(1994, 1, 1),
            pl.col("l_shipdate") < date(1995, 1, 1),
            pl.col("l_discount").is_between(Decimal("0.05"), Decimal("0.07")),
            pl.col("l_quantity") < 24,
        )
        .select((pl.col("l_extendedprice") * pl.col("l_discount")).sum().alias("revenue"))
    )


QUERIES = {1: q01, 3: q03, 6: q06}
