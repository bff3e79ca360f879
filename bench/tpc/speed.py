"""TPC-H 22, SSB 13 and TPC-DS 99 from Parquet against DuckDB: one process, interleaved rounds (`make speed`).

Processor time (user and system, all threads) stands beside wall time: it holds on a machine that others use too.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The in-place checkout stays off the path: what is measured is what is installed (PYTHONPATH overrides).
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]

import pyarrow as pa

from answers_of import Answer, assert_answers
from suites import SUITES, Suite

Run = Callable[[str], pa.Table]


@dataclass
class Case:
    """One query of a suite: (wall, processor) seconds of each round, by engine."""

    suite: str
    query: str
    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    failure: str | None = None

    def best(self, engine: str) -> tuple[float, float]:
        """Least wall and least processor seconds of the rounds."""
        walls, processors = zip(*self.seconds[engine], strict=True)
        return min(walls), min(processors)

    def ratios(self) -> tuple[float, float]:
        """qcore's best to DuckDB's: wall, processor."""
        ours, theirs = self.best("qcore"), self.best("duckdb")
        return ours[0] / theirs[0], ours[1] / theirs[1]


def main() -> int:
    options = parse()
    # The tests' checked mode would be measured along.
    os.environ.pop("QCORE_DEBUG", None)
    pa.set_cpu_count(options.threads)
    load = os.getloadavg()[0]
    busy = f"; load {load:.1f} before: ratios of processor time hold, of wall time hardly" if load > 0.5 else ""
    print(f"scale {options.scale:g}, {options.threads} threads of {os.cpu_count()}{busy}", flush=True)
    cases: list[Case] = []
    for name in options.suites:
        suite = SUITES[name](options.scale)
        measured = measure(suite, options)
        cases += measured
        print(report(measured, options.worst), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps([vars(case) for case in cases], indent=1))
    if options.profiles:
        write_profiles(cases, options)
    return 1 if any(case.failure for case in cases) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=list(SUITES))
    parser.add_argument("--queries", nargs="+", metavar="qNN", help="only these")
    parser.add_argument("--worst", type=int, default=5, help="how many of the worst ratios to name")
    parser.add_argument("--json", metavar="FILE", help="write every measurement here")
    parser.add_argument("--profiles", metavar="FOLDER", help="write explain(analyze=True) of the worst queries here")
    return parser.parse_args()


def engines(suite: Suite, threads: int) -> dict[str, Run]:
    """SQL text to a pyarrow.Table, planning included, by engine."""
    import duckdb

    import qcore

    connection = duckdb.connect(config={"threads": threads})
    for table, path in suite.tables.items():
        connection.execute(f"create view {table} as from read_parquet('{path}')")
    session = qcore.Session(threads=threads)
    for table, path in suite.tables.items():
        session.register(table, path)
    return {
        "qcore": lambda text: session.sql(text).to_arrow(),
        "duckdb": lambda text: connection.sql(text).to_arrow_table(),
    }


def measure(suite: Suite, options: argparse.Namespace) -> list[Case]:
    """Every query once to compare answers, then in rounds; engines take turns at going first."""
    import duckdb

    runs = engines(suite, options.threads)
    cases = [
        Case(suite.name, query, {engine: [] for engine in runs})
        for query in suite.queries
        if not options.queries or query in options.queries
    ]
    with duckdb.connect() as oracle:
        for table, path in suite.tables.items():
            oracle.execute(f"create view {table} as from read_parquet('{path}')")
        for case in cases:
            try:
                assert_answers(runs["qcore"](suite.queries[case.query]), Answer.of(oracle, suite.queries[case.query]))
            except Exception as error:
                case.failure = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    # DuckDB has run in another connection: its own has cold caches still.
    for round_number in range(-1, options.rounds):
        for case in cases:
            for engine in list(runs)[:: 1 if round_number % 2 else -1]:
                if case.failure is None:
                    seconds = timed(runs[engine], suite.queries[case.query])
                    if round_number >= 0:
                        case.seconds[engine].append(seconds)
    return cases


def timed(run: Run, text: str) -> tuple[float, float]:
    """Wall and processor seconds of one run."""
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    result = run(text)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    del result
    return seconds


def report(cases: list[Case], n_worst: int) -> str:
    """A line a query, the geometric means, and the worst queries."""
    lines = [
        "",
        f"{'':11}{'wall ms':>18}{'':9}{'processor ms':>18}",
        f"{'':11}{'qcore':>9}{'duckdb':>9}{'ratio':>9}{'qcore':>9}{'duckdb':>9}{'ratio':>9}",
    ]
    done = [case for case in cases if case.failure is None]
    for case in done:
        columns = zip(case.best("qcore"), case.best("duckdb"), case.ratios(), strict=True)
        figures = "".join(f"{ours * 1e3:9.1f}{theirs * 1e3:9.1f}{ratio:9.2f}" for ours, theirs, ratio in columns)
        lines.append(f"{case.suite + ' ' + case.query:11}{figures}")
    lines += [f"{case.suite} {case.query} failed: {case.failure}" for case in cases if case.failure]
    if done:
        wall, processor = (geometric_mean(values) for values in zip(*(case.ratios() for case in done), strict=True))
        totals = [sum(case.best(engine)[1] for case in done) for engine in ("qcore", "duckdb")]
        lines.append(f"geometric mean of the ratios: wall {wall:.2f}, processor {processor:.2f}")
        lines.append(f"processor seconds of all: qcore {totals[0]:.1f}, duckdb {totals[1]:.1f}")
        named = ", ".join(f"{case.query} {case.ratios()[1]:.2f}" for case in worst(done, n_worst))
        lines.append(f"worst by processor time: {named}")
    return "\n".join(lines)


def worst(cases: list[Case], n: int) -> list[Case]:
    """The cases with the highest ratios of processor time."""
    return sorted(cases, key=lambda case: -case.ratios()[1])[:n]


def geometric_mean(values: tuple[float, ...]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def write_profiles(cases: list[Case], options: argparse.Namespace) -> None:
    """Of each suite's worst queries, what each operator did."""
    import qcore

    folder = Path(options.profiles)
    folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(case.suite for case in cases):
        suite = SUITES[name](options.scale)
        done = [case for case in cases if case.suite == name and case.failure is None]
        for case in worst(done, options.worst):
            result = qcore.sql(suite.queries[case.query], suite.tables, threads=options.threads)
            (folder / f"{name}-{case.query}.txt").write_text(str(result.explain(analyze=True)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
