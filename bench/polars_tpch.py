"""The TPC-H queries as a Polars user writes them: lazy frames, joins in the order of selectivity."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import polars as pl
from polars import col

Tables = dict[str, pl.LazyFrame]

REVENUE = col("l_extendedprice") * (1 - col("l_discount"))


def between(column: str, low: date, high: date) -> pl.Expr:
    """Whether low <= column < high."""
    return (col(column) >= low) & (col(column) < high)


def suppliers_of(t: Tables, region: str) -> pl.LazyFrame:
    """Suppliers with their nation and region."""
    nations = t["nation"].join(
        t["region"].filter(col("r_name") == region), left_on="n_regionkey", right_on="r_regionkey"
    )
    return t["supplier"].join(nations, left_on="s_nationkey", right_on="n_nationkey")


def q01(t: Tables) -> pl.LazyFrame:
    """Pricing summary report."""
    return (
        t["lineitem"]
        .filter(col("l_shipdate") <= date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            pl.sum("l_quantity").alias("sum_qty"),
            pl.sum("l_extendedprice").alias("sum_base_price"),
            REVENUE.sum().alias("sum_disc_price"),
            (REVENUE * (1 + col("l_tax"))).sum().alias("sum_charge"),
            pl.mean("l_quantity").alias("avg_qty"),
            pl.mean("l_extendedprice").alias("avg_price"),
            pl.mean("l_discount").alias("avg_disc"),
            pl.len().alias("count_order"),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q02(t: Tables) -> pl.LazyFrame:
    """Minimum cost supplier."""
    parts = t["part"].filter((col("p_size") == 15) & col("p_type").str.ends_with("BRASS"))
    offers = (
        t["partsupp"]
        .join(parts, left_on="ps_partkey", right_on="p_partkey")
        .join(suppliers_of(t, "EUROPE"), left_on="ps_suppkey", right_on="s_suppkey")
    )
    least = offers.group_by("ps_partkey").agg(pl.min("ps_supplycost"))
    return (
        offers.join(least, on=["ps_partkey", "ps_supplycost"])
        .select("s_acctbal", "s_name", "n_name", "ps_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
        .sort("s_acctbal", "n_name", "s_name", "ps_partkey", descending=[True, False, False, False])
        .head(100)
    )


def q03(t: Tables) -> pl.LazyFrame:
    """Shipping priority."""
    day = date(1995, 3, 15)
    return (
        t["customer"]
        .filter(col("c_mktsegment") == "BUILDING")
        .join(t["orders"].filter(col("o_orderdate") < day), left_on="c_custkey", right_on="o_custkey")
        .join(t["lineitem"].filter(col("l_shipdate") > day), left_on="o_orderkey", right_on="l_orderkey")
        .group_by("o_orderkey", "o_orderdate", "o_shippriority")
        .agg(REVENUE.sum().alias("revenue"))
        .select("o_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .sort("revenue", "o_orderdate", descending=[True, False])
        .head(10)
    )


def q04(t: Tables) -> pl.LazyFrame:
    """Order priority checking."""
    late = t["lineitem"].filter(col("l_commitdate") < col("l_receiptdate"))
    return (
        t["orders"]
        .filter(between("o_orderdate", date(1993, 7, 1), date(1993, 10, 1)))
        .join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
        .group_by("o_orderpriority")
        .agg(pl.len())
        .sort("o_orderpriority")
    )


def q05(t: Tables) -> pl.LazyFrame:
    """Local supplier volume."""
    orders = t["orders"].filter(between("o_orderdate", date(1994, 1, 1), date(1995, 1, 1)))
    return (
        t["lineitem"]
        .join(
            orders.join(t["customer"], left_on="o_custkey", right_on="c_custkey"),
            left_on="l_orderkey",
            right_on="o_orderkey",
        )
        .join(
            suppliers_of(t, "ASIA").with_columns(c_nationkey=col("s_nationkey")),
            left_on=["l_suppkey", "c_nationkey"],
            right_on=["s_suppkey", "c_nationkey"],
        )
        .group_by("n_name")
        .agg(REVENUE.sum().alias("revenue"))
        .sort("revenue", descending=True)
    )


def q06(t: Tables) -> pl.LazyFrame:
    """Forecasting revenue change."""
    return (
        t["lineitem"]
        .filter(
            between("l_shipdate", date(1994, 1, 1), date(1995, 1, 1)),
            col("l_discount").is_between(Decimal("0.05"), Decimal("0.07")),
            col("l_quantity") < 24,
        )
        .select((col("l_extendedprice") * col("l_discount")).sum().alias("revenue"))
    )


def q07(t: Tables) -> pl.LazyFrame:
    """Volume shipping."""
    two = t["nation"].filter(col("n_name").is_in(["FRANCE", "GERMANY"]))
    sellers = (
        t["supplier"].join(two, left_on="s_nationkey", right_on="n_nationkey").select("s_suppkey", seller="n_name")
    )
    buyers = t["customer"].join(two, left_on="c_nationkey", right_on="n_nationkey").select("c_custkey", buyer="n_name")
    return (
        t["lineitem"]
        .filter(col("l_shipdate").is_between(date(1995, 1, 1), date(1996, 12, 31)))
        .join(sellers, left_on="l_suppkey", right_on="s_suppkey")
        .join(
            t["orders"].join(buyers, left_on="o_custkey", right_on="c_custkey"),
            left_on="l_orderkey",
            right_on="o_orderkey",
        )
        .filter(col("seller") != col("buyer"))
        .group_by("seller", "buyer", year=col("l_shipdate").dt.year())
        .agg(REVENUE.sum().alias("revenue"))
        .sort("seller", "buyer", "year")
    )


def q08(t: Tables) -> pl.LazyFrame:
    """National market share."""
    region = t["region"].filter(col("r_name") == "AMERICA")
    nations = t["nation"].join(region, left_on="n_regionkey", right_on="r_regionkey")
    buyers = t["customer"].join(nations, left_on="c_nationkey", right_on="n_nationkey").select("c_custkey")
    sellers = (
        t["supplier"].join(t["nation"], left_on="s_nationkey", right_on="n_nationkey").select("s_suppkey", "n_name")
    )
    orders = t["orders"].filter(col("o_orderdate").is_between(date(1995, 1, 1), date(1996, 12, 31)))
    return (
        t["lineitem"]
        .join(t["part"].filter(col("p_type") == "ECONOMY ANODIZED STEEL"), left_on="l_partkey", right_on="p_partkey")
        .join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(buyers, left_on="o_custkey", right_on="c_custkey")
        .join(sellers, left_on="l_suppkey", right_on="s_suppkey")
        .select("n_name", year=col("o_orderdate").dt.year(), volume=REVENUE.cast(pl.Float64))
        .group_by("year")
        .agg(share=col("volume").filter(col("n_name") == "BRAZIL").sum() / col("volume").sum())
        .sort("year")
    )


def q09(t: Tables) -> pl.LazyFrame:
    """Product type profit measure."""
    sellers = (
        t["supplier"].join(t["nation"], left_on="s_nationkey", right_on="n_nationkey").select("s_suppkey", "n_name")
    )
    return (
        t["lineitem"]
        .join(
            t["part"].filter(col("p_name").str.contains("green", literal=True)),
            left_on="l_partkey",
            right_on="p_partkey",
        )
        .join(t["partsupp"], left_on=["l_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
        .join(sellers, left_on="l_suppkey", right_on="s_suppkey")
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .group_by("n_name", year=col("o_orderdate").dt.year())
        .agg(profit=(REVENUE - col("ps_supplycost") * col("l_quantity")).sum())
        .sort("n_name", "year", descending=[False, True])
    )


def q10(t: Tables) -> pl.LazyFrame:
    """Returned item reporting."""
    orders = t["orders"].filter(between("o_orderdate", date(1993, 10, 1), date(1994, 1, 1)))
    keys = ("o_custkey", "c_name", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")
    return (
        t["lineitem"]
        .filter(col("l_returnflag") == "R")
        .join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .join(t["nation"], left_on="c_nationkey", right_on="n_nationkey")
        .group_by(keys)
        .agg(REVENUE.sum().alias("revenue"))
        .select(*keys[:2], "revenue", *keys[2:])
        .sort("revenue", descending=True)
        .head(20)
    )


def q11(t: Tables) -> pl.LazyFrame:
    """Important stock identification."""
    germans = t["supplier"].join(
        t["nation"].filter(col("n_name") == "GERMANY"), left_on="s_nationkey", right_on="n_nationkey"
    )
    value = (col("ps_supplycost") * col("ps_availqty")).sum().alias("value")
    stock = t["partsupp"].join(germans, left_on="ps_suppkey", right_on="s_suppkey")
    total = stock.select(least=value.cast(pl.Float64) * 0.0001)
    return (
        stock.group_by("ps_partkey")
        .agg(value)
        .join(total, how="cross")
        .filter(col("value").cast(pl.Float64) > col("least"))
        .select("ps_partkey", "value")
        .sort("value", descending=True)
    )


def q12(t: Tables) -> pl.LazyFrame:
    """Shipping modes and order priority."""
    is_high = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t["lineitem"]
        .filter(
            col("l_shipmode").is_in(["MAIL", "SHIP"]),
            col("l_commitdate") < col("l_receiptdate"),
            col("l_shipdate") < col("l_commitdate"),
            between("l_receiptdate", date(1994, 1, 1), date(1995, 1, 1)),
        )
        .join(t["orders"], left_on="l_orderkey", right_on="o_orderkey")
        .group_by("l_shipmode")
        .agg(high=is_high.sum(), low=(~is_high).sum())
        .sort("l_shipmode")
    )


def q13(t: Tables) -> pl.LazyFrame:
    """Customer distribution."""
    return (
        t["customer"]
        .join(
            t["orders"].filter(~col("o_comment").str.contains("special.*requests")),
            left_on="c_custkey",
            right_on="o_custkey",
            how="left",
        )
        .group_by("c_custkey")
        .agg(c_count=col("o_orderkey").count())
        .group_by("c_count")
        .agg(custdist=pl.len())
        .sort("custdist", "c_count", descending=True)
    )


def q14(t: Tables) -> pl.LazyFrame:
    """Promotion effect."""
    revenue = REVENUE.cast(pl.Float64)
    return (
        t["lineitem"]
        .filter(between("l_shipdate", date(1995, 9, 1), date(1995, 10, 1)))
        .join(t["part"], left_on="l_partkey", right_on="p_partkey")
        .select(100 * revenue.filter(col("p_type").str.starts_with("PROMO")).sum() / revenue.sum())
    )


def q15(t: Tables) -> pl.LazyFrame:
    """Top supplier."""
    revenue = (
        t["lineitem"]
        .filter(between("l_shipdate", date(1996, 1, 1), date(1996, 4, 1)))
        .group_by("l_suppkey")
        .agg(total_revenue=REVENUE.sum())
    )
    return (
        t["supplier"]
        .join(revenue, left_on="s_suppkey", right_on="l_suppkey")
        .filter(col("total_revenue") == col("total_revenue").max())
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .sort("s_suppkey")
    )


def q16(t: Tables) -> pl.LazyFrame:
    """Parts and suppliers."""
    parts = t["part"].filter(
        col("p_brand") != "Brand#45",
        ~col("p_type").str.starts_with("MEDIUM POLISHED"),
        col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
    )
    complaints = t["supplier"].filter(col("s_comment").str.contains("Customer.*Complaints"))
    return (
        t["partsupp"]
        .join(parts, left_on="ps_partkey", right_on="p_partkey")
        .join(complaints, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
        .group_by("p_brand", "p_type", "p_size")
        .agg(supplier_cnt=col("ps_suppkey").n_unique())
        .sort("supplier_cnt", "p_brand", "p_type", "p_size", descending=[True, False, False, False])
    )


def q17(t: Tables) -> pl.LazyFrame:
    """Small-quantity-order revenue."""
    parts = t["part"].filter((col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX"))
    lines = t["lineitem"].join(parts, left_on="l_partkey", right_on="p_partkey")
    limits = lines.group_by("l_partkey").agg(limit=0.2 * col("l_quantity").cast(pl.Float64).mean())
    return (
        lines.join(limits, on="l_partkey")
        .filter(col("l_quantity").cast(pl.Float64) < col("limit"))
        # Polars' sum of no rows is 0, SQL's is null.
        .select(pl.when(pl.len() > 0).then(col("l_extendedprice").sum().cast(pl.Float64) / 7.0))
    )


def q18(t: Tables) -> pl.LazyFrame:
    """Large volume customer."""
    large = t["lineitem"].group_by("l_orderkey").agg(quantity=pl.sum("l_quantity")).filter(col("quantity") > 300)
    return (
        t["orders"]
        .join(large, left_on="o_orderkey", right_on="l_orderkey")
        .join(t["customer"], left_on="o_custkey", right_on="c_custkey")
        .select("c_name", "o_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity")
        .sort("o_totalprice", "o_orderdate", descending=[True, False])
        .head(100)
    )


def q19(t: Tables) -> pl.LazyFrame:
    """Discounted revenue."""

    def kind(brand: str, containers: str, quantity: int, size: int) -> pl.Expr:
        return (
            (col("p_brand") == brand)
            & col("p_container").is_in(containers.split(","))
            & col("l_quantity").is_between(quantity, quantity + 10)
            & col("p_size").is_between(1, size)
        )

    return (
        t["lineitem"]
        .filter(col("l_shipmode").is_in(["AIR", "AIR REG"]), col("l_shipinstruct") == "DELIVER IN PERSON")
        .join(t["part"], left_on="l_partkey", right_on="p_partkey")
        .filter(
            kind("Brand#12", "SM CASE,SM BOX,SM PACK,SM PKG", 1, 5)
            | kind("Brand#23", "MED BAG,MED BOX,MED PKG,MED PACK", 10, 10)
            | kind("Brand#34", "LG CASE,LG BOX,LG PACK,LG PKG", 20, 15)
        )
        .select(REVENUE.sum().alias("revenue"))
    )


def q20(t: Tables) -> pl.LazyFrame:
    """Potential part promotion."""
    shipped = (
        t["lineitem"]
        .filter(between("l_shipdate", date(1994, 1, 1), date(1995, 1, 1)))
        .group_by("l_partkey", "l_suppkey")
        .agg(half=0.5 * col("l_quantity").sum().cast(pl.Float64))
    )
    offers = (
        t["partsupp"]
        .join(
            t["part"].filter(col("p_name").str.starts_with("forest")),
            left_on="ps_partkey",
            right_on="p_partkey",
            how="semi",
        )
        .join(shipped, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
        .filter(col("ps_availqty") > col("half"))
    )
    return (
        t["supplier"]
        .join(t["nation"].filter(col("n_name") == "CANADA"), left_on="s_nationkey", right_on="n_nationkey")
        .join(offers, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
        .select("s_name", "s_address")
        .sort("s_name")
    )


def q21(t: Tables) -> pl.LazyFrame:
    """Suppliers who kept orders waiting."""
    several = t["lineitem"].group_by("l_orderkey").agg(n=col("l_suppkey").n_unique()).filter(col("n") > 1)
    late = t["lineitem"].filter(col("l_receiptdate") > col("l_commitdate")).join(several, on="l_orderkey", how="semi")
    alone = late.group_by("l_orderkey").agg(n_late=col("l_suppkey").n_unique()).filter(col("n_late") == 1)
    sellers = t["supplier"].join(
        t["nation"].filter(col("n_name") == "SAUDI ARABIA"), left_on="s_nationkey", right_on="n_nationkey"
    )
    return (
        late.join(alone, on="l_orderkey", how="semi")
        .join(sellers, left_on="l_suppkey", right_on="s_suppkey")
        .join(t["orders"].filter(col("o_orderstatus") == "F"), left_on="l_orderkey", right_on="o_orderkey", how="semi")
        .group_by("s_name")
        .agg(numwait=pl.len())
        .sort("numwait", "s_name", descending=[True, False])
        .head(100)
    )


def q22(t: Tables) -> pl.LazyFrame:
    """Global sales opportunity."""
    customers = t["customer"].with_columns(code=col("c_phone").str.slice(0, 2))
    customers = customers.filter(col("code").is_in(["13", "31", "23", "29", "30", "18", "17"]))
    balance = col("c_acctbal").cast(pl.Float64)
    mean = customers.filter(col("c_acctbal") > 0).select(mean=balance.mean())
    return (
        customers.join(mean, how="cross")
        .filter(balance > col("mean"))
        .join(t["orders"], left_on="c_custkey", right_on="o_custkey", how="anti")
        .group_by("code")
        .agg(pl.len(), pl.sum("c_acctbal"))
        .sort("code")
    )


QUERIES: dict[str, Callable[[Tables], pl.LazyFrame]] = {
    query.__name__: query
    for query in (q01, q02, q03, q04, q05, q06, q07, q08, q09, q10, q11)
    + (q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22)
}
