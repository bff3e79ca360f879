"""The process that mutations run in, and what starts it: `python -m bytes_fuzz.worker KIND FIRST LAST LOG`.

Each line of the log is a mutation's number and what came of it; one that only began ended the process.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

#: Of one mutation: six queries of a few milliseconds, on a machine that may be busy.
SECONDS_MAX = 120
SLOW_SECONDS = 10.0


@dataclass
class Outcome:
    """What came of the mutations of one kind."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    #: (number, what was seen): processes that ended, mutations that did not, errors that are no QcoreError.
    faults: list[tuple[int, str]] = field(default_factory=list)
    slow: int = 0

    @property
    def n(self) -> int:
        """Mutations that ran."""
        return sum(self.counts.values())


def run(kind: str, first: int, last: int, until: float | None = None) -> Outcome:
    """Mutations first to last - 1, in processes; `until`: on time.monotonic(), when to stop before that."""
    found = Outcome(kind)
    with tempfile.TemporaryDirectory(prefix="bytes-fuzz-") as folder:
        at = first
        while at < last and (until is None or time.monotonic() < until):
            at = _run_once(found, at, last, Path(folder), until)
    return found


def _run_once(found: Outcome, first: int, last: int, folder: Path, until: float | None) -> int:
    log = folder / "log"
    log.unlink(missing_ok=True)
    seconds = 0.0 if until is None else max(1.0, until - time.monotonic())
    command = [sys.executable, "-m", "bytes_fuzz.worker", found.kind, str(first), str(last), str(log), str(seconds)]
    tests = str(Path(__file__).parents[1])
    paths = [tests, *([] if os.environ.get("QCORE_TEST_INSTALLED") else [str(Path(tests).parent)])]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []
    for number, what, *took in lines:
        if what == "begin":
            continue
        label = what.partition(":")[0]
        found.counts[label] += 1
        found.slow += bool(took) and float(took[0]) > SLOW_SECONDS
        if label == "other error":
            found.faults.append((int(number), what))
    if not lines:
        raise RuntimeError(f"the worker for {found.kind} did not start: {ended.stderr[-2000:]}")
    number, what = int(lines[-1][0]), lines[-1][1]
    if what != "begin":
        return number + 1 if ended.returncode == 0 and until is None else max(number + 1, first + 1)
    found.counts["dead process"] += 1
    found.faults.append((number, f"the process ended with {ended.returncode}: {ended.stderr[-2000:]}"))
    return number + 1


def work(kind: str, first: int, last: int, log_path: str, seconds: float) -> None:
    """What the process does."""
    import qcore
    from bytes_fuzz.mutations import mutation
    from bytes_fuzz.sources import ask, made

    faulthandler.enable()
    raw = made(kind)
    folder = Path.cwd()
    right = ask(kind, raw if raw else -1, folder)
    began = time.monotonic()
    with open(log_path, "w", buffering=1) as log:
        for number in range(first, last):
            if seconds and time.monotonic() - began > seconds:
                break
            log.write(f"{number}\tbegin\n")
            faulthandler.dump_traceback_later(SECONDS_MAX, exit=True)
            start = time.monotonic()
            try:
                answer = ask(kind, mutation(kind, raw, number) if raw else number, folder)
                what = "same answer" if answer == right else "another answer"
            except qcore.QcoreError:
                what = "error"
            except Exception as error:
                what = f"other error: {type(error).__name__}: {str(error)[:200]!r}"
            faulthandler.cancel_dump_traceback_later()
            log.write(f"{number}\t{what}\t{time.monotonic() - start:.2f}\n")


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
