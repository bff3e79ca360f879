"""The engines under test: each runs a TPC-H query over the same tables and answers a pyarrow.Table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tpch_data import query_text

Run = Callable[[int], pa.Table]
# A source holds every table as a pyarrow.Table or as the path of a Parquet file.
Source = dict[str, Any]


def duckdb_run(source: Source, threads: int) -> Run:
    """DuckDB over registered Arrow tables or views of Parquet files."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    for name, table in source.items():
        if isinstance(table, str):
            connection.execute(f"create view {name} as select * from read_parquet('{table}')")
        else:
            connection.register(name, table)
    return lambda number: connection.sql(query_text(number)).to_arrow_table()


def polars_run(source: Source, threads: int) -> Run:
    """Polars' streaming engine; its threads are set by POLARS_MAX_THREADS before the import."""
    import polars as pl

    from polars_queries import QUERIES

    if pl.thread_pool_size() != threads:
        raise RuntimeError(f"Polars runs {pl.thread_pool_size()} threads, not {threads}")
    # The conversion to frames is not measured, because users of Polars have frames.
    frames = {
        name: pl.scan_parquet(table) if isinstance(table, str) else pl.from_arrow(table).lazy()  # type: ignore[union-attr]
        for name, table in source.items()
    }
    return lambda number: QUERIES[number](frames).collect(engine="streaming").to_arrow()


def qcore_run(source: Source, threads: int) -> Run:
    """qcore by SQL."""
    import qcore

    return lambda number: qcore.sql(query_text(number), tables=source, threads=threads).to_arrow()


ENGINES: dict[str, Callable[[Source, int], Run]] = {"qcore": qcore_run, "duckdb": duckdb_run, "polars": polars_run}
