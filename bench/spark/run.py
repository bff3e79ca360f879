"""TPC-H by plain Spark, by qcore in Spark's tasks (on=spark), and by qcore in this process, in turns.

Run by `make bench-spark`; ARGS='--queries 1 3 --rounds 5'.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tpch"), str(HERE.parents[1] / "tests")]

import qcore  # noqa: E402
from oracle import assert_same_rows  # noqa: E402
from tpch_data import TABLES, query_text, table_paths  # noqa: E402

ENGINES = ("spark", "on=spark", "local")


def spark_session(cores: int) -> Any:
    """A session as the documentation advises it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # The sources of a clone, which are not compiled, must not hide the installed package from Python workers.
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("qcore bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(2 * cores))
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.daemon.module", "qcore.spark.daemon")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and what it returns."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def geometric_mean(values: list[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--warm", type=int, default=2, help="runs before the measured ones")
    options.add_argument("--cores", type=int, default=2)
    options.add_argument("--queries", type=int, nargs="*", default=list(range(1, 23)))
    options.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    options.add_argument("--json", type=Path, help="append each figure as a line")
    given = options.parse_args()

    paths = table_paths(given.scale)
    spark = spark_session(given.cores)
    session = qcore.Session(threads=given.cores)
    for name in TABLES:
        spark.read.parquet(paths[name]).createOrReplaceTempView(name)
        session.register(name, paths[name])
    runs: dict[str, Callable[[str], Any]] = {
        "spark": lambda text: spark.sql(text).toArrow(),
        "on=spark": lambda text: session.sql(text, on=spark).to_arrow(),
        "local": lambda text: session.sql(text).to_arrow(),
    }
    medians: dict[int, dict[str, float]] = {}
    print(f"{'query':<7}" + "".join(f"{engine:>12}" for engine in given.engines) + "   stages  to spark  to local")
    for number in given.queries:
        text = query_text(number)
        # The JVM compiles what runs often.
        answers = {engine: runs[engine](text) for engine in given.engines * given.warm}
        expected = answers.get("local")
        for engine, answer in answers.items():
            if expected is not None:
                renamed = answer.rename_columns(expected.column_names)
                # Spark's averages of decimals have fewer digits.
                assert_same_rows(renamed, expected, rel_tol=1e-5, abs_tol=1e-4), engine
        times: dict[str, list[float]] = {engine: [] for engine in given.engines}
        for turn in range(given.rounds):
            for engine in given.engines[turn % len(given.engines) :] + given.engines[: turn % len(given.engines)]:
                times[engine].append(seconds(lambda: runs[engine](text))[0])  # noqa: B023 - called at once
        found = medians[number] = {engine: statistics.median(taken) for engine, taken in times.items()}
        with session.sql(text, on=spark) as result:
            result.to_arrow()
            ran = result.stats()["stages"]
        stages = f"{sum(not one['on_driver'] for one in ran)}+{sum(one['on_driver'] for one in ran)}"
        ratios = [found.get("on=spark", math.nan) / found.get(other, math.nan) for other in ("spark", "local")]
        line = f"q{number:<6}" + "".join(f"{1000 * found[engine]:>12,.0f}" for engine in given.engines)
        print(f"{line} {stages:>8} {ratios[0]:>9.2f} {ratios[1]:>9.2f}", flush=True)
        if given.json:
            with given.json.open("a") as file:
                stage_ms = [round(one["wall_nanos"] / 1e6) for one in ran]
                file.write(json.dumps({"query": number, **found, "stages": stages, "stage_ms": stage_ms}) + "\n")
    if "on=spark" in given.engines:
        for other in given.engines:
            if other != "on=spark":
                mean = geometric_mean([found["on=spark"] / found[other] for found in medians.values()])
                print(f"geometric mean of on=spark to {other}: {mean:.3f}")
    spark.stop()


if __name__ == "__main__":
    main()
