"""qcore beside DuckDB, Polars and DataFusion: equal threads, engines in turns, answers compared (`make bench`).

Measurements are kept in a file, a row at a time. A run measures the rows that --only selects and replaces theirs; with
--missing those that the file lacks. bench/README.md describes the method.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The in-place checkout stays off the path: what is measured is what is installed (PYTHONPATH overrides).
sys.path[:0] = [str(HERE), str(HERE / "tpc"), str(ROOT / "tests")]

# Read when the libraries are imported.
THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv[:-1] else "2"
os.environ["POLARS_MAX_THREADS"] = os.environ["TOKIO_WORKER_THREADS"] = THREADS
# The tests' checked mode would be measured along.
os.environ.pop("QCORE_DEBUG", None)

import pyarrow as pa

import operator_rows
import query_rows
from chart import draw
from engines import PEERS
from measurement import Engine, Measured, Row, Target, Workload, geometric_mean, measure

KEPT = ROOT / "build" / "bench.json"
SHORT = {"qcore, plan not cached": "not cached", "qcore, 1 thread": "1 thread", "polars memory": "in memory"}


@dataclass(frozen=True)
class Total:
    """The geometric mean of the ratios of some rows, by the beginnings of their names, and its target."""

    name: str
    rows: tuple[str, ...]
    target: Target


OPERATORS = ("join", "group", "text", "two texts", "filter", "scan", "sort", "top")
TOTALS = (
    Total("TPC-H, tables in memory", ("tpch arrow",), Target(0.35, ("duckdb",))),
    Total("… with each plan made anew", ("tpch arrow",), Target(0.5, ("duckdb",), "qcore, plan not cached")),
    Total("… two threads to one", ("tpch arrow",), Target(1 / 1.8, ("qcore, 1 thread",))),
    Total("TPC-H, Parquet", ("tpch parquet",), Target(0.7, ("duckdb",))),
    Total("Q1 and Q6 by six writers", ("written by",), Target(0.8, ("duckdb",))),
    Total("single operators", OPERATORS, Target(0.33)),
    Total("SSB, Parquet", ("ssb parquet",), Target(0.9, ("duckdb",))),
    Total("TPC-DS, Parquet", ("tpcds parquet",), Target(0.9, ("duckdb",))),
    Total("TPC-H at scale 10, Parquet", ("sf10 parquet",), Target(0.7, ("duckdb",))),
)


def main() -> int:
    """Measure the selected rows and print them."""
    options = parse()
    pa.set_cpu_count(options.threads)
    kept = Kept(options.json)
    load = os.getloadavg()[0]
    busy = f"; load {load:.1f} before: trust the ratios of processor time only" if load > 0.5 else ""
    print(f"{kept.machine}, {options.threads} threads, medians of {options.rounds} rounds{busy}")
    wrong = 0
    header: tuple[str, ...] = ()
    for workload in workloads(options):
        if not is_selected(workload.name, options.only, may_extend=True):
            continue
        rows = [row for row in workload.rows() if is_selected(row.name, options.only)]
        if options.missing:
            rows = [row for row in rows if row.name not in kept.rows]
        if not rows:
            continue
        engines, oracle = workload.open(options)
        for row in rows:
            measured = measure(row, engines, oracle, options)
            if workload.memory is not None:
                measured.memory = workload.memory(row, options)
            kept.add(measured)
            wrong += any(engine.startswith("qcore") for engine in measured.failures)
            if tuple(engines) != header:
                header = tuple(engines)
                print(header_of(header), flush=True)
            print(line_of(measured, header), flush=True)
            if options.profiles and measured.is_met() is False and row.sql:
                write_profile(row, engines["qcore"], options.profiles)
    print(totals_of(kept.rows.values(), options.only), flush=True)
    if options.chart:
        draw(kept.machine, list(kept.rows.values()), options.chart)
    return 1 if wrong else 0


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="rows whose names begin so")
    parser.add_argument("--missing", action="store_true", help="leave out rows that the file of measurements has")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engines", nargs="*", default=list(PEERS), choices=PEERS, help="beside qcore")
    parser.add_argument("--scale", type=float, default=1, help="of TPC-H, SSB and TPC-DS")
    parser.add_argument("--sf10", action="store_true", help="TPC-H at scale 10 too")
    parser.add_argument("--rows", type=int, default=20_000_000, help="of single operators")
    parser.add_argument("--json", metavar="FILE", type=Path, default=KEPT, help="keep measurements here")
    parser.add_argument("--chart", metavar="FILE", type=Path, help="draw all that the file of measurements has")
    parser.add_argument("--profiles", metavar="FOLDER", type=Path, help="write EXPLAIN ANALYZE of missed rows here")
    return parser.parse_args()


def workloads(options: argparse.Namespace) -> Iterator[Workload]:
    """All workloads."""
    yield from query_rows.workloads(options)
    yield from operator_rows.workloads(options)


def is_selected(name: str, only: Sequence[str], may_extend: bool = False) -> bool:
    """Whether a name begins as one of `only`; with `may_extend` also if one of these begins with the name."""
    return not only or any(name.startswith(begin) or (may_extend and begin.startswith(name)) for begin in only)


class Kept:
    """The file of measurements: the machine, and the rows by name in the order of the table."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.machine = machine()
        self.rows: dict[str, Measured] = {}
        if path.exists():
            found = json.loads(path.read_text())
            # Figures of another machine are no part of this one's table.
            if found["machine"] == self.machine:
                self.rows = {row["name"]: Measured.of(row) for row in found["rows"]}

    def add(self, measured: Measured) -> None:
        """Keep a row. The file is replaced at once, so that it is always whole."""
        self.rows[measured.name] = measured
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        whole = {"machine": self.machine, "rows": [row.kept() for row in self.rows.values()]}
        partial.write_text(json.dumps(whole))
        partial.replace(self._path)


