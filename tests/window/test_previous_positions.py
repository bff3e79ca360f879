"""Distinct aggregates over frames, for values of every type. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from windows import EXCLUSIONS, Rows, as_equal, run_window

from qcore.plan.nodes import SortKey, WindowCall, WindowFrame
from random_tables import KEY_TYPES, SIZES, plain, random_table

ORDER = [SortKey("k")]
FRAMES = [
    WindowFrame("rows", -5, 2), WindowFrame("rows", -9, -4), WindowFrame("rows", None, 0), WindowFrame("rows", 0, None),
    WindowFrame("groups", -1, 0), WindowFrame("rows", None, None), WindowFrame("rows", 2, 1),
]  # fmt: skip


def check(values: pa.Array, frames: list[WindowFrame]) -> None:
    """Compare count(distinct v) with a model. Partitions have values in common, which count once in each."""
    n_rows = len(values)
    table = pa.table({"id": np.arange(n_rows), "p": np.arange(n_rows) // 30, "k": np.arange(n_rows) // 3, "v": values})
    calls = [WindowCall(f"{at}", "count", "v", frame=frame, distinct=True) for at, frame in enumerate(frames)]
    got = run_window(table, calls, ["p"], ORDER)
    rows = plain(got.select(["id", "p", "k", "v"])).to_pylist()
    model = Rows(rows, ["p"], ORDER)
    for at, frame in enumerate(frames):
        expected = [
            len({as_equal(rows[at]["v"]) for at in model.frame(position, frame)} - {None}) for position in range(n_rows)
        ]
        assert got[f"{at}"].to_pylist() == expected, frame


@pytest.mark.parametrize("type_", KEY_TYPES, ids=str)
def test_values_of_every_type(type_: pa.DataType) -> None:
    """All NaNs are equal, -0.0 equals 0.0, and nulls are not counted."""
    check(random_table(2, 200, [type_], 0.15, 9, extremes=True).column(0), FRAMES[:3])


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("n_distinct", [1, 12, 3000])
def test_sizes(n_rows: int, n_distinct: int) -> None:
    rng = np.random.default_rng(n_rows)
    values = rng.integers(0, n_distinct, n_rows)
    check(pa.array(values * 1_000_003, mask=rng.random(n_rows) < 0.1), FRAMES[:4])


@pytest.mark.parametrize("exclude", EXCLUSIONS)
def test_frames_with_holes(exclude: str) -> None:
    """A value counts if its earlier equal values are all excluded from the frame."""
    values = pa.array(np.random.default_rng(6).integers(0, 6, 240))
    check(values, [WindowFrame(frame.mode, frame.start, frame.end, exclude) for frame in FRAMES])


@pytest.mark.parametrize("function", ["sum", "avg", "string_agg", "median"])
def test_the_first_of_equal_values_is_taken(function: str) -> None:
    rng = np.random.default_rng(8)
    numbers = rng.integers(0, 5, 90)
    column = pa.array([f"text {number}" for number in numbers]) if function == "string_agg" else pa.array(numbers * 1.0)
    table = pa.table({"p": np.arange(90) // 30, "k": np.arange(90), "v": column})
    frame = WindowFrame("rows", -6, 1)
    parameter = {"string_agg": "|", "median": 0.5}.get(function)
    call = WindowCall("x", function, "v", frame=frame, distinct=True, parameter=parameter)
    got = run_window(table, [call], ["p"], ORDER).to_pylist()
    model = Rows(got, ["p"], ORDER)
    for position, row in enumerate(got):
        values = list(dict.fromkeys(got[at]["v"] for at in model.frame(position, frame)))
        if function == "string_agg":
            assert row["x"] == "|".join(values)
        else:
            expected = {"sum": sum(values), "avg": sum(values) / len(values), "median": np.median(values)}[function]
            assert row["x"] == pytest.approx(expected)
