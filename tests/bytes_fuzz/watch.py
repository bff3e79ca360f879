"""Runs mutations in worker processes and collects their outcomes, also when a worker dies or hangs."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Mutations of one process: starting it takes as long as some hundred of them.
PROCESS_MUTATIONS = 2000
#: Seconds without a line until a process counts as hanging: at its start, or in a mutation. The machine may be busy.
#: They are counted one by one, so that a pause of all processes (a suspended machine, a debugger) counts as one second.
SECONDS_MAX = 60
SLOW_SECONDS = 5.0
STDERR_SHOWN = 3000


@dataclass
class Outcome:
    """The outcomes of the mutations of one kind."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    #: (number, outcome): dead processes, mutations that did not end, errors that are no QcoreError.
    faults: list[tuple[int, str]] = field(default_factory=list)
    slow: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def n(self) -> int:
        """The number of mutations that ran."""
        return sum(self.counts.values())

    def add(self, number: int, what: str) -> None:
        """Count an outcome. All but answers and QcoreErrors are faults."""
        label = what.partition(":")[0]
        self.counts[label] += 1
        if label not in ("same answer", "another answer", "error"):
            self.faults.append((number, what))


def run(kind: str, first: int, last: int, until: float | None = None) -> Outcome:
    """Run mutations first to last - 1, or fewer if time.monotonic() reaches `until` before."""
    found = Outcome(kind)
    began = time.monotonic()
    at = first
    with tempfile.TemporaryDirectory(prefix="bytes-fuzz-") as folder:
        while at < last and (until is None or time.monotonic() < until):
            at = _run_once(found, at, min(last, at + PROCESS_MUTATIONS), Path(folder), until)
    found.seconds = time.monotonic() - began
    return found


def _run_once(found: Outcome, first: int, last: int, folder: Path, until: float | None) -> int:
    """Run one process. Returns the number after the last mutation that it ran, or that ended it."""
    tests = str(Path(__file__).parents[1])
    paths = [tests, *([] if os.environ.get("QCORE_TEST_INSTALLED") else [str(Path(tests).parent)])]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "bytes_fuzz.worker", found.kind, str(first), str(last)]
    at = first
    with (
        open(folder / "stderr", "w+b") as errors,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        for line in _lines(process):
            number, seconds, what = line.split("\t", 2)
            found.add(int(number), what)
            if float(seconds) > SLOW_SECONDS:
                found.slow.append(int(number))
            at = int(number) + 1
            if until is not None and time.monotonic() > until:
                process.kill()
                return last
        silent = process.poll() is None and at < last
        if silent:
            # faulthandler writes the stacks of all threads.
            process.send_signal(signal.SIGABRT)
        process.wait()
        errors.seek(0)
        # After the stacks it lists every module.
        shown = errors.read().decode("utf-8", "replace").partition("Extension modules:")[0]
    if at == first and "Traceback" in shown:
        raise RuntimeError(f"the worker for {found.kind} did not start: {shown[-STDERR_SHOWN:]}")
    if at >= last:
        return at
    ended = f"hang: nothing for {SECONDS_MAX} s" if silent else f"dead process: it ended with {process.returncode}"
    found.add(at, f"{ended}: {shown[-STDERR_SHOWN:]}")
    return at + 1


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Lines of its output, until it ends or writes nothing for SECONDS_MAX."""
    assert process.stdout is not None
    held = b""
    while any(select.select([process.stdout], [], [], 1.0)[0] for _ in range(SECONDS_MAX)):
        more = os.read(process.stdout.fileno(), 1 << 16)
        if not more:
            process.wait()
            return
        *lines, held = (held + more).split(b"\n")
        for line in lines:
            yield line.decode()
