"""Divides splits among tasks by their bytes. The same splits are always divided in the same way."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from qcore.connectors.base import Split

# The fewest bytes of a task, if there are several. Starting a Spark task takes as long as reading 20 MB.
TASK_BYTES_MIN = 16 << 20
# The assumed bytes of a split of unknown size.
UNKNOWN_BYTES = 1 << 20


def split_bytes(split: Split) -> int | None:
    """Return the bytes of a split. None: unknown."""
    for name in ("n_bytes", "length"):
        value = getattr(split, name, None)
        if value is not None:
            return int(value)
    return None


def bytes_of_splits(splits: Sequence[Split]) -> list[int]:
    """Return the bytes of each split. For a split of unknown size this is the mean of the others."""
    known = [split_bytes(split) for split in splits]
    told = [n_bytes for n_bytes in known if n_bytes is not None]
    mean = sum(told) // len(told) if told else UNKNOWN_BYTES
    return [mean if n_bytes is None else n_bytes for n_bytes in known]


def n_tasks_for(n_bytes: int, n_splits: int, n_slots: int, task_bytes_min: int = TASK_BYTES_MIN) -> int:
    """Return how many tasks should read splits: at least one, no more than run at once or than there are splits."""
    return max(1, min(n_slots, n_splits, -(-n_bytes // task_bytes_min)))


def assign_splits(splits: Sequence[Split], n_tasks: int) -> list[list[Split]]:
    """Divide splits among tasks: the largest first, each to the task that has the fewest bytes so far.

    A task keeps its splits in the given order. Tasks may be without splits. Equal arguments give equal lists.
    """
    sizes = bytes_of_splits(splits)
    # Of tasks with equal bytes the one with the fewest splits comes first, so that empty splits are spread too.
    tasks = [(0, 0, task) for task in range(n_tasks)]
    chosen: list[list[int]] = [[] for _ in range(n_tasks)]
    for number in sorted(range(len(splits)), key=lambda number: (-sizes[number], number)):
        n_bytes, n_splits, task = heapq.heappop(tasks)
        chosen[task].append(number)
        heapq.heappush(tasks, (n_bytes + sizes[number], n_splits + 1, task))
    return [[splits[number] for number in sorted(numbers)] for numbers in chosen]


def group_partitions(sizes: Sequence[int], n_slots: int, task_bytes: int) -> list[list[int]]:
    """Divide partitions, given by their bytes, among tasks: neighbours to one task, about as many bytes to each.

    The number of partitions was chosen by estimates; now their sizes are known. There are as many tasks as run at once,
    or that number several times if they would read more than `task_bytes` each. No task is without partitions.
    """
    total = sum(sizes)
    n_turns = max(1, -(-total // (task_bytes * n_slots)))
    n_tasks = min(len(sizes), n_turns * n_slots)
    groups: list[list[int]] = [[] for _ in range(n_tasks)]
    before = 0
    for partition, n_bytes in enumerate(sizes):
        # The task whose share of all bytes contains the middle of the partition.
        task = (2 * before + n_bytes) * n_tasks // (2 * max(total, 1))
        groups[min(task, n_tasks - 1)].append(partition)
        before += n_bytes
    return [group for group in groups if group]
