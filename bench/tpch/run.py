"""TPC-H against DuckDB and Polars: one process, interleaved rounds, planning included, results as Arrow.

bench/README.md says which figures are gates and what silently measures the wrong thing.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The installed package is measured, not the checkout. PYTHONPATH overrides that.
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]

# Highest ratio of qcore's time to DuckDB's that passes.
GATES = {
    ("arrow", 1): 0.5,
    ("arrow", 3): 0.8,
    ("arrow", 6): 1.0,
    ("parquet", 1): 1.0,
    ("parquet", 3): 1.2,
    ("parquet", 6): 1.3,
}
# Lowest speed-up of two drivers over one that passes.
SCALING_GATE = 1.7


@dataclass
class Case:
    """One engine on one query over one source."""

    engine: str
    source: str
    query: int
    threads: int
    seconds: list[float] = field(default_factory=list)
    failure: str | None = None

    @property
    def best(self) -> float:
        return min(self.seconds) if self.seconds else float("nan")

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else float("nan")


def main() -> int:
    options = parse()
    # The checked mode of the tests would change the measurements.
    os.environ.pop("QCORE_DEBUG", None)
    os.environ["POLARS_MAX_THREADS"] = str(options.threads)
    import pyarrow as pa

    pa.set_cpu_count(options.threads)
    sources = load_sources(options)
    cases = make_cases(options)
    runs = open_engines(cases, sources)
    print(machine(options), flush=True)
    check_answers(cases, runs)
    for round_number in range(options.rounds):
        run_round(cases, runs, round_number)
        if sys.stderr.isatty():
            print(f"\rround {round_number + 1}/{options.rounds}", end="\x1b[K", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(report(cases, options.threads))
    if options.json:
        Path(options.json).write_text(json.dumps([vars(case) for case in cases], indent=1))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 3, 6])
    parser.add_argument("--sources", nargs="+", default=["arrow", "parquet"], choices=["arrow", "parquet"])
    parser.add_argument("--engines", nargs="+", default=["qcore", "duckdb", "polars"])
    parser.add_argument("--json", metavar="FILE", help="write every measurement here")
    return parser.parse_args()


def load_sources(options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Every table, by source and name."""
    import pyarrow.parquet as pq

    from tpch_data import table_paths

    paths = table_paths(options.scale)
    used = {1: ["lineitem"], 3: ["customer", "orders", "lineitem"], 6: ["lineitem"]}
    names = sorted({name for query in options.queries for name in used[query]})
    sources: dict[str, dict[str, object]] = {"parquet": {name: paths[name] for name in names}}
    if "arrow" in options.sources:
        sources["arrow"] = {name: pq.read_table(paths[name]) for name in names}
    return sources


def make_cases(options: argparse.Namespace) -> list[Case]:
    """Every engine at the full number of threads, and qcore on one for the speed-up."""
    cases = []
    for source in options.sources:
        for query in options.queries:
            cases += [Case(engine, source, query, options.threads) for engine in options.engines]
            if "qcore" in options.engines and options.threads > 1:
                cases.append(Case("qcore", source, query, 1))
    return cases


def open_engines(cases: list[Case], sources: dict[str, dict[str, object]]) -> dict[tuple[str, str, int], object]:
    """A callable for each engine, source and number of threads; an engine that cannot start fails its cases."""
    from engines import ENGINES

    runs: dict[tuple[str, str, int], object] = {}
    for case in cases:
        key = (case.engine, case.source, case.threads)
        try:
            if key not in runs:
                runs[key] = ENGINES[case.engine](sources[case.source], case.threads)
        except Exception as error:
            case.failure = f"{type(error).__name__}: {error}"
    return runs


def check_answers(cases: list[Case], runs: dict[tuple[str, str, int], object]) -> None:
    """Run everything once, unmeasured, and compare with DuckDB: a fast wrong answer is no figure."""
    from oracle import assert_same_rows

    expected: dict[int, object] = {}
    for case in sorted(cases, key=lambda case: case.engine != "duckdb"):
        if case.failure:
            continue
        try:
            # Exact for decimals; avg and Polars' sums of products differ in type, so floats get a tolerance.
            actual = runs[case.engine, case.source, case.threads](case.query)  # type: ignore[operator]
            if case.query in expected:
                tolerant = as_floats(actual) if case.engine == "polars" else actual
                assert_same_rows(tolerant, expected[case.query], ordered=True, rel_tol=1e-6)
            elif case.engine == "duckdb":
                expected[case.query] = actual
        except Exception as error:
            case.failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def as_floats(table: object) -> object:
    """Decimals as floats: Polars rounds products to its own scale."""
    import pyarrow as pa

    assert isinstance(table, pa.Table)
    for position, field_ in enumerate(table.schema):
        if pa.types.is_decimal(field_.type):
            table = table.set_column(position, field_.name, table[position].cast(pa.float64()))
    return table


