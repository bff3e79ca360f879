"""TPC-H's lineitem as Parquet files of several writers, made once and kept beside the generated tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tpch_data import tpch_folder


def by_pyarrow(source: str, target: Path) -> None:
    """With the options that pyarrow has by default."""
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(source), target)


def by_duckdb(version: str, source: str, target: Path) -> None:
    """By COPY, with data pages and encodings of a version of Parquet."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set enable_progress_bar = false")
    connection.execute(f"copy (from '{source}') to '{target}' (format parquet, parquet_version {version})")


def by_polars(source: str, target: Path) -> None:
    """With the options that Polars has by default."""
    import polars as pl

    pl.read_parquet(source).write_parquet(target)


SPARK_PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.read.parquet(sys.argv[1]).coalesce(1).write.parquet(sys.argv[2])
"""


def by_spark(source: str, target: Path) -> None:
    """By a Spark in a process of its own, as one file."""
    folder = target.with_suffix(".spark")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    try:
        command = [sys.executable, "-c", SPARK_PROGRAM, source, str(folder)]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        (part,) = folder.glob("part-*.parquet")
        part.rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


WRITERS: dict[str, Callable[[str, Path], None] | None] = {
    "tpchgen": None,
    "pyarrow": by_pyarrow,
    "duckdb v1": lambda source, target: by_duckdb("v1", source, target),
    "duckdb v2": lambda source, target: by_duckdb("v2", source, target),
    "polars": by_polars,
    "spark": by_spark,
}


@cache
def written_file(writer: str, scale: float) -> str | None:
    """Path of the file by a writer. None: it is Spark's, and there is no Java."""
    folder = tpch_folder(scale)
    source = str(folder / "lineitem.parquet")
    write = WRITERS[writer]
    if write is None:
        return source
    target = folder.with_name(f"{folder.name}-written") / f"{writer.replace(' ', '_')}.parquet"
    if not target.exists():
        if write is by_spark and shutil.which("java") is None:
            print("Java is missing, so the rows of files written by Spark are left out")
            return None
        target.parent.mkdir(exist_ok=True)
        print(f"writing lineitem by {writer} …", flush=True)
        # Under another name first: a stopped run leaves nothing that looks complete.
        partial = target.with_name(f"{target.stem}.{os.getpid()}.partial")
        try:
            write(source, partial)
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)
    return str(target)
