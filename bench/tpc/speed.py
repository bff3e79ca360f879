"""TPC-H 22, SSB 13 and TPC-DS 99 from Parquet or Arrow against DuckDB: one process, interleaved rounds (`make speed`).

Processor time (user and system, all threads) stands beside wall time: it holds on a machine that others use too. Every
query's measurements are kept in a file as they come; after an interruption `--resume` goes on behind them.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "build" / "speed.jsonl"
# The installed package is measured, not the checkout. PYTHONPATH overrides that.
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from answers_of import Answer, assert_answers
from suites import SUITES, Suite

Run = Callable[[str], pa.Table]

HEADER = (
    f"{'':11}{'wall ms':>18}{'':9}{'processor ms':>18}\n"
    f"{'':11}{'qcore':>9}{'duckdb':>9}{'ratio':>9}{'qcore':>9}{'duckdb':>9}{'ratio':>9}"
)


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

    def line(self) -> str:
        """The figures as a line below HEADER."""
        name = f"{self.suite} {self.query}"
        if self.failure is not None:
            return f"{name} failed: {self.failure}"
        columns = zip(self.best("qcore"), self.best("duckdb"), self.ratios(), strict=True)
        return f"{name:11}" + "".join(f"{a * 1e3:9.1f}{b * 1e3:9.1f}{ratio:9.2f}" for a, b, ratio in columns)


def main() -> int:
    options = parse()
    # The checked mode of the tests would change the measurements.
    os.environ.pop("QCORE_DEBUG", None)
    pa.set_cpu_count(options.threads)
    load = os.getloadavg()[0]
    busy = f"; load {load:.1f} before: ratios of processor time hold, of wall time hardly" if load > 0.5 else ""
    print(f"scale {options.scale:g}, {options.source}, {options.threads} threads of {os.cpu_count()}{busy}", flush=True)
    kept = Kept(options)
    cases: list[Case] = []
    for name in options.suites:
        suite = SUITES[name](options.scale)
        measured = measure(suite, options, kept)
        cases += measured
        print(report(measured, options.worst), flush=True)
    print(summary(cases), flush=True)
    if options.profiles:
        write_profiles(cases, options)
    return 1 if any(case.failure for case in cases) else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--source", default="parquet", choices=["parquet", "arrow"], help="files, or tables in memory")
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=list(SUITES))
    parser.add_argument("--queries", nargs="+", metavar="qNN", help="only these")
    parser.add_argument("--worst", type=int, default=5, help="how many of the worst ratios to name")
    parser.add_argument("--json", metavar="FILE", type=Path, default=KEPT, help="keep measurements here")
    parser.add_argument("--resume", action="store_true", help="leave out what that file has already")
    parser.add_argument("--profiles", metavar="FOLDER", help="write explain(analyze=True) of the worst queries here")
    return parser.parse_args()


class Kept:
    """Measurements in a file, a query a line below what they were taken with."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.path: Path = options.json
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = {name: getattr(options, name) for name in ("scale", "rounds", "threads", "source")}
        lines = self.path.read_text().splitlines() if options.resume and self.path.exists() else []
        # The last line may have been cut off.
        found = [json.loads(line) for line in lines if line.endswith("}")]
        self.cases = {(case["suite"], case["query"]): Case(**case) for case in found[1:] if found[0] == head}
        self.path.write_text("".join(json.dumps(line) + "\n" for line in [head, *map(asdict, self.cases.values())]))

    def add(self, case: Case) -> None:
        """Keep one more."""
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(case)) + "\n")


def engines(suite: Suite, threads: int, source: str) -> tuple[dict[str, Run], duckdb.DuckDBPyConnection]:
    """SQL text to a pyarrow.Table, planning included, by engine; and DuckDB's connection."""
    import qcore

    connection = duckdb.connect(config={"threads": threads})
    connection.execute("set enable_progress_bar = false")
    session = qcore.Session(threads=threads)
    for table, path in suite.tables.items():
        if source == "arrow":
            rows = pq.read_table(path)
            connection.register(table, rows)
            session.register(table, rows)
        else:
            connection.execute(f"create view {table} as from read_parquet('{path}')")
            session.register(table, path)
    runs: dict[str, Run] = {
        "qcore": lambda text: session.sql(text).to_arrow(),
        "duckdb": lambda text: connection.sql(text).to_arrow_table(),
    }
    return runs, connection


def measure(suite: Suite, options: argparse.Namespace, kept: Kept) -> list[Case]:
    """Every query: answers compared once, unmeasured, then rounds in which the engines take turns at going first."""
    runs, oracle = engines(suite, options.threads, options.source)
    cases = []
    print(HEADER, flush=True)
    for query, text in suite.queries.items():
        if options.queries and query not in options.queries:
            continue
        known = kept.cases.get((suite.name, query))
        if known is not None and known.failure is None:
            cases.append(known)
            print(known.line(), flush=True)
            continue
        case = Case(suite.name, query, {engine: [] for engine in runs})
        cases.append(case)
        try:
            assert_answers(runs["qcore"](text), Answer.of(oracle, text))
            for round_number in range(options.rounds):
                for engine in list(runs)[:: 1 if round_number % 2 else -1]:
                    case.seconds[engine].append(time_run(runs[engine], text))
        except Exception as error:
            case.failure = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        kept.add(case)
        print(case.line(), flush=True)
    return cases


def time_run(run: Run, text: str) -> tuple[float, float]:
    """Wall and processor seconds of one run."""
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    result = run(text)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    del result
    return seconds


def report(cases: list[Case], n_worst: int) -> str:
    """The geometric means and the worst queries."""
    done = [case for case in cases if case.failure is None]
    if not done:
        return ""
    wall, processor = (geometric_mean(values) for values in zip(*(case.ratios() for case in done), strict=True))
    totals = [sum(case.best(engine)[1] for case in done) for engine in ("qcore", "duckdb")]
    named = ", ".join(f"{case.query} {case.ratios()[1]:.2f}" for case in worst(done, n_worst))
    return (
        f"geometric mean of the ratios: wall {wall:.2f}, processor {processor:.2f}\n"
        f"processor seconds of all: qcore {totals[0]:.1f}, duckdb {totals[1]:.1f}\n"
        f"worst by processor time: {named}"
    )


def summary(cases: list[Case]) -> str:
    """The suites beside one another."""
    lines = [f"{'':8}{'queries':>8}{'failed':>8}{'geometric mean of ratios':>28}"]
    lines.append(f"{'':24}{'wall':>14}{'processor':>14}")
    for suite in dict.fromkeys(case.suite for case in cases):
        own = [case for case in cases if case.suite == suite]
        ratios = [case.ratios() for case in own if case.failure is None]
        means = [geometric_mean(values) for values in zip(*ratios, strict=True)] or [math.nan] * 2
        lines.append(f"{suite:8}{len(own):8}{len(own) - len(ratios):8}{means[0]:14.2f}{means[1]:14.2f}")
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
