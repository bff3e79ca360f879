"""Splits are divided among tasks: each split once, balanced by bytes, always in the same way (SPEC S2)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from qcore.connectors.base import FileSplit, Split
from qcore.connectors.series import SeriesSplit
from qcore.spark.file_assignment import assign_splits, bytes_of_splits, group_partitions, n_tasks_for


def sections(*lengths: int) -> list[Split]:
    return [FileSplit(f"{number}.parquet", 0, length) for number, length in enumerate(lengths)]


def loads(tasks: list[list[Split]]) -> list[int]:
    return [sum(bytes_of_splits(splits)) for splits in tasks]


def test_every_split_goes_to_one_task() -> None:
    picked = random.Random(5)
    for n_splits in (0, 1, 2, 7, 100):
        for n_tasks in (1, 2, 3, 16):
            splits = sections(*(picked.randrange(1, 1000) for _ in range(n_splits)))
            tasks = assign_splits(splits, n_tasks)
            assert len(tasks) == n_tasks
            assert Counter(split for task in tasks for split in task) == Counter(splits)
            assert tasks == assign_splits(splits, n_tasks), "the same each time"
            # A greedy division, largest first, is at most a third above the best one.
            best = max(sum(bytes_of_splits(splits)) / n_tasks, max(bytes_of_splits(splits), default=0))
            assert max(loads(tasks)) <= best * 4 / 3 + 1


def test_the_order_within_a_task_is_that_of_the_table() -> None:
    assert assign_splits(sections(1, 5, 3, 9), 1) == [sections(1, 5, 3, 9)]
    first, second = assign_splits(sections(10, 10, 10, 10), 2)
    assert [split.path for split in (*first, *second)] == ["0.parquet", "2.parquet", "1.parquet", "3.parquet"]  # type: ignore[attr-defined]


def test_a_split_without_size_counts_as_the_mean() -> None:
    @dataclass(frozen=True)
    class Odd(Split):
        pass

    assert bytes_of_splits([FileSplit("a", 0, 10), FileSplit("b"), FileSplit("c", 0, 20)]) == [10, 15, 20]
    assert len(set(bytes_of_splits([Odd(), Odd()]))) == 1
    assert bytes_of_splits([SeriesSplit(0, 7)]) == [7]


def test_empty_splits_are_spread() -> None:
    assert [len(task) for task in assign_splits(sections(0, 0, 0, 0), 2)] == [2, 2]


def test_number_of_tasks() -> None:
    assert n_tasks_for(0, 0, 8) == 1
    assert n_tasks_for(10, 100, 8, 10) == 1
    assert n_tasks_for(11, 100, 8, 10) == 2
    assert n_tasks_for(10_000, 100, 8, 10) == 8
    assert n_tasks_for(10_000, 3, 8, 10) == 3


def test_every_partition_is_read_by_one_task() -> None:
    picked = random.Random(6)
    for n_partitions in (1, 2, 7, 100):
        for n_slots, task_bytes in ((1, 10), (3, 1000), (16, 1 << 20)):
            sizes = [picked.choice([0, 1, picked.randrange(1, 1000)]) for _ in range(n_partitions)]
            tasks = group_partitions(sizes, n_slots, task_bytes)
            assert [partition for task in tasks for partition in task] == list(range(n_partitions))
            assert all(tasks)
            wanted = min(n_partitions, max(n_slots, -(-sum(sizes) // task_bytes)))
            assert len(tasks) <= wanted
            # A task has its share, and at most half of a partition more at each end.
            share = sum(sizes) / wanted
            assert max(sum(sizes[partition] for partition in task) for task in tasks) <= share + max(sizes)


def test_small_partitions_have_common_tasks() -> None:
    assert group_partitions([5] * 6, 2, 100) == [[0, 1, 2], [3, 4, 5]]
    assert group_partitions([5] * 6, 2, 10) == [[0], [1, 2], [3], [4, 5]]
    assert group_partitions([100, 1, 1, 100], 2, 1000) == [[0, 1], [2, 3]]
    assert group_partitions([0, 0, 0], 2, 10) == [[0, 1, 2]]
    assert group_partitions([0, 9, 0, 0], 2, 10) == [[0], [1, 2, 3]]
    assert group_partitions([], 2, 10) == []
