"""The k-th smallest value of frames of one, two and three row ranges. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from windows import run_window

from qcore.plan.nodes import SortKey, WindowCall, WindowFrame

FRACTIONS = (0.0, 0.31, 0.5, 1.0)


def quantiles(values: np.ndarray, frame: WindowFrame, groups: np.ndarray) -> list[list[int | None]]:
    calls = [WindowCall(f"{fraction}", "quantile_disc", "v", frame=frame, parameter=fraction) for fraction in FRACTIONS]
    table = pa.table({"k": groups, "v": values})
    got = run_window(table, calls, [], [SortKey("k")])
    return [got[call.name].to_pylist() for call in calls]


def pick_values(values: np.ndarray) -> list[int | None]:
    """The discrete quantile at each fraction, by its definition."""
    if len(values) == 0:
        return [None] * len(FRACTIONS)
    ordered = np.sort(values)
    return [int(ordered[max(int(np.ceil(fraction * len(values))) - 1, 0)]) for fraction in FRACTIONS]


def check(values: np.ndarray, frame: WindowFrame, groups: np.ndarray | None = None) -> None:
    n_rows = len(values)
    groups = np.arange(n_rows) if groups is None else groups
    got = quantiles(values, frame, groups)
    step = max(n_rows // 300, 1)
    for position in [*range(0, n_rows, step), *range(max(n_rows - 70, 0), n_rows)]:
        low = 0 if frame.start is None else max(position + frame.start, 0)
        high = n_rows if frame.end is None else max(min(position + frame.end + 1, n_rows), low)
        inside = np.arange(low, high)
        if frame.exclude == "current row":
            inside = inside[inside != position]
        elif frame.exclude == "group":
            inside = inside[groups[inside] != groups[position]]
        elif frame.exclude == "ties":
            inside = inside[(groups[inside] != groups[position]) | (inside == position)]
        assert [column[position] for column in got] == pick_values(values[inside]), position


@pytest.mark.parametrize("n_rows", [1, 2, 3, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 2047, 2048, 2049])
def test_counts_of_values_around_powers_of_two(n_rows: int) -> None:
    """Each power of two adds a level. The last 64-bit word of a level is full or not."""
    values = np.random.default_rng(n_rows).permutation(n_rows)
    for frame in (WindowFrame("rows", None, None), WindowFrame("rows", -40, 40), WindowFrame("rows", None, 0)):
        check(values, frame)


@pytest.mark.parametrize("n_distinct", [1, 2, 5, 1000])
@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
def test_values_that_repeat(order: str, n_distinct: int) -> None:
    values = np.random.default_rng(n_distinct).integers(0, n_distinct, 700) - 3
    if order != "random":
        values = np.sort(values)
    check(values[::-1].copy() if order == "descending" else values, WindowFrame("rows", -65, -1))


@pytest.mark.parametrize("exclude", ["current row", "group", "ties"])
def test_frames_of_several_stretches(exclude: str) -> None:
    rng = np.random.default_rng(2)
    groups = np.sort(rng.integers(0, 90, 500))
    for start, end in ((None, None), (-70, 70), (-3, 200), (5, 9)):
        check(rng.permutation(500), WindowFrame("rows", start, end, exclude), groups)
