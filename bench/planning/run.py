"""What planning costs in processor time: TPC-H 22 and TPC-DS 99, a text seen before, and the start of a process.

    python bench/planning/run.py --scale 0.1

`text` is parsing and binding, `parse` the part of it that sqlglot takes. `optimizer` and `lowering` follow. `text to
running` is Session.sql of a text that the session has not seen, up to a task that can be started, and `seen before` the
same of a text whose plan it keeps. A figure is the median of several rounds. Those of processes are the least of
several, with all modules compiled to bytecode as an installation has them; `… and sqlglot` is what no query in a new
process can do without.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tpc")]

import qcore
import suites
from qcore.functions.dialect import QCORE
from qcore.optimizer import optimize
from qcore.session.session import bind_sources
from qcore.sql.bind import plan_query
from qcore.sql.parse import parse as parse_text
from qcore.sql.parse import tokens_of

PROGRAMS = {
    "python": "pass",
    "import pyarrow": "import pyarrow",
    "… and sqlglot": "import pyarrow, sqlglot.dialects.duckdb",
    "import qcore": "import qcore",
    "… and use it": "import qcore; qcore.Session",
    "qcore --help": "from qcore.cli import main; main(['--help'])",
    "first query": "import qcore; qcore.Session; {query}",
}
FIRST_QUERY = (
    'print(qcore.sql("select l_shipmode, count(*) as n, sum(l_quantity * 1.5) as s from t where l_shipdate >= '
    "date '1995-01-01' and l_comment like '%a%' group by l_shipmode order by 1\", {{'t': {path!r}}}).to_arrow())"
)
# Targets in milliseconds of processor time: means of a suite's queries, and whole processes.
TARGETS: dict[str, dict[str, float]] = {
    "tpch": {"text to running": 3.0, "seen before": 0.3},
    "tpcds": {"text to running": 9.0, "seen before": 0.3},
    "processes": {"import qcore": 250.0, "… and use it": 250.0, "qcore --help": 150.0, "first query": 250.0},
}


def main() -> int:
    options = parse()
    os.environ.pop("QCORE_DEBUG", None)
    print(f"sqlglot {version('sqlglot')}, {'compiled' if is_compiled('sqlglot.parser') else 'pure Python'}")
    found: dict[str, Any] = {}
    for name in options.suites:
        suite = suites.SUITES[name](options.scale)
        found[name] = measure(suite, options.rounds)
        show(name, found[name])
    if options.processes:
        path = suites.tpch(options.scale).tables["lineitem"]
        found["processes"] = processes(path, options.processes)
        pandas = "with" if find_spec("pandas") else "without"
        print(f"processes, {pandas} pandas installed")
        for name, millis in found["processes"].items():
            print(f"  {name:24}{millis:9.0f}{'':11}{verdict('processes', name, millis)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--suites", nargs="*", default=["tpch", "tpcds"], choices=list(suites.SUITES))
    parser.add_argument("--processes", type=int, default=5, metavar="N", help="start each process N times, or never")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    return parser.parse_args()


def is_compiled(module: str) -> bool:
    """Whether a module is machine code."""
    return not str(import_module(module).__file__).endswith(".py")


def median(rounds: int, make: Callable[[], Any], prepare: Callable[[], Any] = int) -> tuple[float, Any]:
    """The median processor time of a call in ms, and its last value. Not measured are `prepare` before each call, and
    what it takes to free the value. Tokens of a text read before are forgotten.
    """
    found, value = [], None
    for _ in range(rounds):
        value = None
        prepare()
        tokens_of("select 1", QCORE)
        began = time.process_time_ns()
        value = make()
        found.append((time.process_time_ns() - began) / 1e6)
    return statistics.median(found), value


def measure(suite: suites.Suite, rounds: int) -> list[dict[str, Any]]:
    """The figures of each query, in ms."""
    session = qcore.Session(threads=2)
    for name, path in suite.tables.items():
        session.register(name, path)
    tables = session._tables
    schemas = {name: table.schema for name, table in tables.items()}

    def run(text: str) -> Any:
        return session.sql(text).task

    rows = []
    for query, text in suite.queries.items():
        row: dict[str, Any] = {"query": query}
        run(text)  # not measured: it reads footers
        row["parse"], _ = median(rounds, partial(parse_text, text, QCORE))
        row["text"], planned = median(rounds, partial(plan_query, text, schemas))
        bound = bind_sources(planned.plan, tables)
        row["optimizer"], plan = median(rounds, partial(optimize, bound))
        row["lowering"], _ = median(rounds, partial(qcore.Task, plan, 2))
        row["text to running"], _ = median(rounds, partial(run, text), session.plan_cache.clear)
        row["seen before"], _ = median(5 * rounds, partial(run, text))
        assert session.sql(text).is_reused, query
        rows.append(row)
    return rows


def show(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print means and the largest figures of a suite."""
    names = [column for column in rows[0] if column != "query"]
    print(f"{name}, {len(rows)} queries{'mean ms':>16}{'largest':>10}")
    for column in names:
        values = [row[column] for row in rows]
        worst = rows[values.index(max(values))]["query"]
        mean = sum(values) / len(values)
        print(f"  {column:24}{mean:9.3f}{max(values):11.3f}  {worst:6}{verdict(name, column, mean)}")


def verdict(suite: str, name: str, value: float) -> str:
    """The target of a figure, and whether it is met; empty: it has none."""
    target = TARGETS.get(suite, {}).get(name)
    return "" if target is None else f"  target {target:g}: {'met' if value <= target else 'missed'}"


def processes(path: str, rounds: int) -> dict[str, float]:
    """Processor time of whole processes in ms, that of their children included."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        for name, program in PROGRAMS.items():
            code = program.format(query=FIRST_QUERY.format(path=path)) if "{" in program else program
            times = []
            for _ in range(rounds + 1):  # the first run compiles the bytecode
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                command = [sys.executable, "-c", code]
                # In another folder, so that the checkout is not imported.
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            found[name] = 1e3 * min(times[1:])
    return found


if __name__ == "__main__":
    sys.exit(main())
