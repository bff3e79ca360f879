"""Run TPC-H Q1, Q3 and Q6 by SQL over Parquet files, by plans whose splits are added while they run, and over Spark.

All answers are compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "demo"), str(ROOT / "bench" / "tpch"), str(ROOT / "tests")]

from oracle import assert_same_rows  # noqa: E402
from qcore.session.profile import profile_text  # noqa: E402
from qcore.text_table import render, render_cells  # noqa: E402
from spark_session import spark_session  # noqa: E402
from tpch_data import table_paths  # noqa: E402
from ways import by_duckdb, by_spark, by_spark_after_grouping, by_splits, by_sql, timed  # noqa: E402

QUERIES = {1: "pricing summary", 3: "shipping priority", 6: "forecasting revenue change"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-spark", action="store_true", help="do not run over Spark")
    options = parser.parse_args()
    paths = table_paths(options.scale)
    seconds: dict[tuple[int, str], float] = {}
    answers = {}
    for number, title in QUERIES.items():
        answers[number] = show_query(number, title, paths, options.threads, seconds)
    if not options.no_spark:
        show_spark(answers, paths, options.threads, seconds)
    heading("Milliseconds of the first run")
    print(time_table(seconds))
    print("\nAll answers are equal to DuckDB's.")
    return 0


def heading(text: str) -> None:
    print(f"\n\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else f"\n{text}\n{'=' * len(text)}", flush=True)


def width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def show_query(number: int, title: str, paths: dict[str, str], threads: int, seconds: dict[Any, float]) -> Any:
    """Run a query by SQL and by splits; print the answer and the profile of each run."""
    heading(f"Q{number}, {title}")
    expected, seconds[number, "DuckDB"] = timed(by_duckdb, number, paths, threads)
    (answer, profile), seconds[number, "SQL"] = timed(by_sql, number, paths, threads)
    check(f"Q{number} by SQL", answer, expected)
    print(render(answer, width()))
    print(f"\nBy SQL: the same rows as DuckDB.\n\n{profile}")
    (answer, stats), seconds[number, "splits"] = timed(by_splits, number, paths, threads)
    check(f"Q{number} by splits", answer, expected)
    print(f"\nBy a plan with splits added while it ran: the same rows.\n\n{profile_text(stats)}")
    return expected


def show_spark(answers: dict[int, Any], paths: dict[str, str], threads: int, seconds: dict[Any, float]) -> None:
    """Run the queries over Spark DataFrames."""
    heading("Over Spark")
    with spark_session(threads) as (spark, reason):
        if spark is None:
            print(f"skipped: {reason}")
            return
        frames = {name: spark.read.parquet(path) for name, path in paths.items()}
        for number, expected in answers.items():
            answer, seconds[number, "Spark splits"] = timed(by_spark, number, frames, threads)
            check(f"Q{number} over Spark", answer, expected)
            print(f"Q{number} over Spark's file partitions: the same rows.")
        answer, seconds[1, "Spark groups"] = timed(by_spark_after_grouping, frames["lineitem"], threads)
        part = answers[1].select(["l_returnflag", "l_linestatus", "sum_qty", "count_order"])
        check("Q1 over Spark's groups", answer, part)
        print("Q1's sums over a DataFrame grouped by Spark, its partitions as Arrow streams: the same rows.\n")
        print(render(answer, width()))


def check(what: str, answer: Any, expected: Any) -> None:
    """End the demo if rows differ. Averages of decimals are decimals in qcore and floats in DuckDB."""
    try:
        assert_same_rows(answer, expected, ordered=True, rel_tol=1e-6)
    except AssertionError as difference:
        sys.exit(f"{what} differs from DuckDB: {difference}")


def time_table(seconds: dict[tuple[int, str], float]) -> str:
    """One line a query, one column a way."""
    ways = list(dict.fromkeys(way for _, way in seconds))
    columns = [[f"Q{number}" for number in QUERIES]]
    for way in ways:
        columns.append([f"{seconds[n, way] * 1e3:,.0f}" if (n, way) in seconds else "" for n in QUERIES])
    return render_cells(["query", *ways], columns, [False] + [True] * len(ways))


if __name__ == "__main__":
    sys.exit(main())
