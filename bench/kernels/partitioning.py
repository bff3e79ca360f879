"""Partitioning a task's output into pages, one thread: python bench/kernels/partitioning.py [rows].

Prints GB of input a second of processor time and nanoseconds a row, for 8, 64 and 512 partitions; the share of the
bytes that memcpy moves in the same time; and the time to that of Polars, which hashes the key and divides the frame.
They take turns.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

# One thread, like the engine here. Polars reads it when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import pyarrow as pa

from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

REPEATS = 5
BATCH_ROWS = 65_536
PARTITIONS = (8, 64, 512)
# Targets: at least this share of memcpy's bytes a second, at most this share of Polars' time.
COPY_TARGET = 0.40
POLARS_TARGET = 0.25


def tables(n_rows: int) -> dict[str, pa.Table]:
    """40 bytes a row in four columns; and with text that is longer than a view holds."""
    rng = np.random.default_rng(1)
    numbers = {
        "k": rng.integers(0, 1 << 40, n_rows),
        "a": rng.integers(0, 1 << 40, n_rows),
        "x": rng.random(n_rows),
    }
    short = pa.array(rng.integers(0, 1 << 30, n_rows)).cast(pa.string()).cast(pa.string_view())
    texts = pa.array(np.char.add("a longer string ", np.arange(10_000).astype(str)))
    long = texts.take(pa.array(rng.integers(0, 10_000, n_rows)))
    return {"numbers, short text": pa.table({**numbers, "s": short}), "long text": pa.table({**numbers, "s": long})}


class Dropped:
    """Takes pages and keeps none, so that their buffers are reused as they are in a query."""

    def bind(self, schema: object) -> None:
        """Nothing depends on the schema."""

    def write(self, partition: int, page: object) -> None:
        """Forget a page."""

    def producer_done(self, finished: bool) -> None:
        """Nothing to close."""


def run(table: pa.Table, n_partitions: int) -> float:
    """CPU seconds to partition the table."""
    operator = PartitionedOutput("1", Account(), Dropped(), n_partitions, ["k"])
    run_chain([operator], table.to_batches(max_chunksize=BATCH_ROWS), table.schema)
    return operator.stats_snapshot()["get_output"]["cpu_nanos"] / 1e9


def copy(table: pa.Table) -> float:
    """Processor seconds to copy the table's bytes from memory to memory, both beyond the caches and in use."""
    source = np.ones(table.nbytes, np.uint8)
    target = np.zeros_like(source)
    began = time.process_time()
    np.copyto(target, source)
    return time.process_time() - began


def run_polars(frame: Any, n_partitions: int) -> float:
    """Processor seconds of Polars to divide the frame by the hash of the key."""
    import polars as pl

    began = time.process_time()
    numbered = frame.with_columns((pl.col("k").hash() % n_partitions).alias("p"))
    numbered.partition_by("p", maintain_order=False, include_key=False)
    return time.process_time() - began


def main() -> None:
    """Print a line a table and number of partitions."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    import polars as pl

    for name, table in tables(n_rows).items():
        frame = pl.from_arrow(table)
        for n_partitions in PARTITIONS:
            runs = [(run(table, n_partitions), copy(table), run_polars(frame, n_partitions)) for _ in range(REPEATS)]
            best, copied, polars = map(min, zip(*runs, strict=True))
            share, ratio = copied / best, best / polars
            met = share >= COPY_TARGET and ratio <= POLARS_TARGET
            print(
                f"{name:20} {n_partitions:4} partitions {table.nbytes / best / 1e9:6.2f} GB/s "
                f"{best / n_rows * 1e9:6.1f} ns a row, {share:.2f} of memcpy (target {COPY_TARGET}), "
                f"{ratio:.2f} of Polars (target {POLARS_TARGET}): {'ok' if met else 'missed'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
