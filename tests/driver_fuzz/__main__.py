"""`make fuzz`: seeds until the time is over; `--seed 7 --runs 1` runs one again, `--crowd` many tasks at once."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from driver_fuzz.crowd import crowd
from driver_fuzz.run import check_nothing_is_left, run, shut_down
from driver_fuzz.scenario import scenario

# After this many runs the process is checked for leaks. The seed in the message is then that of the last run.
CHECKED_RUNS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="where to begin; by default the clock says")
    parser.add_argument("--runs", type=int, default=0, help="how many seeds, one after the other")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, unless --runs is given")
    parser.add_argument("--crowd", action="store_true", help="each seed many small tasks at once on two threads")
    options = parser.parse_args()
    first = int(time.time()) if options.seed is None else options.seed
    until = time.monotonic() + options.seconds
    ends: Counter[str] = Counter()
    failed = seed = 0
    for seed in range(first, first + options.runs) if options.runs else range(first, first + 10**9):
        if not options.runs and time.monotonic() > until:
            break
        try:
            ends.update(crowd(seed) if options.crowd else [run(seed)])
            if (seed - first) % CHECKED_RUNS == CHECKED_RUNS - 1 or options.runs:
                check_nothing_is_left()
        except Exception:
            failed += 1
            again = f"--seed {seed} --runs 1" + " --crowd" * options.crowd
            about = "" if options.crowd else f"{scenario(seed)}\n"
            sys.stdout.write(f"{about}{traceback.format_exc()}\nagain: make fuzz ARGS='{again}'\n")
            sys.stdout.flush()
    sys.stdout.write(f"seeds {first} to {seed}: {failed} failed; {dict(ends)}\n")
    shut_down()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
