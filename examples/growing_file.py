"""Reads a file while it grows: an iterator that waits without holding a thread.

    python examples/growing_file.py

next() returns OK with the new numbers. If there are none, it returns a Blocked, and a timer completes its future. After
the line "end" it returns NONE. The program reads the query's result with task.iterator(), which is also an iterator.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa

import qcore
from qcore import IterOutcome

SCHEMA = pa.schema({"value": pa.int64()})
LOOK_AGAIN_SECONDS = 0.01


class GrowingFile(qcore.BatchIterator):
    """One number a line. The line "end" is the last."""

    def __init__(self, path: Path) -> None:
        self._file = path.open()
        self._begun = ""
        self._timer: threading.Timer | None = None
        self._known = False

    def output_schema(self, schema: None) -> pa.Schema:
        return SCHEMA

    def next(self) -> IterOutcome | qcore.Blocked:
        *lines, self._begun = (self._begun + self._file.read()).split("\n")
        values = [int(line) for line in lines if line != "end"]
        if values:
            if "end" in lines:
                self._begun = "end\n"
            self.batch = pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)
            first, self._known = not self._known, True
            return IterOutcome.OK_NEW_SCHEMA if first else IterOutcome.OK
        if "end" in lines:
            return IterOutcome.NONE
        written: Future[None] = Future()
        self._timer = threading.Timer(LOOK_AGAIN_SECONDS, written.set_result, [None])
        self._timer.start()
        return qcore.Blocked("user", written)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._file.close()


def running_sums(path: Path, report: Callable[[int], None]) -> int:
    """The sum of the positive numbers in the file. Calls `report` with the sum so far after each batch."""
    plan = qcore.PlanBuilder().source(lambda: GrowingFile(path), schema=SCHEMA).filter(qcore.col("value") > 0).build()
    rows = qcore.Task(plan, drivers=1).iterator()
    total = 0
    try:
        while (outcome := rows.next()) in (IterOutcome.OK, IterOutcome.OK_NEW_SCHEMA):
            assert rows.batch is not None
            total += sum(rows.batch.column(0).to_pylist())
            report(total)
        if outcome is IterOutcome.STOP:
            assert rows.error is not None
            raise rows.error
    finally:
        rows.close()
    return total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.txt"
        path.write_text("1\n2\n")
        file = path.open("a", buffering=1)
        threading.Timer(0.1, file.write, ["3\nend\n"]).start()
        print(f"sum {running_sums(path, lambda total: print(f'so far {total}'))}")
        file.close()
