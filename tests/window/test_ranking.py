"""row_number, rank, percent_rank, ntile and others by a row's position in its partition. SPEC Q2."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from windows import window_values

from qcore.errors import ExecutionError, PlanError
from qcore.plan.nodes import SortKey, WindowCall
from random_tables import SIZES


def table(n_rows: int) -> pa.Table:
    """Partitions of 1, 2, 3, … rows. Each has peer groups of one, two and three rows."""
    parts, keys = [], []
    part, inside = 0, 0
    for _ in range(n_rows):
        parts.append(part)
        keys.append([0, 1, 1, 2, 2, 2][inside % 6] + inside // 6 * 3)
        inside += 1
        if inside > part:
            part, inside = part + 1, 0
    return pa.table({"p": pa.array(parts, pa.int64()), "k": pa.array(keys, pa.int64())})


def expected(function: str, keys: list[int], tiles: int) -> list[Any]:
    """Compute the values of one partition by their definitions."""
    size = len(keys)
    below = [sum(other < key for other in keys) for key in keys]
    up_to = [sum(other <= key for other in keys) for key in keys]
    distinct = sorted(set(keys))
    if function == "ntile":
        sizes = [size // tiles + (tile < size % tiles) for tile in range(tiles)]
        return [tile + 1 for tile, rows in enumerate(sizes) for _ in range(rows)]
    return {
        "row_number": list(range(1, size + 1)),
        "rank": [rank + 1 for rank in below],
        "dense_rank": [distinct.index(key) + 1 for key in keys],
        "percent_rank": [rank / (size - 1) if size > 1 else 0.0 for rank in below],
        "cume_dist": [rank / size for rank in up_to],
        "partition_rows": [size] * size,
    }[function]


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize(
    ("function", "tiles"),
    [
        ("row_number", 1), ("rank", 1), ("dense_rank", 1), ("percent_rank", 1), ("cume_dist", 1),
        ("partition_rows", 1), ("ntile", 1), ("ntile", 2), ("ntile", 4), ("ntile", 7), ("ntile", 1000),
    ],
)  # fmt: skip
def test_numbers_and_fractions(function: str, tiles: int, n_rows: int) -> None:
    rows = table(n_rows)
    got = window_values(rows, WindowCall("x", function, number=tiles), ["p"], [SortKey("k")])
    wanted: list[Any] = []
    keys = rows["k"].to_pylist()
    begin = 0
    for part in range(rows["p"][-1].as_py() + 1 if n_rows else 0):
        end = min(begin + part + 1, n_rows)
        wanted += expected(function, keys[begin:end], tiles)
        begin = end
    assert got == wanted


@pytest.mark.parametrize(("size", "tiles"), [(10, 3), (11, 3), (12, 3), (3, 10), (2049, 2048), (2047, 2048)])
def test_larger_tiles_come_first(size: int, tiles: int) -> None:
    rows = pa.table({"p": [0] * size, "k": range(size)})
    got = window_values(rows, WindowCall("x", "ntile", number=tiles), ["p"], [SortKey("k", descending=True)])
    assert got == expected("ntile", list(range(size)), tiles)


def test_each_row_has_a_number_of_tiles() -> None:
    """The number of tiles differs by row. If it is null, so is the result."""
    tiles = [1, 2, 3, None, 5, 7, 1000, 4]
    rows = pa.table({"p": [0] * 8, "k": range(8), "n": pa.array(tiles, pa.int64())})
    got = window_values(rows, WindowCall("x", "ntile", number="n"), ["p"], [SortKey("k")])
    assert got == [None if n is None else expected("ntile", list(range(8)), n)[at] for at, n in enumerate(tiles)]


@pytest.mark.parametrize("tiles", [0, -3])
def test_a_number_of_tiles_is_positive(tiles: int) -> None:
    rows = pa.table({"p": [0, 0], "k": [1, 2], "n": [1, tiles]})
    with pytest.raises(ExecutionError, match="the number of tiles of ntile must be positive"):
        window_values(rows, WindowCall("x", "ntile", number="n"), ["p"], [SortKey("k")])


def test_a_column_of_numbers_is_int64() -> None:
    rows = pa.table({"p": [0], "k": [1], "n": pa.array([1], pa.int32())})
    with pytest.raises(PlanError, match="counts by column 'n', which is not int64"):
        window_values(rows, WindowCall("x", "ntile", number="n"), ["p"], [SortKey("k")])
