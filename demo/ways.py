"""Functions that run a query of the demo: by SQL, by a task with splits, over Spark, and by DuckDB for comparison."""

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
    """Run a query in DuckDB."""
    import duckdb

    with duckdb.connect(config={"threads": threads}) as connection:
        for name, path in paths.items():
            connection.execute(f"create view {name} as select * from read_parquet('{path}')")
        return connection.sql(query_text(number)).to_arrow_table()


def by_sql(number: int, paths: dict[str, str], threads: int) -> tuple[pa.Table, str]:
    """Run a query by SQL over files; return the answer and the profile."""
    result = qcore.sql(query_text(number), tables=paths, threads=threads)
    with progress(f"Q{number} by SQL", result.task):
        answer = result.to_arrow()
    return answer, result.profile()


def by_splits(number: int, paths: dict[str, str], drivers: int) -> tuple[pa.Table, dict[str, Any]]:
    """Run a plan of PlanBuilder whose splits, two byte sections a file, are added while it runs."""
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
    """Add the splits of every scan one by one, and then declare that there are no more."""
    for name, path in paths.items():
        size = os.path.getsize(path)
        section = -(-size // SPLITS_PER_FILE)
        for start in range(0, size, section):
            task.add_split(name, qcore.FileSplit(path, start=start, length=min(section, size - start)))
    for name in paths:
        task.no_more_splits(name)


def by_spark(number: int, frames: dict[str, Any], threads: int) -> pa.Table:
    """Run a query by SQL over Spark DataFrames that scan files. Spark's file partitions become qcore's splits."""
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
    """Run a part of Q1 over a DataFrame that Spark has grouped. Its partitions arrive as Arrow streams."""
    from pyspark.sql import functions as f

    per_day = lineitem.groupBy("l_returnflag", "l_linestatus", "l_shipdate").agg(
        f.sum("l_quantity").alias("quantity"), f.count("*").alias("orders")
    )
    result = qcore.sql(GROUPED_QUERY, tables={"per_day": per_day}, threads=threads)
    with progress("Q1 over Spark's groups", result.task):
        return result.to_arrow()


@contextmanager
def progress(label: str, task: qcore.Task) -> Iterator[None]:
    """Show a progress bar of splits while the body runs."""
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
    """Return the answer of a function, and the seconds that it took."""
    began = time.perf_counter()
    answer = run(*arguments)
    return answer, time.perf_counter() - began