def run_round(cases: list[Case], runs: dict[tuple[str, str, int], object], round_number: int) -> None:
    """Every case once; the order of a query's engines turns with each round, so that none always finds warm caches."""
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in cases:
        if case.failure is None:
            groups.setdefault((case.source, case.query), []).append(case)
    for group in groups.values():
        turn = round_number % len(group)
        for case in group[turn:] + group[:turn]:
            run = runs[case.engine, case.source, case.threads]
            gc.collect()
            began = time.perf_counter()
            try:
                result = run(case.query)  # type: ignore[operator]
                case.seconds.append(time.perf_counter() - began)
                del result
            except Exception as error:
                case.failure = f"{type(error).__name__}: {error}"


def machine(options: argparse.Namespace) -> str:
    """What is being measured, and on what."""
    from importlib.metadata import PackageNotFoundError, version

    versions = []
    for name in ("qcore", "duckdb", "polars", "pyarrow"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} (in place)")
    load = os.getloadavg()[0]
    busy = f"; WARNING: load {load:.1f} before the first round" if load > 0.5 else ""
    cores = f"{options.threads} threads of {os.cpu_count()}"
    return f"TPC-H SF{options.scale:g}, {cores}, {options.rounds} interleaved rounds; {', '.join(versions)}{busy}"


def report(cases: list[Case], threads: int) -> str:
    """The table of the README: times, ratios, gates."""
    find = {(case.engine, case.source, case.query, case.threads): case for case in cases}
    engines = list(dict.fromkeys(case.engine for case in cases))
    header = [
        "source",
        "query",
        *(f"{engine} ms" for engine in engines),
        "to duckdb",
        "to polars",
        "gate",
        "1 driver ms",
    ]
    rows = [[*header, "speed-up"]]
    for source, query in dict.fromkeys((case.source, case.query) for case in cases):
        ours = find.get(("qcore", source, query, threads))
        row = [source, f"Q{query}"]
        row += [times(find[engine, source, query, threads]) for engine in engines]
        ratios = [ratio(ours, find.get((peer, source, query, threads))) for peer in ("duckdb", "polars")]
        gate = GATES.get((source, query))
        row += [shown_ratio(ratios[0]), shown_ratio(ratios[1]), verdict(ratios[0], gate)]
        single = find.get(("qcore", source, query, 1)) if threads > 1 else None
        scaling = single.best / ours.best if single and ours and single.seconds and ours.seconds else None
        row += [times(single) if single else "", speed_up(scaling)]
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "best/median of the rounds; ratios of best and of median; gates hold for the ratio of best to DuckDB's",
        "",
    ]
    lines += [
        "  ".join(
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines += [
        f"{case.engine} {case.source} Q{case.query} ({case.threads} threads) failed: {case.failure}"
        for case in cases
        if case.failure
    ]
    return "\n".join(lines)


def times(case: Case) -> str:
    return f"{case.best * 1e3:.1f}/{case.median * 1e3:.1f}" if case.seconds else "–"


def ratio(ours: Case | None, peer: Case | None) -> tuple[float, float] | None:
    if ours is None or peer is None or not ours.seconds or not peer.seconds:
        return None
    return ours.best / peer.best, ours.median / peer.median


def shown_ratio(pair: tuple[float, float] | None) -> str:
    return f"{pair[0]:.2f}/{pair[1]:.2f}" if pair else "–"


def verdict(pair: tuple[float, float] | None, gate: float | None) -> str:
    if gate is None:
        return "informational"
    if pair is None:
        return f"≤{gate} ?"
    return f"≤{gate} {'ok' if pair[0] <= gate else 'MISSED'}"


def speed_up(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}x ≥{SCALING_GATE} {'ok' if value >= SCALING_GATE else 'MISSED'}"


if __name__ == "__main__":
    sys.exit(main())
