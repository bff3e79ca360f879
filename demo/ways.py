"""The ways of running a query that the demo shows: SQL, a task with splits, Spark; and DuckDB to compare with."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import qcore
from plans import COLUMNS, PLANS
from qcore.progress import ProgressBar
from tpch_data import query_text

SPLITS_PER_FILE = 2


def by_duckdb(number: int, paths: dict[str, str], threads: int) -> pa.Table:
    """The answer to compare with."""
    import duckdb

    with duckdb.connect(config={"threads": threads}) as connection:
        for name, path in paths.items():
            connection.execute(f"create view {name} as select * from read_parquet('{path}')")
        return connection.sql(query_text(number)).to_arrow_table()


def by_sql(number: int, paths: dict[str, str], threads: int) -> tuple[pa.Table, str]:
    """SQL over files. Also gives the profile."""
    result = qcore.sql(query_text(number), tables=paths, threads=threads)
    with progress(f"Q{number} by SQL", result.task):
        answer = result.to_arrow()
    return answer, result.profile()


def by_splits(number: int, paths: dict[str, str], drivers: int) -> tuple[pa.Table, dict[str, Any]]:
    """A plan of one's own; its splits are added while it runs, two byte sections a file."""
    tables = COLUMNS[number]
    schemas = {name: pq.read_schema(paths[name]) for name in tables}
    task = qcore.Task(PLANS[number](schemas).build(), drivers=drivers)
    task.start()
    feeder = threading.Thread(target=feed, args=(task, {name: paths[name] for name in tables}))
    feeder.start()
    try:
        with progress(f"Q{number} by splits", task):
            batches = list(task.batches())
    finally:
        feeder.join()
    return pa.Table.from_batches(batches, schema=task.schema), task.stats()


def feed(task: qcore.Task, paths: dict[str, str]) -> None:
    """Give every scan its splits, one by one; no_more_splits comes last."""
    for name, path in paths.items():
        size = os.path.getsize(path)
        section = -(-size // SPLITS_PER_FILE)
        for start in range(0, size, section):
            task.add_split(name, qcore.FileSplit(path, start=start, length=min(section, size - start)))
    for name in paths:
        task.no_more_splits(name)


def by_spark(number: int, frames: dict[str, Any], threads: int) -> pa.Table:
    """SQL over Spark DataFrames that scan files: qcore takes Spark's own file partitions as its splits."""
    used = {name: frames[name] for name in COLUMNS[number]}
    result = qcore.sql(query_text(number), tables=used, threads=threads)
    with progress(f"Q{number} over Spark", result.task):
        return result.to_arrow()


GROUPED_QUERY = """
select l_returnflag, l_linestatus, sum(quantity) as sum_qty, sum(orders) as count_order
from per_day where l_shipdate <= date '1998-09-02'
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus
"""


def by_spark_after_grouping(lineitem: Any, threads: int) -> pa.Table:
    """Part of Q1 over a DataFrame that Spark has grouped: its partitions come as Arrow streams, one at a time."""
    from pyspark.sql import functions as f

    per_day = lineitem.groupBy("l_returnflag", "l_linestatus", "l_shipdate").agg(
        f.sum("l_quantity").alias("quantity"), f.count("*").alias("orders")
    )
    result = qcore.sql(GROUPED_QUERY, tables={"per_day": per_day}, threads=threads)
    with progress("Q1 over Spark's groups", result.task):
        return result.to_arrow()


@contextmanager
def progress(label: str, task: qcore.Task) -> Iterator[None]:
    """A bar of splits while the block runs."""
    with ProgressBar(label) as bar:
        if not bar.shown:
            yield
            return
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.05):
                bar.update(*task.progress())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def timed(run: Any, *arguments: Any) -> tuple[Any, float]:
    """What it gives, and the seconds it took."""
    began = time.perf_counter()
    answer = run(*arguments)
    return answer, time.perf_counter() - began
