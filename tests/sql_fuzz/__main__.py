"""`make fuzz-sql`: random queries until the time is over.

Differences are reduced and printed. `--seconds 600 --seed 7` runs 600 seconds from seed 7; `--case 7:1234` runs one
case again. Queries run in a separate process, so that a query that ends the process can be reduced too.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sql_fuzz.cases import Fuzzer
from sql_fuzz.run import Difference
from sql_fuzz.shrink import Case, fault

# Forked before any query has run, so that there are no threads yet.
FORK = multiprocessing.get_context("fork")
# A fault that was found before is counted, but not reduced again.
SHOWN_EACH = 3


def main() -> int:
    """Run the fuzzer. The exit status is the number of differences found, 100 at most."""
    parser = argparse.ArgumentParser(prog="sql_fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long, at most")
    parser.add_argument("--queries", type=float, default=float("inf"), help="how many, at most")
    parser.add_argument("--first", type=int, default=0, help="number of the first query")
    parser.add_argument("--ways", type=int, default=2, help="ways in which the engine runs each query")
    parser.add_argument("--case", help="SEED:NUMBER of one query to run and cut down")
    parser.add_argument("--differences", type=int, default=20, help="stop after so many")
    options = parser.parse_args()
    if options.case:
        options.seed, options.first = map(int, options.case.split(":"))
        options.queries = 1
    print(f"seed {options.seed}", flush=True)
    options.end = time.monotonic() + options.seconds
    options.last = options.first + options.queries
    running, found = FORK.Value("q", options.first), 0
    while running.value < options.last and time.monotonic() < options.end and found < options.differences:
        runner = FORK.Process(target=run, args=(options, running, options.differences - found))
        runner.start()
        runner.join()
        found += max(runner.exitcode, 0) if runner.exitcode is not None else 0
        if runner.exitcode is None or runner.exitcode >= 0:
            break
        found += 1
        explain_death(options, running.value, -runner.exitcode)
        running.value += 1
    return min(found, 100)


def run(options: argparse.Namespace, running: Any, differences: int) -> None:
    """Run cases until the time or their number is over. The exit status is the number of differences.

    `running` holds the number of the running case, which the parent process reads if this one dies.
    """
    began = shown = time.monotonic()
    first, found = running.value, 0
    kinds: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(options.seed, options.ways, Path(folder))
        while running.value < options.last and time.monotonic() < options.end and found < differences:
            report = fuzzer.case(running.value)
            if report is not None:
                kinds[report.kind] += 1
                found += 1
                if kinds[report.kind] <= SHOWN_EACH:
                    print(fuzzer.explain_case(running.value, report), flush=True)
            running.value += 1
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                print(fuzzer.summary(running.value - first, shown - began), flush=True)
        print(fuzzer.summary(running.value - first, time.monotonic() - began), flush=True)
        fuzzer.close()
    for kind, count in kinds.most_common():
        print(f"  {count} differences: {kind}")
    sys.exit(min(found, 100))


def explain_death(options: argparse.Namespace, number: int, signal: int) -> None:
    """Print a case that killed the process, cut down."""
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(options.seed, options.ways, Path(folder))
        for way in fuzzer.ways(number):
            death = Difference(f"signal {signal}", f"the process died of signal {signal}", way)
            if dies(Case(tuple(fuzzer.tables(number).tables), fuzzer.query(number), way)) is not None:
                break
        print(fuzzer.explain_case(number, death, dies), flush=True)
        fuzzer.close()


def dies(case: Case) -> Difference | None:
    """The signal that ends a process that runs the case, or None."""
    runner = FORK.Process(target=fault, args=(case,))
    runner.start()
    runner.join()
    code = runner.exitcode or 0
    return Difference(f"signal {-code}", f"the process died of signal {-code}", case.way) if code < 0 else None


if __name__ == "__main__":
    sys.exit(main())
