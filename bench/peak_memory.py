"""The most memory that a process had which ran one query once: for each engine a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from engines import Tables, open_duckdb, open_qcore
from measurement import Row

ENGINES = ("qcore", "duckdb")


def peak_bytes(engine: str, sql: str, tables: Tables, threads: int) -> int:
    """Bytes of the largest resident set of a process that runs a query over files and keeps the answer."""
    asked = json.dumps({"engine": engine, "sql": sql, "tables": tables, "threads": threads})
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; import peak_memory; peak_memory.main()"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    return int(done.stdout)


def main() -> None:
    """Run the query that standard input has, and print the bytes."""
    asked = json.load(sys.stdin)
    row = Row("", asked["sql"])
    if asked["engine"] == "qcore":
        answer = open_qcore(asked["tables"], asked["threads"]).run(row)
    else:
        answer = open_duckdb(asked["tables"], asked["threads"]).sql(row.sql).to_arrow_table()
    assert answer is not None
    # Not ru_maxrss, which begins with that of the parent.
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(line.split()[1]) * 1024)
