"""The process that runs mutations: `python -m bytes_fuzz.worker KIND FIRST LAST`.

It writes a line for each mutation to its output: the number, the seconds that it took, and its outcome.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

#: The address space that mutations may add to the process: damaged lengths request memory for bytes that do not exist.
ADDRESS_BYTES_MAX = 8 << 30
#: The memory by which one mutation of some kilobytes may grow the process. The query itself may keep QUERY_BYTES_MAX.
GROWTH_BYTES_MAX = 512 << 20
QUERY_BYTES_MAX = 256 << 20


def work(kind: str, first: int, last: int) -> None:
    """Run mutations first to last - 1."""
    import qcore
    from bytes_fuzz.mutations import mutation
    from bytes_fuzz.questions import N_QUESTIONS
    from bytes_fuzz.sources import STRUCTS, ask, plan_rows, variants

    faulthandler.enable()
    told = os.dup(1)
    os.dup2(2, 1)
    # With one thread no other thread must be woken. A timeout is a QcoreError like any other.
    session = qcore.Session(threads=1, timeout=10, memory_limit=QUERY_BYTES_MAX)
    session.register("t", plan_rows())
    raw = variants(kind)
    right = {}
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as name:
        folder = Path(name)
        for n in range(len(raw) * N_QUESTIONS):
            right[n] = ask(session, kind, n, None if kind in STRUCTS else raw[n % len(raw)], folder)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_BYTES_MAX, resource.RLIM_INFINITY))
        peak = _peak_bytes()
        for number in range(first, last):
            start = time.monotonic()
            try:
                given = b"" if kind in STRUCTS else mutation(kind, raw[number % len(raw)], number)
                answer = ask(session, kind, number, given, folder)
                what = "same answer" if answer.equals(right[number % len(right)]) else "another answer"
            except qcore.QcoreError:
                what = "error"
            except BaseException as error:
                what = f"other error: {type(error).__name__}: {str(error)[:300]!r}"
            before, peak = peak, _peak_bytes()
            if peak - before > GROWTH_BYTES_MAX:
                what = f"much memory: {(peak - before) >> 20} MiB more, of: {what}"
            os.write(told, f"{number}\t{time.monotonic() - start:.3f}\t{what}\n".encode())


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
