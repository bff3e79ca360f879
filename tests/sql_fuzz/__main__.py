"""`make fuzz-sql`: random queries until the time is over; differences are cut down and printed.

`--seconds 600 --seed 7` runs for so long, from seed 7; `--case 7:1234` runs one case again.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import tempfile
import time
from pathlib import Path

from sql_fuzz.cases import Fuzzer


def main() -> int:
    """Run; the number of differences found is the exit status, 100 at most."""
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
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(options.seed, options.ways, Path(folder))
        return run(fuzzer, options)


def run(fuzzer: Fuzzer, options: argparse.Namespace) -> int:
    """Cases until something ends it."""
    began = shown = time.monotonic()
    number, found = options.first, 0
    kinds: collections.Counter[str] = collections.Counter()
    while number - options.first < options.queries and time.monotonic() - began < options.seconds:
        report = fuzzer.case(number)
        if report is not None:
            kinds[report.kind] += 1
            # The same fault once more is counted, not cut down.
            if kinds[report.kind] <= 3 or options.case:
                print(fuzzer.explained(number, report), flush=True)
            found += 1
            if found >= options.differences:
                break
        number += 1
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            print(fuzzer.summary(number - options.first, shown - began), flush=True)
    print(fuzzer.summary(number - options.first, time.monotonic() - began), flush=True)
    for kind, count in kinds.most_common():
        print(f"  {count} differences: {kind}")
    for text, count in fuzzer.refused.most_common(20):
        print(f"  {count} refused: {text}")
    return min(found, 100)


if __name__ == "__main__":
    sys.exit(main())
