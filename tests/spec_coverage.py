"""The tests that show each row of the specification: writes docs/SPEC_COVERAGE.md.

Run as: make coverage. A test shows the rows that its name (test_v14_…) or its docstring (V14, or V1–V4) names. Rows in
a module's docstring do not count, because they belong to no test in particular.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "SPEC_COVERAGE.md"

PARTS = {
    "V": "The driver loop",
    "G": "The query graph",
    "D": "The runtime operator protocol",
    "H": "Hot paths",
    "Q": "Queries",
    "S": "Spark",
    "B": "For its users",
}
# Rows of these parts must have a test.
CLAIMED = "VGDH"
ROWS = {
    "V1": "a plan becomes pipelines, cut at all but one child of every node",
    "V2": "LocalPartition cuts too: hash, round-robin, gather; other numbers of drivers on its two sides",
    "V3": "splits are added to a source node at any time and taken first come, first served",
    "V4": "N drivers a pipeline, each with operator instances of its own",
    "V5": "the operator interface: needs_input, add_input, get_output, finish, is_blocked, is_finishing, close",
    "V6": "the loop and its five operator states; who is stuck is named, never spun on",
    "V7": "a blocked operator takes its driver off the thread, for every reason; time slices are bounded",
    "V8": "early finish: upstream is abandoned, across pipelines too",
    "V9": "sources get no input, sinks give no output",
    "V10": "scans read through connectors, which apply filter and columns",
    "V11": "partitioned output: fetched by task, partition and sequence, acknowledged, with back-pressure; or files",
    "V12": "a callback sink may block its pipeline",
    "V13": "many output batches for one input batch, in bounded memory",
    "V14": "counters per operator and driver, at any time, charged to who did the work",
    "V15": "build and probe sit in two pipelines and meet at a bridge",
    "G1": "poll results: PUSHED, PENDING, BREAK; a batch, PENDING, EXHAUSTED",
    "G2": "logic apart from state: global once, local once a partition",
    "G3": "polls of the engine's own operators take no lock",
    "G4": "a chain is source, stateless operators, sink, run with exclusive access",
    "G5": "any chain may be polled at any time; no wake-up is lost or doubled, under stress",
    "G6": "a task context gives operators the session's settings",
    "G7": "every operator explains itself",
    "G8": "joins build partition-local state and merge it at finish",
    "D1": "constructors see no schema; set-up happens at the first one",
    "D2": "a running query is an iterator of outcomes",
    "D3": "the root runs on the caller's own thread too",
    "D4": "schemas are known before the first row",
    "D5": "the first outcome: OK_NEW_SCHEMA, or NONE when there was no data",
    "D6": "schema changes are carried through every operator, or refused with operator, column and types",
    "D7": "after NONE every next() is NONE",
    "D8": "close: root to leaf, each operator exactly once, whatever happened before",
    "D9": "an error stops every driver, surfaces once with operator and node, leaves nothing behind",
    "H1": "inner loops run without the GIL; two threads give close to twice one",
    "H2": "Arrow in and out by the C interfaces, zero-copy in; one abi3 wheel",
    "H3": "operators in Python, in three protocols, in the same driver as native ones",
    "Q1": "plans from Python, Substrait, SQL",
    "Q2": "the operators of SQL",
    "Q3": "the types of SQL, with its null semantics",
    "Q4": "TPC-H, SSB and TPC-DS answered as by DuckDB",
    "S1": "a Spark DataFrame becomes splits",
    "S2": "a plan runs on a Spark cluster",
    "S3": "the real Spark, local and on executors, Connect or a clear error",
    "B1": "a wheel with small dependencies",
    "B2": "benchmarks that anyone can run",
    "B3": "a backend for other tools: PyCapsule, Substrait, typed and documented",
}

_ID = re.compile(r"(?<![A-Za-z0-9_])([VGDHQSB])(\d{1,2})(?:\s*[-–]\s*\1?(\d{1,2}))?(?![A-Za-z0-9_])")
_NAME_ID = re.compile(r"(?<=_)([vgdhqsb]\d{1,2})(?=_|$)")


def ids_of(name: str, docstring: str) -> set[str]:
    """Rows that a test names."""
    found = {match.upper() for match in _NAME_ID.findall(name)}
    for letter, first, last in _ID.findall(docstring):
        found |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return found & set(ROWS)


def tests() -> Iterator[tuple[str, str, set[str]]]:
    """(file, test, rows) of every test function."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                yield path.relative_to(ROOT).as_posix(), node.name, ids_of(node.name, ast.get_docstring(node) or "")


def coverage() -> dict[str, dict[str, list[str]]]:
    """Row → file → tests."""
    found: dict[str, dict[str, list[str]]] = {row: {} for row in ROWS}
    for file, test, rows in tests():
        for row in rows:
            found[row].setdefault(file, []).append(test)
    return found


def missing(found: dict[str, dict[str, list[str]]]) -> list[str]:
    """Rows of CLAIMED that no test shows."""
    return [row for row, files in found.items() if row[0] in CLAIMED and not files]


def page(found: dict[str, dict[str, list[str]]]) -> str:
    """The page as Markdown."""
    lines = [
        "# What shows that it works",
        "",
        "For each row of the specification the tests that name it. `make coverage` writes this page from the names and",
        "docstrings of the tests; a row of the first four parts without a test fails the tests.",
    ]
    for letter, title in PARTS.items():
        lines += ["", f"## {letter}. {title}"]
        for row, text in ROWS.items():
            if row[0] != letter:
                continue
            lines += ["", f"**{row}** {text}", ""]
            lines += [f"- `{file}`: {', '.join(names)}" for file, names in found[row].items()] or ["- no test names it"]
    return "\n".join(lines) + "\n"


def main() -> int:
    found = coverage()
    PAGE.write_text(page(found), encoding="utf-8")
    without = missing(found)
    for row in without:
        sys.stderr.write(f"no test shows {row}: {ROWS[row]}\n")
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main())
