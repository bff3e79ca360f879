"""What the memory of this machine gives one thread: the limits that kernels are compared with in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np

REPEATS = 5
# Beyond the caches, and in use, so that no page is new.
COPY_BYTES = 1 << 28
LINE_BYTES = 64
READS = 1 << 20


def least_seconds(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least processor time of some runs."""
    times = []
    for _ in range(repeats):
        began = time.thread_time_ns()
        run()
        times.append(time.thread_time_ns() - began)
    return min(times) / 1e9


@cache
def copy_rate() -> float:
    """GB that memcpy moves in a second, from memory to memory."""
    source = np.ones(COPY_BYTES, np.uint8)
    target = np.zeros_like(source)
    return COPY_BYTES / least_seconds(lambda: np.copyto(target, source)) / 1e9


@cache
def line_nanos(n_bytes: int) -> float:
    """Nanoseconds of one of many independent reads of random lines of a table of so many bytes."""
    n_lines = max(1, n_bytes // LINE_BYTES)
    table = np.ones((n_lines, LINE_BYTES // 8), np.int64)[:, 0]
    lines = np.random.default_rng(1).integers(0, n_lines, READS)
    out = np.empty(READS, np.int64)
    return least_seconds(lambda: np.take(table, lines, out=out, mode="clip")) * 1e9 / READS


def limits_text() -> str:
    """The limits, for the head of a table."""
    sizes = (1 << 20, 1 << 24, 1 << 28)
    reads = ", ".join(f"{line_nanos(size):.1f} of {size >> 20} MB" for size in sizes)
    return f"memcpy {copy_rate():.1f} GB/s; random lines, ns: {reads}"
