"""TPC-H from tables in memory on one thread and on two: how much faster the second makes each query.

One process, the sessions in turns, the plan cache warm. Wall time counts, so the machine must be quiet.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]

import pyarrow.parquet as pq

from suites import SUITES

TARGET = 1.8


def main() -> int:
    """Print a line a query, and the geometric mean beside its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    # The checked mode of the tests would change the measurements.
    os.environ.pop("QCORE_DEBUG", None)
    import qcore

    suite = SUITES["tpch"](options.scale)
    sessions = {threads: qcore.Session(threads=threads) for threads in (1, options.threads)}
    for name, path in suite.tables.items():
        rows = pq.read_table(path)
        for session in sessions.values():
            session.register(name, rows)
    print(f"load {os.getloadavg()[0]:.1f}; best of {options.rounds}\n{'':6}{'1':>9}{options.threads:>9}{'faster':>9}")
    ratios = []
    for query, text in suite.queries.items():
        seconds: dict[int, list[float]] = {threads: [] for threads in sessions}
        for number in range(options.rounds + 1):
            for threads, session in sessions.items():
                gc.collect()
                began = time.perf_counter()
                session.sql(text).to_arrow()
                if number > 0:
                    seconds[threads].append(time.perf_counter() - began)
        one, more = (min(seconds[threads]) for threads in sessions)
        ratios.append(one / more)
        print(f"{query:6}{one * 1e3:9.1f}{more * 1e3:9.1f}{one / more:9.2f}", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"geometric mean {mean:.2f}, target {TARGET}: {'ok' if mean >= TARGET else 'missed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
