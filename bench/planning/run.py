"""What planning costs in processor time: TPC-H 22 and TPC-DS 99, a text seen before, and the start of a process.

    python bench/planning/run.py --scale 0.1

Every figure is the least of several rounds, because other work on the machine only adds to it. `text` is parsing and
binding, `optimizer` and `lowering` follow until the query runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tpc")]

import qcore
import suites
from qcore.optimizer import optimize
from qcore.session.session import bind_sources
from qcore.sql.bind import plan_query

PROGRAMS = {
    "python": "pass",
    "import pyarrow": "import pyarrow",
    "import qcore": "import qcore",
    "… and use it": "import qcore; qcore.Session",
    "qcore --help": "from qcore.cli import main; main(['--help'])",
    "first query": "import qcore; qcore.Session; {query}",
}
FIRST_QUERY = (
    'print(qcore.sql("select l_shipmode, count(*) as n, sum(l_quantity * 1.5) as s from t where l_shipdate >= '
    "date '1995-01-01' and l_comment like '%a%' group by l_shipmode order by 1\", {{'t': {path!r}}}).to_arrow())"
)


def main() -> int:
    options = parse()
    os.environ.pop("QCORE_DEBUG", None)
    found: dict[str, Any] = {}
    for name in options.suites:
        suite = suites.SUITES[name](options.scale)
        found[name] = measure(suite, options.rounds)
        show(name, found[name])
    if options.processes:
        path = suites.tpch(options.scale).tables["lineitem"]
        found["processes"] = processes(path, options.processes)
        for name, millis in found["processes"].items():
            print(f"{name:16}{millis:8.0f} ms")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--suites", nargs="*", default=["tpch", "tpcds"], choices=list(suites.SUITES))
    parser.add_argument("--processes", type=int, default=5, metavar="N", help="start each process N times, or never")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    return parser.parse_args()


def least(rounds: int, make: Callable[[], Any]) -> tuple[float, Any]:
    """The least processor time of a call in ms, and its last value."""
    best, value = float("inf"), None
    for _ in range(rounds):
        began = time.process_time_ns()
        value = make()
        best = min(best, (time.process_time_ns() - began) / 1e6)
    return best, value


def measure(suite: suites.Suite, rounds: int) -> list[dict[str, Any]]:
    """The figures of each query, in ms."""
    session = qcore.Session(threads=2)
    for name, path in suite.tables.items():
        session.register(name, path)
    tables = session._tables
    schemas = {name: table.schema for name, table in tables.items()}
    rows = []
    for query, text in suite.queries.items():
        row: dict[str, Any] = {"query": query}
        plan_query(text, schemas)  # not measured: it fills caches
        row["text"], planned = least(rounds, partial(plan_query, text, schemas))
        bound = bind_sources(planned.plan, tables)
        optimize(bound)
        row["optimizer"], plan = least(rounds, partial(optimize, bound))
        row["lowering"], _ = least(rounds, partial(qcore.Task, plan, 2))
        session.sql(text)
        row["seen before"], result = least(10 * rounds, partial(session.sql, text))
        assert result.is_reused, query
        rows.append(row)
    return rows


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """Print means and the largest figures of a suite."""
    names = [column for column in rows[0] if column != "query"]
    print(f"{name}, {len(rows)} queries{'mean ms':>16}{'largest':>10}")
    for column in names:
        values = [row[column] for row in rows]
        worst = rows[values.index(max(values))]["query"]
        print(f"  {column:24}{sum(values) / len(values):9.3f}{max(values):11.3f}  {worst}")
    totals = [sum(row[part] for part in ("text", "optimizer", "lowering")) for row in rows]
    print(f"  {'text to running':24}{sum(totals) / len(totals):9.3f}{max(totals):11.3f}")


def processes(path: str, rounds: int) -> dict[str, float]:
    """Processor time of whole processes in ms, that of their children included."""
    found = {}
    for name, program in PROGRAMS.items():
        code = program.format(query=FIRST_QUERY.format(path=path)) if "{" in program else program
        best = float("inf")
        for _ in range(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        found[name] = 1e3 * best
    return found


if __name__ == "__main__":
    sys.exit(main())
