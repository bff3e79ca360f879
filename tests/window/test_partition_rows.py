"""The bounds of partitions and of peer groups, for keys of every type. SPEC Q2."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from windows import as_equal, run_window

from qcore.plan.nodes import SortKey, WindowCall
from random_tables import KEY_TYPES, SIZES, plain, random_table

CALLS = [
    WindowCall("row", "row_number"),
    WindowCall("size", "partition_rows"),
    WindowCall("peers_begin", "rank"),
    WindowCall("peers_end", "cume_dist"),
    WindowCall("group", "dense_rank"),
]


def check(table: pa.Table, n_partition: int, batch_rows: int | None = None) -> None:
    """Compare with a model: a partition is a run of equal keys, and so are the peers in it.

    No key has two partitions.
    """
    names = table.column_names
    order = [SortKey(name) for name in names[n_partition:]]
    got = run_window(table, CALLS, names[:n_partition], order, batch_rows)
    assert got.num_rows == table.num_rows
    rows = list(zip(*(map(as_equal, column.to_pylist()) for column in plain(got.select(names)).columns), strict=True))
    keys = [(row[:n_partition], row[n_partition:]) for row in rows]
    sizes: dict[Any, int] = {}
    for part, _ in keys:
        sizes[part] = sizes.get(part, 0) + 1
    begin, peers, group = 0, 0, 0
    expected: list[tuple[int, ...]] = []
    for at, (part, key) in enumerate(keys):
        if at == 0 or part != keys[at - 1][0]:
            begin, peers, group = at, at, 1
        elif key != keys[at - 1][1]:
            peers = at
            group += 1
        peers_end = next((end for end in range(at, len(keys)) if keys[end] != (part, key)), len(keys))
        expected.append((at - begin + 1, sizes[part], peers - begin + 1, peers_end - begin, group))
    actual = [
        (row["row"], row["size"], row["peers_begin"], round(row["peers_end"] * row["size"]), row["group"])
        for row in got.select([call.name for call in CALLS]).to_pylist()
    ]
    assert actual == expected


@pytest.mark.parametrize("type_", KEY_TYPES, ids=str)
def test_keys_of_every_type(type_: pa.DataType) -> None:
    """All nulls are equal, all NaNs are equal, and -0.0 equals 0.0."""
    types = {"a": type_, "b": type_}
    check(random_table(5, 600, types, 0.2, n_distinct={"a": 12, "b": 5}, extremes=True), 1)
    check(random_table(6, 300, types, 0.2, n_distinct={"a": 5, "b": 5}, extremes=True), 2)


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n_partition", [0, 1, 2, 3])
def test_sizes(n_rows: int, n_partition: int) -> None:
    """Without partition keys there is one partition. Without an order all its rows are peers."""
    types = {"a": pa.int64(), "b": pa.string(), "c": pa.int8()}
    check(random_table(n_rows, n_rows, types, 0.1, n_distinct={"a": 7, "b": 9, "c": 6}), n_partition, 500)


def test_a_row_a_partition_and_one_partition() -> None:
    check(pa.table({"a": range(2049), "b": [1] * 2049}), 1)
    check(pa.table({"a": [1] * 2049, "b": range(2049)}), 1)
    check(pa.table({"a": [1] * 2049, "b": [None] * 2048 + [1]}), 1)
