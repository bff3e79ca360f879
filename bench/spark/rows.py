"""What crosses between Spark and qcore: planning DataFrames, frames that Spark computes, joins over the exchange.

Run by `make bench-spark-rows`; ARGS='--rounds 5 --only frames'.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tpch"), str(HERE.parents[1] / "tests")]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from run import seconds, spark_session  # noqa: E402

import qcore  # noqa: E402
from oracle import assert_same_rows  # noqa: E402
from qcore.spark.source import spark_table  # noqa: E402
from tpch_data import table_paths  # noqa: E402

# Runs before the measured ones: the JVM compiles what runs often.
WARM = 3
N_FOLDERS, FILES_PER_FOLDER = 500, 4
# Keys of both sides: rows cannot be grouped before they are joined.
JOIN = """
    select o_orderpriority, l_shipmode, count(*) as n, sum(l_extendedprice * (1 - l_discount)) as revenue
    from lineitem join orders on l_orderkey = o_orderkey group by o_orderpriority, l_shipmode
"""
# Six columns, of which Spark computes one: so the DataFrame is no scan of files.
FRAME = """
    select l_orderkey, l_partkey, l_quantity, l_extendedprice, l_shipdate, l_linenumber + 1 as number from lineitem
"""
# The same names, so that TOTALS reads both.
TEXTS = FRAME.replace("l_shipdate", "l_shipmode as l_shipdate")
TOTALS = """
    select sum(l_orderkey) a, sum(l_partkey) b, sum(l_quantity) c, sum(l_extendedprice) d, max(l_shipdate) e,
        sum(number) f, count(*) n from frame
"""


def medians(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median seconds of each, run in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(WARM + rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            taken, _ = seconds(runs[name])
            if turn >= WARM:
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}


@contextmanager
def settings(spark: Any, **values: str) -> Iterator[None]:
    """Settings of Spark's session in this context."""
    for name, value in values.items():
        spark.conf.set(name.replace("_", "."), value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name.replace("_", "."))


def measure_joins(spark: Any, session: Any, rounds: int) -> Iterator[tuple[str, float, float | None]]:
    """A join by the exchange, and with a build side that every task reads, to the local join.

    The second may take 0.15 s a stage more.
    """
    for name, limit, share, stage_seconds in (("exchange", "1", 1.6, 0.0), ("broadcast", "1GB", 1.3, 0.15)):
        with settings(spark, spark_qcore_broadcast_bytes=limit):
            runs = {
                "local": lambda: session.sql(JOIN).to_arrow(),
                "spark": lambda: session.sql(JOIN, on=spark).to_arrow(),
            }
            assert_same_rows(runs["spark"](), runs["local"]())
            found = medians(runs, rounds)
            with session.sql(JOIN, on=spark) as result:
                result.to_arrow()
                n_stages = len(result.stats()["stages"])
        target = share + stage_seconds * n_stages / found["local"]
        yield f"join by {name}, to local qcore", found["spark"] / found["local"], target
        yield "… local, ms", 1000 * found["local"], None
        yield "… on Spark, ms", 1000 * found["spark"], None


def measure_planning(spark: Any, paths: dict[str, str], rounds: int) -> Iterator[tuple[str, float, float | None]]:
    """From a DataFrame to a table of qcore, in ms."""
    frame = spark.read.parquet(paths["lineitem"])
    runs = {
        "planning a DataFrame, ms": lambda: spark_table(spark.read.parquet(paths["lineitem"])),
        "… with a filter, ms": lambda: spark_table(spark.read.parquet(paths["lineitem"]).where("l_quantity > 10")),
        "… a new DataFrame of files that are listed, ms": lambda: spark_table(frame.where("1 = 1")),
        "… Spark's own part of the first, ms": lambda: (
            spark.read.parquet(paths["lineitem"])._jdf.queryExecution().sparkPlan()
        ),
    }
    for name, taken in medians(runs, 5 * rounds).items():
        yield name, 1000 * taken, 50.0 if "own" not in name else None
    with tempfile.TemporaryDirectory() as folder:
        for number in range(N_FOLDERS):
            part = Path(folder, f"day={number}")
            part.mkdir()
            for file in range(FILES_PER_FOLDER):
                pq.write_table(pa.table({"x": range(10)}), part / f"{file}.parquet")
        listed = spark.read.parquet(folder)
        many = {"2,000 files in 500 folders, ms": lambda: spark_table(listed.where("x >= 0"))}
        for name, taken in medians(many, rounds).items():
            yield name, 1000 * taken, 300.0


def measure_frames(spark: Any, session: Any, rounds: int) -> Iterator[tuple[str, float, float | None]]:
    """All rows of a DataFrame that Spark computes, to Spark computing it and dropping its rows."""
    for kind, text in (("numbers", FRAME), ("one text of six columns", TEXTS)):
        frame = spark.sql(text)
        frame.createOrReplaceTempView("frame")

        def read(frame: Any = frame) -> pa.Table:
            return session.sql(TOTALS, tables={"frame": frame}).to_arrow()

        def drop(frame: Any = frame) -> None:
            frame.write.format("noop").mode("overwrite").save()

        assert_same_rows(read(), spark.sql(TOTALS).toArrow().cast(read().schema))
        found = medians({"own": drop, "totals": lambda: spark.sql(TOTALS).collect(), "qcore": read}, rounds)
        yield f"a frame of {kind}, to Spark's noop sink", found["qcore"] / found["own"], 1.2
        yield "… to Spark's own totals of it", found["qcore"] / found["totals"], None


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--cores", type=int, default=2)
    options.add_argument("--only", nargs="*", default=["joins", "planning", "frames"])
    options.add_argument("--json", type=Path, help="append each figure as a line")
    given = options.parse_args()
    paths = table_paths(given.scale)
    spark = spark_session(given.cores)
    session = qcore.Session(threads=given.cores)
    for name in ("lineitem", "orders"):
        spark.read.parquet(paths[name]).createOrReplaceTempView(name)
        session.register(name, paths[name])
    parts = {
        "joins": lambda: measure_joins(spark, session, given.rounds),
        "planning": lambda: measure_planning(spark, paths, given.rounds),
        "frames": lambda: measure_frames(spark, session, given.rounds),
    }
    for part in given.only:
        for name, figure, target in parts[part]():
            verdict = "" if target is None else f"  target {target:g}: {'met' if figure <= target else 'missed'}"
            print(f"{name:<55}{figure:>9.2f}{verdict}", flush=True)
            if given.json:
                with given.json.open("a") as file:
                    file.write(json.dumps({"row": name, "figure": figure, "target": target}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
