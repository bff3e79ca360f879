"""Partitioning a task's output into pages, one thread: python bench/kernels/partitioning.py [rows].

Prints GB of input a second of CPU time, and nanoseconds a row, for 8, 64 and 512 partitions.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

REPEATS = 5
BATCH_ROWS = 65_536
PARTITIONS = (8, 64, 512)


def tables(n_rows: int) -> dict[str, pa.Table]:
    """40 bytes a row in four columns; and with text that is longer than a view holds."""
    rng = np.random.default_rng(1)
    numbers = {
        "k": rng.integers(0, 1 << 40, n_rows),
        "a": rng.integers(0, 1 << 40, n_rows),
        "x": rng.random(n_rows),
    }
    short = pa.array(rng.integers(0, 1 << 30, n_rows)).cast(pa.string()).cast(pa.string_view())
    long = pa.array(np.char.add("a longer string ", rng.integers(0, 10_000, n_rows).astype(str)))
    return {"numbers, short text": pa.table({**numbers, "s": short}), "long text": pa.table({**numbers, "s": long})}


class Dropped:
    """Takes pages and keeps none, so that their buffers are reused as they are in a query."""

    def write(self, partition: int, page: object) -> None:
        """Forget a page."""

    def producer_done(self, finished: bool) -> None:
        """Nothing to close."""


def run(table: pa.Table, n_partitions: int) -> float:
    """CPU seconds to partition the table."""
    operator = PartitionedOutput("1", Account(), Dropped(), n_partitions, ["k"])
    run_chain([operator], table.to_batches(max_chunksize=BATCH_ROWS), table.schema)
    return operator.stats_snapshot()["get_output"]["cpu_nanos"] / 1e9


def main() -> None:
    """Print a line a table and number of partitions."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    for name, table in tables(n_rows).items():
        for n_partitions in PARTITIONS:
            best = min(run(table, n_partitions) for _ in range(REPEATS))
            print(
                f"{name:20} {n_partitions:4} partitions {table.nbytes / best / 1e9:6.2f} GB/s "
                f"{best / n_rows * 1e9:6.1f} ns a row"
            )


if __name__ == "__main__":
    main()
