"""Many small queries at once on few threads, with all kinds of ends: each waiting driver is woken (SPEC V7, G5).

Everything here is about queues that take no lock: exchanges of few batches, join bridges, splits, results that are read
late. A query that is not over in a minute has lost a wake-up.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pyarrow as pa

import qcore
import qcore.session.task
from driver_fuzz.run import HANG_SECONDS, scheduler_with
from qcore import PlanBuilder, col

TASKS = 200
DRIVERS = 4
THREADS = 2
READERS = 3
ROWS = 120
KEYS = 10
TABLE = pa.table({"a": pa.array([i % KEYS for i in range(ROWS)]), "v": pa.array(range(ROWS))})
FEW = pa.table({"k": pa.array(range(KEYS // 2))})
FATES = ("read", "read", "read", "leave", "cancel", "cancel unread", "never read")


def rows(table: pa.Table = TABLE) -> PlanBuilder:
    """A scan of several splits."""
    return PlanBuilder().scan("t", source=table)


def few() -> PlanBuilder:
    return rows(FEW).local_partition(drivers=2)


# By shape: the plan, and the number of its rows.
SHAPES: tuple[tuple[Callable[[], PlanBuilder], int], ...] = (
    (lambda: rows().local_partition(["a"]).filter(col("v") >= 0), ROWS),
    (lambda: rows().local_partition().local_partition(["a"]).local_partition(kind="gather"), ROWS),
    (lambda: rows().local_partition(["a"]).hash_join(few(), ["a"], ["k"]), ROWS // 2),
    (lambda: rows().local_partition(["a"]).hash_join(few(), ["a"], ["k"], how="right"), ROWS // 2),
    (lambda: rows().hash_join(few().filter(col("k") < 0), ["a"], ["k"]), 0),
    (lambda: rows().local_partition().aggregate(["a"], {"n": ("count",)}).order_by(["a"]), KEYS),
    (lambda: rows().union_all(rows().local_partition(["a"]), rows()).limit(ROWS + 1), ROWS + 1),
    (lambda: rows().local_partition(["a"]).limit(7).local_partition(drivers=3), 7),
    (lambda: rows().local_partition().hash_join(few(), ["a"], ["k"], how="full").limit(5), 5),
)


def crowd(seed: int) -> Counter[str]:
    """Run one round. Returns the number of queries by their end. Raises AssertionError for a fault."""
    rng = random.Random(seed)
    scheduler = scheduler_with(THREADS)
    with mock.patch.object(qcore.session.task, "scheduler_of", return_value=scheduler):
        made = [rng.choice(SHAPES) for _ in range(TASKS)]
        tasks = [qcore.Task(build().build(), DRIVERS, batch_rows=rng.choice((8, 16, 64))) for build, _ in made]
        fates = [rng.choice(FATES) for _ in tasks]
        for task in tasks:
            task.start()
    doomed = [task for task, fate in zip(tasks, fates, strict=True) if fate.startswith("cancel")]
    rng.shuffle(doomed)
    canceller = threading.Thread(target=lambda: [task.cancel() for task in doomed])
    canceller.start()
    with ThreadPoolExecutor(READERS) as pool:
        wanted = [n_rows for _, n_rows in made]
        ends = Counter(pool.map(outcome, tasks, fates, wanted))
    canceller.join()
    return ends


def outcome(task: qcore.Task, fate: str, n_rows: int) -> str:
    """End the task in the given way. Returns the name of the end that it had."""
    if fate == "never read":
        # Drivers that wait for a reader are woken.
        task.iterator().close()
        return "closed"
    n_read = 0
    try:
        if fate == "cancel unread":
            task.wait(HANG_SECONDS)
            return "finished"
        for batch in task.batches(timeout=HANG_SECONDS):
            n_read += batch.num_rows
            if fate == "leave":
                return "left"
    except qcore.Cancelled:
        assert fate.startswith("cancel"), f"cancelled by nobody: {task.stats()}"
        return "cancelled"
    assert n_read == n_rows, (n_read, n_rows)
    return "finished"
