"""All queries of TPC-H, SSB and TPC-DS, with 1, 2 and 8 drivers, compared with DuckDB's answers (`make tpc`)."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The installed package is used, not the checkout. PYTHONPATH overrides that.
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]

from answers_of import Answer, assert_answers
from suites import SUITES, Suite


def main() -> int:
    options = parse()
    failures = 0
    for name in options.suites:
        suite = SUITES[name](options.scale)
        chosen = [query for query in suite.queries if not options.queries or query in options.queries]
        began = time.perf_counter()
        failed = check(suite, chosen, options)
        n_runs = len(chosen) * len(options.drivers)
        print(
            f"{name} at scale {options.scale:g}: {n_runs - failed} of {n_runs} answers right "
            f"({len(chosen)} queries, drivers {', '.join(map(str, options.drivers))}; "
            f"{time.perf_counter() - began:.0f} s)",
            flush=True,
        )
        failures += failed
    return 1 if failures else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=list(SUITES))
    parser.add_argument("--queries", nargs="+", metavar="qNN", help="only these")
    parser.add_argument("--drivers", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--batch-rows", type=int, help="rows of a batch that scans aim at")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one query")
    return parser.parse_args()


def check(suite: Suite, queries: list[str], options: argparse.Namespace) -> int:
    """Run the queries; how many answers were wrong or missing."""
    import duckdb

    import qcore

    sessions = {}
    for drivers in options.drivers:
        sessions[drivers] = qcore.Session(threads=drivers, batch_rows=options.batch_rows, timeout=options.timeout)
        for table, path in suite.tables.items():
            sessions[drivers].register(table, path)
    failed = 0
    with duckdb.connect() as connection:
        for table, path in suite.tables.items():
            connection.execute(f"create view {table} as from read_parquet('{path}')")
        for query in queries:
            answer = Answer.of(connection, suite.queries[query])
            for drivers, session in sessions.items():
                try:
                    assert_answers(session.sql(suite.queries[query]).to_arrow(), answer)
                except Exception as error:
                    failed += 1
                    print(f"{suite.name} {query}, {drivers} drivers: {type(error).__name__}: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
