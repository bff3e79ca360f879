"""Star Schema Benchmark tables as Parquet, derived from TPC-H's, and kept in data/ (ignored by git).

The fact table is lineitem with its order's columns beside it; the dimensions are TPC-H's customer, supplier and part,
with cities, categories and brands that nest (region > nation > city, manufacturer > category > brand), and a
calendar. Money is in whole cents and discounts in whole percents, as the benchmark has them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tpch_data import ROOT, table_paths

TABLES = ("customer", "date", "lineorder", "part", "supplier")

# A city is its nation's first nine characters and a digit: a nation has ten.
_PLACE = """
    select {columns}, rpad(n_name[:9], 9, ' ') || {key} % 10 as {city}, n_name as {nation}, r_name as {region}{more}
    from tpch_{table} join tpch_nation on n_nationkey = {nation}key join tpch_region on r_regionkey = n_regionkey
    order by {key}
"""


def _place(table: str, key: str, more: str = "") -> str:
    """A customer's or supplier's query: TPC-H's columns, and names for where it is."""
    prefix = key[0]
    city, nation, region = (f"{prefix}_{part}" for part in ("city", "nation", "region"))
    columns = ", ".join([key, *(f"{prefix}_{part}" for part in ("name", "address", "phone"))])
    return _PLACE.format(table=table, key=key, columns=columns, city=city, nation=nation, region=region, more=more)


QUERIES = {
    "customer": _place("customer", "c_custkey", ", c_mktsegment"),
    "supplier": _place("supplier", "s_suppkey"),
    "part": """
        select p_partkey, p_name, replace(p_mfgr, 'Manufacturer', 'MFGR') as p_mfgr,
            replace(p_brand, 'Brand', 'MFGR') as p_category,
            replace(p_brand, 'Brand', 'MFGR') || 1 + p_partkey % 40 as p_brand1,
            split_part(p_name, ' ', 1) as p_color, p_type, p_size, p_container
        from tpch_part order by p_partkey
    """,
    "date": """
        select strftime(day, '%Y%m%d')::int as d_datekey, strftime(day, '%B %-d, %Y') as d_date,
            dayname(day) as d_dayofweek, monthname(day) as d_month, year(day)::int as d_year,
            strftime(day, '%Y%m')::int as d_yearmonthnum, strftime(day, '%b%Y') as d_yearmonth,
            isodow(day)::int as d_daynuminweek, day(day)::int as d_daynuminmonth, dayofyear(day)::int as d_daynuminyear,
            month(day)::int as d_monthnuminyear, ((dayofyear(day) - 1) // 7 + 1)::int as d_weeknuminyear,
            case when month(day) = 12 then 'Christmas' when month(day) in (6, 7, 8) then 'Summer'
                 when month(day) in (1, 2) then 'Winter' when month(day) in (9, 10, 11) then 'Fall'
                 else 'Spring' end as d_sellingseason,
            isodow(day) = 7 as d_lastdayinweekfl, last_day(day) = day as d_lastdayinmonthfl,
            isodow(day) < 6 as d_weekdayfl
        from (select unnest(generate_series(date '1992-01-01', date '1998-12-31', interval 1 day))::date as day)
        order by d_datekey
    """,
    "lineorder": """
        select l_orderkey as lo_orderkey, l_linenumber as lo_linenumber, o_custkey as lo_custkey,
            l_partkey as lo_partkey, l_suppkey as lo_suppkey, strftime(o_orderdate, '%Y%m%d')::int as lo_orderdate,
            o_orderpriority as lo_orderpriority, o_shippriority as lo_shippriority, l_quantity::int as lo_quantity,
            (l_extendedprice * 100)::int as lo_extendedprice, (o_totalprice * 100)::int as lo_ordtotalprice,
            (l_discount * 100)::int as lo_discount,
            (l_extendedprice * 100)::int * (100 - (l_discount * 100)::int) // 100 as lo_revenue,
            (p_retailprice * 60)::int as lo_supplycost, (l_tax * 100)::int as lo_tax,
            strftime(l_commitdate, '%Y%m%d')::int as lo_commitdate, l_shipmode as lo_shipmode
        from tpch_lineitem join tpch_orders on o_orderkey = l_orderkey join tpch_part on p_partkey = l_partkey
        order by lo_orderkey, lo_linenumber
    """,
}


def ssb_folder(scale: float, tpch: dict[str, str] | None = None) -> Path:
    """The folder holding the tables at this scale; made on first use. QCORE_DATA moves it.

    Parameters
    ----------
    scale : float
        As TPC-H's: 1 has six million rows of lineorder.
    tpch : dict of str to str, optional
        Paths of the TPC-H tables to derive from; by default those of the scale, generated where missing.
    """
    import duckdb

    base = Path(os.environ.get("QCORE_DATA", ROOT / "data"))
    folder = base / f"ssb-sf{scale:g}"
    if all((folder / f"{table}.parquet").exists() for table in TABLES):
        return folder
    paths = tpch if tpch is not None else table_paths(scale)
    print(f"deriving SSB at scale {scale:g} …", flush=True)
    partial = base / f"ssb-sf{scale:g}.{os.getpid()}.partial"
    partial.mkdir(parents=True)
    try:
        with duckdb.connect() as connection:
            for name, path in paths.items():
                connection.execute(f"create view tpch_{name} as from read_parquet('{path}')")
            for name, query in QUERIES.items():
                connection.execute(f"copy ({query}) to '{partial / name}.parquet' (format parquet)")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder
