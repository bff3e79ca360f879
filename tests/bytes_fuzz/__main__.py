"""`make fuzz-bytes`: each kind for its share of the time; `--kinds parquet --seed 7 --mutations 1` runs one again."""

from __future__ import annotations

import argparse
import sys
import time

from bytes_fuzz.sources import KINDS
from bytes_fuzz.watch import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", default=",".join(KINDS), help="of " + ", ".join(KINDS))
    parser.add_argument("--seed", type=int, help="number of the first mutation; by default the clock says")
    parser.add_argument("--mutations", type=int, default=100_000, help="at most, of each kind")
    parser.add_argument("--seconds", type=float, default=0.0, help="at most, for all kinds together; 0: no limit")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    first = int(time.time()) * 1000 if options.seed is None else options.seed
    n_faults = 0
    for kind in kinds:
        until = time.monotonic() + options.seconds / len(kinds) if options.seconds else None
        found = run(kind, first, first + options.mutations, until)
        n_faults += len(found.faults)
        for number, what in found.faults:
            again = f"--kinds {kind} --seed {number} --mutations 1"
            sys.stdout.write(f"{kind} {number}: {what}\nagain: make fuzz-bytes ARGS='{again}'\n")
        counts = ", ".join(f"{count} {what}" for what, count in sorted(found.counts.items()))
        rate = found.n / max(found.seconds, 1e-9)
        slow = f"; slow: {found.slow}" if found.slow else ""
        sys.stdout.write(f"{kind}: {found.n} mutations from {first}, {rate:.0f} a second: {counts}{slow}\n")
        sys.stdout.flush()
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main())
