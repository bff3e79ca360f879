"""The choices that a seed stands for."""

from __future__ import annotations

import random
from dataclasses import dataclass

from operator_plans import CASES
from random_plans import ROWS_MAX

WAYS = ("scheduler", "caller", "polled", "iterator")
FAULTS = (
    "none", "none", "error", "error in Python", "cancel", "early finish", "leave", "cancel from outside", "memory",
)  # fmt: skip
RANDOM_PLAN = "random plan"
# The end of the plan: the reader, a sink in Python in each protocol, files, or pages for other tasks.
SINKS = ("", "", "", "callback", "pushed", "polled", "parquet", "partition files", "pages")
# Changes of the sources' schemas: none, within the declared schema, beyond it, or to a type in conflict.
EPOCHS = ("", "", "", "", "declared", "declared", "beyond", "beyond", "conflict")


@dataclass
class Scenario:
    """The choices that a seed stands for."""

    seed: int
    name: str
    drivers: int
    threads: int
    batch_rows: int
    way: str
    fault: str
    n_left: int
    n_right: int
    share: float  # of the gaps between operators that get a random operator
    step: int  # at which the fault comes
    python: bool  # operators written in Python below the plan, too
    sink: str
    epochs: str
    memory_limit: int | None


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    name = RANDOM_PLAN if rng.random() < 0.4 else rng.choice(sorted(CASES))
    size = rng.choice((0, 1, 30, ROWS_MAX) if name == RANDOM_PLAN else (0, 1, 30, 300, 1500))
    fault = rng.choice(FAULTS)
    sink = rng.choice(SINKS)
    way = rng.choice(WAYS)
    epochs = rng.choice(EPOCHS)
    if epochs:
        size = max(size, 30)  # in several parts
    if sink == "parquet" and fault == "early finish":
        fault = "none"  # no operator between a write and its commit ends early
    return Scenario(
        seed,
        name,
        rng.choice((1, 1, 2, 3, 5, 8)),
        rng.choice((1, 2, 4)),
        rng.choice((32, 64, 256, 65536)),
        # Pages are fetched from a task that runs.
        "scheduler" if sink == "pages" else way,
        fault,
        rng.randint(0, size),
        rng.randint(0, min(size, 200)),
        rng.choice((0.0, 0.3, 1.0)),
        rng.choice((1, 2, 5, 20, 60)),
        rng.random() < 0.5,
        sink,
        epochs,
        rng.choice((1, 1000, 30_000, 10**6)) if fault == "memory" else None,
    )
