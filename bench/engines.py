"""The engines of the benchmark: each runs a row's SQL, or its Polars program, over the same tables to Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from measurement import Engine, Row

# By name: a pyarrow.Table, or the path of a Parquet file.
Tables = dict[str, Any]
#: Engines that other libraries provide.
PEERS = ("duckdb", "polars", "polars memory", "datafusion")


def open_engines(make: Callable[[], Tables], names: Sequence[str], options: Any) -> tuple[dict[str, Engine], Any]:
    """Those of the engines that the options select, over the same tables, and a connection to DuckDB."""
    tables, threads = make(), options.threads
    connection = open_duckdb(tables, threads)
    makers: dict[str, Callable[[], Engine]] = {
        "qcore": lambda: open_qcore(tables, threads),
        "qcore, plan not cached": lambda: open_qcore(tables, threads, is_cached=False),
        "qcore, 1 thread": lambda: open_qcore(tables, 1),
        "duckdb": lambda: Engine(lambda row: connection.sql(row.sql).to_arrow_table()),
        "polars": lambda: open_polars(tables, threads, "streaming"),
        "polars memory": lambda: open_polars(tables, threads, "in-memory"),
        "datafusion": lambda: open_datafusion(tables, threads),
    }
    selected = [name for name in names if name not in PEERS or name in options.engines]
    return {name: makers[name]() for name in selected}, connection


def open_qcore(tables: Tables, threads: int, is_cached: bool = True) -> Engine:
    """A session of qcore, with its plan cache or without."""
    import qcore

    session = qcore.Session(threads=threads)
    for name, table in tables.items():
        session.register(name, table)
    forget = (lambda: None) if is_cached else session.plan_cache.clear
    return Engine(lambda row: session.sql(row.sql).to_arrow(), prepare=forget)


def open_duckdb(tables: Tables, threads: int) -> Any:
    """A connection to DuckDB with the tables registered, or views of the files."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    connection.execute("set enable_progress_bar = false")
    for name, table in tables.items():
        if isinstance(table, str):
            connection.execute(f"create view {name} as from read_parquet('{table}')")
        else:
            connection.register(name, table)
    return connection


def open_polars(tables: Tables, threads: int, engine: str) -> Engine:
    """Polars over lazy frames of the tables. POLARS_MAX_THREADS must be set before the import."""
    import polars as pl

    if pl.thread_pool_size() != threads:
        raise RuntimeError(f"Polars runs {pl.thread_pool_size()} threads, not {threads}")
    frames = {
        name: pl.scan_parquet(table) if isinstance(table, str) else pl.from_arrow(table).lazy()  # type: ignore[union-attr]
        for name, table in tables.items()
    }
    return Engine(
        lambda row: row.polars(frames).collect(engine=engine).to_arrow(),  # type: ignore[misc]
        takes=has_program,
    )


def has_program(row: Row) -> bool:
    """Whether Polars can run a row."""
    return row.polars is not None


def open_datafusion(tables: Tables, threads: int) -> Engine:
    """A context of DataFusion with as many partitions as threads. TOKIO_WORKER_THREADS bounds its threads."""
    import datafusion

    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    for name, table in tables.items():
        if isinstance(table, str):
            context.register_parquet(name, table)
        else:
            # A partition is read by one thread.
            batches = table.to_batches()
            parts = [batches[part::threads] for part in range(threads)]
            context.register_record_batches(name, [part for part in parts if part] or [[empty_batch(table.schema)]])
    return Engine(lambda row: context.sql(row.sql).to_arrow_table())


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
