"""lag, lead, first_value, last_value and nth_value, with nulls respected or ignored. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from windows import EXCLUSIONS, Rows, run_window

from qcore.plan.nodes import SortKey, WindowCall, WindowFrame
from random_tables import SIZES

ORDER = [SortKey("k"), SortKey("id")]
FRAMES = [
    WindowFrame("rows", -3, 2), WindowFrame("rows", 2, 5), WindowFrame("rows", None, -2), WindowFrame("groups", 0, 1),
    WindowFrame("range", None, 0), WindowFrame("rows", 3, 1), WindowFrame("rows", None, None),
]  # fmt: skip


def table(n_rows: int) -> pa.Table:
    """Partitions of about twenty rows. A third of the values are null, and all values of one partition."""
    rng = np.random.default_rng(n_rows)
    nulls = rng.random(n_rows) < 0.35
    nulls[:20] = True
    return pa.table(
        {
            "id": np.arange(n_rows),
            "p": np.arange(n_rows) // 20,
            "k": rng.integers(0, 8, n_rows),
            "v": pa.array(rng.integers(0, 10**6, n_rows), mask=nulls),
            "s": pa.array([f"value {row} of this column" for row in range(n_rows)], pa.string(), mask=nulls),
        }
    )


def beside(model: Rows, position: int, distance: int, column: str, ignore_nulls: bool) -> Any:
    """The value `distance` rows away. With ignore_nulls only rows with a value are counted."""
    part = model.part_of[position]
    if not ignore_nulls or distance == 0:
        at = position + distance
        return model.rows[at][column] if at in part else None
    step = range(position + 1, part.stop) if distance > 0 else range(position - 1, part.start - 1, -1)
    values = [model.rows[at][column] for at in step if model.rows[at][column] is not None]
    return values[abs(distance) - 1] if len(values) >= abs(distance) else None


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("ignore_nulls", [False, True])
def test_lag_and_lead(n_rows: int, ignore_nulls: bool) -> None:
    distances = [0, 1, 2, 5, 19, 20, 3000, -1, -4]
    calls = [
        WindowCall(f"{function} {number} {column}", function, column, number, ignore_nulls=ignore_nulls)
        for function in ("lag", "lead")
        for number in distances
        for column in ("v", "s")
    ]
    got = run_window(table(n_rows), calls, ["p"], ORDER, 700).to_pylist()
    model = Rows(got, ["p"], ORDER)
    for call in calls:
        sign = 1 if call.function == "lead" else -1
        assert call.argument is not None and isinstance(call.number, int)
        expected = [beside(model, at, sign * call.number, call.argument, ignore_nulls) for at in range(n_rows)]
        assert [row[call.name] for row in got] == expected, call.name


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [0, 1, 60, 2049])
@pytest.mark.parametrize("exclude", EXCLUSIONS)
@pytest.mark.parametrize("ignore_nulls", [False, True])
def test_rows_of_frames(ignore_nulls: bool, exclude: str, n_rows: int) -> None:
    frames = [WindowFrame(frame.mode, frame.start, frame.end, exclude) for frame in FRAMES]
    order = [SortKey("k")]
    calls = [
        WindowCall(f"{function} {number} {at}", function, "v", number, frame, ignore_nulls=ignore_nulls)
        for at, frame in enumerate(frames)
        for function, number in [("first_value", 1), ("last_value", 1), ("nth_value", 1), ("nth_value", 3)]
    ]
    got = run_window(table(n_rows), calls, ["p"], order).to_pylist()
    model = Rows(got, ["p"], order)
    for at, frame in enumerate(frames):
        positions = [model.frame(position, frame) for position in range(n_rows)]
        values = [[got[at]["v"] for at in row] for row in positions]
        if ignore_nulls:
            values = [[value for value in row if value is not None] for row in values]
        for name, pick in (("first_value 1", 0), ("last_value 1", -1), ("nth_value 1", 0), ("nth_value 3", 2)):
            expected = [row[pick] if len(row) > max(pick, 0) else None for row in values]
            assert [row[f"{name} {at}"] for row in got] == expected, (name, frame)


@pytest.mark.parametrize("n_rows", [0, 1, 60, 2049])
@pytest.mark.parametrize("ignore_nulls", [False, True])
def test_numbers_of_a_column(n_rows: int, ignore_nulls: bool) -> None:
    """The distance or position differs by row, and some are null."""
    rng = np.random.default_rng(n_rows + 1)
    chosen = rng.choice([0, 1, 2, 5, -1, -3, 2**63 - 1, -(2**63) + 1], n_rows)
    rows = table(n_rows).append_column("n", pa.array(chosen, pa.int64(), mask=rng.random(n_rows) < 0.2))
    frames = [WindowFrame("rows", -3, 2), WindowFrame("groups", None, 0), WindowFrame("rows", -3, 4, "ties")]
    calls = [WindowCall(name, name, "v", "n", ignore_nulls=ignore_nulls) for name in ("lag", "lead")]
    calls += [
        WindowCall(f"nth {at}", "nth_value", "v", "n", frame, ignore_nulls=ignore_nulls)
        for at, frame in enumerate(frames)
    ]
    got = run_window(rows, calls, ["p"], ORDER).to_pylist()
    model = Rows(got, ["p"], ORDER)
    for position, row in enumerate(got):
        number = row["n"]
        for name, sign in (("lag", -1), ("lead", 1)):
            wanted = None if number is None else beside(model, position, sign * number, "v", ignore_nulls)
            assert row[name] == wanted, (position, name)
        for at, frame in enumerate(frames):
            values = [got[at]["v"] for at in model.frame(position, frame)]
            values = [value for value in values if value is not None or not ignore_nulls]
            wanted = values[number - 1] if number is not None and 1 <= number <= len(values) else None
            assert row[f"nth {at}"] == wanted, (position, frame)