def machine() -> str:
    """The processor, and the versions of the engines."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    engines = ", ".join(f"{name} {version(name)}" for name in ("qcore", "duckdb", "polars", "datafusion", "pyarrow"))
    return f"{os.cpu_count()} × {names[0] if names else platform.processor()}, {engines}"


def header_of(engines: Sequence[str]) -> str:
    """The names of the columns."""
    cells = "".join(f"{SHORT.get(engine, engine):>16}" for engine in engines)
    return f"{'ms: wall/processor':26}{cells}{'wall':>8}{'processor':>11}{'target':>8}"


def line_of(measured: Measured, engines: Sequence[str]) -> str:
    """Medians of the engines; and for each target the ratio of wall time, of processor time, and whether it is met."""
    cells = [
        "/".join(f"{measured.median(engine, which) * 1e3:.1f}" for which in (0, 1))
        if engine in measured.seconds
        else "–"
        for engine in engines
    ]
    text = f"{measured.name:26}" + "".join(f"{cell:>16}" for cell in cells)
    shown = measured.targets or [Target(float("inf"))]
    for target in shown:
        ratios = measured.ratio(target), measured.ratio(target, 1)
        if ratios[0] is None or ratios[1] is None:
            continue
        text += f"{ratios[0]:8.2f}{ratios[1]:11.2f}"
        if measured.targets:
            of = f" of {', '.join(target.peers)}" if target.peers else ""
            text += f"{target.ratio:8.2f}{of}: {'ok' if ratios[0] <= target.ratio else 'missed'}"
    if measured.millis_max is not None:
        text += f"{'':19}{measured.millis_max:8.2f} ms: {'ok' if measured.is_met() else 'missed'}"
    if measured.memory:
        text += "".join(f"  {engine} {n_bytes / 1e6:,.0f} MB" for engine, n_bytes in measured.memory.items())
        text += ": ok" if measured.memory["qcore"] <= measured.memory["duckdb"] else ": missed"
    failures = "".join(f"\n  {engine}: {why}" for engine, why in measured.failures.items())
    return text + failures


def totals(rows: Sequence[Measured] | Any) -> Iterator[tuple[str, int, list[float], float]]:
    """For each total its name, the number of rows, the means of wall and processor time, and the target."""
    rows = list(rows)
    for total in TOTALS:
        chosen = [row for row in rows if row.name.startswith(total.rows)]
        pairs = [(row.ratio(total.target), row.ratio(total.target, 1)) for row in chosen]
        known = [pair for pair in pairs if pair[0] is not None]
        if known:
            means = [geometric_mean([pair[which] for pair in known]) for which in (0, 1)]  # type: ignore[misc]
            yield total.name, len(known), means, total.target.ratio


def totals_of(rows: Sequence[Measured] | Any, only: Sequence[str]) -> str:
    """The geometric means of the rows that were selected."""
    lines = [f"{'geometric mean':30}{'rows':>6}{'wall':>8}{'processor':>11}{'target':>8}"]
    for name, n, means, target in totals(row for row in rows if is_selected(row.name, only)):
        verdict = "ok" if means[0] <= target else "missed"
        lines.append(f"{name:30}{n:6}{means[0]:8.2f}{means[1]:11.2f}{target:8.2f}  {verdict}")
    return "\n".join(lines)


def write_profile(row: Row, engine: Engine, folder: Path) -> None:
    """Write what each operator of a query did."""
    folder.mkdir(parents=True, exist_ok=True)
    explained = engine.run(replace(row, sql=f"explain analyze {row.sql}"))
    lines = map(str, explained.columns[-1].to_pylist())
    (folder / f"{row.name.replace(' ', '-')}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
