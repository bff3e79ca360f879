"""Aggregates over overlapping frames, computed from a tree of states with sixteen children a node. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from windows import EXCLUSIONS, run_window

from qcore.plan.nodes import SortKey, WindowCall, WindowFrame

# Around one node of each of the first three levels, and around a vector.
SIZES = (0, 1, 15, 16, 17, 255, 256, 257, 2047, 2048, 2049, 4096, 4113)
CALLS = ("sum", "count", "min", "max", "avg", "bit_xor", "var_pop", "min text", "covar_pop", "count rows")


def table(n_rows: int) -> pa.Table:
    rng = np.random.default_rng(n_rows)
    return pa.table(
        {
            "at": np.arange(n_rows),
            "g": np.arange(n_rows) // 5,
            "v": pa.array(rng.integers(-1000, 1000, n_rows), mask=rng.random(n_rows) < 0.3),
            "w": pa.array(rng.integers(0, 50, n_rows) * 0.5, mask=rng.random(n_rows) < 0.3),
            "x": pa.array(rng.integers(-99, 99, n_rows) * 0.25, mask=rng.random(n_rows) < 0.3),
            "s": pa.array([f"text number {number:05}" for number in rng.integers(0, 99_999, n_rows)]),
        }
    )


def call(name: str, frame: WindowFrame, distinct: bool = False) -> WindowCall:
    function, _, what = name.partition(" ")
    argument = {"text": "s", "rows": None}.get(what, "w" if function in ("var_pop", "covar_pop") else "v")
    second = "x" if function == "covar_pop" else None
    return WindowCall(name, function, argument, frame=frame, second=second, distinct=distinct)


def expected(name: str, rows: list[dict[str, Any]]) -> Any:
    """Compute one aggregate over the rows of a frame."""
    values = [row["v"] for row in rows if row["v"] is not None]
    if name.startswith("count"):
        return len(rows) if name == "count rows" else len(values)
    if name == "min text":
        return min((row["s"] for row in rows), default=None)
    if name == "bit_xor":
        return np.bitwise_xor.reduce(values).item() if values else None
    if name == "var_pop":
        numbers = [row["w"] for row in rows if row["w"] is not None]
        return pytest.approx(np.var(numbers)) if numbers else None
    if name == "covar_pop":
        pairs = [(row["w"], row["x"]) for row in rows if row["w"] is not None and row["x"] is not None]
        return pytest.approx(np.cov(np.array(pairs).T, bias=True)[0, 1], abs=1e-9) if pairs else None
    if not values:
        return None
    return {"sum": sum(values), "min": min(values), "max": max(values), "avg": sum(values) / len(values)}[name]


def inside(position: int, frame: WindowFrame, n_rows: int) -> list[int]:
    low = 0 if frame.start is None else max(position + frame.start, 0)
    high = n_rows if frame.end is None else min(position + frame.end + 1, n_rows)
    group = position // 5
    return [
        at
        for at in range(low, high)
        if frame.exclude == "no others"
        or (frame.exclude == "current row" and at != position)
        or (frame.exclude == "group" and at // 5 != group)
        or (frame.exclude == "ties" and (at // 5 != group or at == position))
    ]


def check(n_rows: int, frame: WindowFrame, names: tuple[str, ...] = CALLS, order: str = "at") -> None:
    got = run_window(table(n_rows), [call(name, frame) for name in names], [], [SortKey(order)]).to_pylist()
    for position in {*range(0, n_rows, max(n_rows // 25, 1)), *range(n_rows)[-3:], *range(n_rows)[14:18]}:
        rows = [got[at] for at in inside(position, frame, n_rows)]
        for name in names:
            assert got[position][name] == expected(name, rows), (name, position)


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize(("start", "end"), [(None, 0), (-20, 40), (-700, 300), (0, None), (1, 1), (None, None)])
def test_frames_over_several_levels(start: int | None, end: int | None, n_rows: int) -> None:
    check(n_rows, WindowFrame("rows", start, end))


@pytest.mark.parametrize("n_rows", [1, 257, 2049])
@pytest.mark.parametrize("exclude", EXCLUSIONS[1:])
def test_frames_of_several_stretches(exclude: str, n_rows: int) -> None:
    check(n_rows, WindowFrame("rows", -300, 100, exclude), ("sum", "count", "min text", "count rows"), "g")


@pytest.mark.parametrize("n_rows", [1, 300, 2049])
@pytest.mark.parametrize("exclude", ["no others", "group"])
def test_distinct_values(n_rows: int, exclude: str) -> None:
    """A value counts once in each frame, also if an exclusion divides the frame."""
    frame = WindowFrame("rows", -40, 25, exclude)
    rows = table(n_rows)
    rows = rows.set_column(2, "v", pa.compute.bit_wise_and(rows["v"], 31))
    calls = [call(name, frame, distinct=True) for name in ("count", "sum")]
    got = run_window(rows, calls, [], [SortKey("g")]).to_pylist()
    for position in range(0, n_rows, 7):
        values = {got[at]["v"] for at in inside(position, frame, n_rows)} - {None}
        assert (got[position]["count"], got[position]["sum"]) == (len(values), sum(values) if values else None)
