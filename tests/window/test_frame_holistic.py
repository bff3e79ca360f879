"""Aggregates that need all values of a frame: quantiles, lists, text, mode, first and last values. SPEC Q2."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from windows import EXCLUSIONS, Rows, run_window

from qcore.plan.nodes import SortKey, WindowCall, WindowFrame
from random_tables import SIZES

ORDER = [SortKey("k")]
FRAMES = [
    WindowFrame("rows", None, None), WindowFrame("rows", None, 0), WindowFrame("rows", -6, 3),
    WindowFrame("rows", 3, 5), WindowFrame("groups", 0, 1),
]  # fmt: skip
BY = {"at": (SortKey("id", descending=True),), "mode at": (SortKey("o"), SortKey("id"))}


def table(n_rows: int) -> pa.Table:
    rng = np.random.default_rng(n_rows)

    def column(values: Any, type_: pa.DataType) -> pa.Array:
        return pa.array(values.tolist(), type_, mask=rng.random(n_rows) < 0.25)

    words = np.array(["", "a", "bb", "twelve bytes", "thirteen byte", "a string too long to be inline"])
    return pa.table(
        {
            "id": np.arange(n_rows),
            "p": np.arange(n_rows) // 27,
            "k": np.arange(n_rows) // 2,
            "o": rng.integers(0, 3, n_rows),
            "v": column(rng.integers(-4, 4, n_rows), pa.int64()),
            "x": column(rng.integers(-9, 9, n_rows) / 4, pa.float64()),
            "s": column(rng.choice(words, n_rows), pa.string()),
        }
    )


def calls(frame: WindowFrame, distinct: bool) -> list[WindowCall]:
    def one(name: str, function: str, argument: str, parameter: Any = None, order: Any = ()) -> WindowCall:
        return WindowCall(name, function, argument, frame=frame, distinct=distinct, parameter=parameter, order_by=order)

    made = [one(f"disc {q}", "quantile_disc", "v", q) for q in (0.0, 0.3, 0.5, 1.0)]
    made += [one(f"cont {q}", "quantile_cont", "x", q) for q in (0.0, 0.3, 0.5, 1.0)]
    made += [one("text ,", "string_agg", "s", ", "), one("text", "string_agg", "s", "")]
    made += [one("list", "array_agg", "v")]
    if not distinct:
        made += [one("mode", "mode", "v"), one("mode at", "mode", "v", None, BY["mode at"])]
        made += [one("text at", "string_agg", "s", "|", BY["at"]), one("list at", "array_agg", "s", None, BY["at"])]
        made += [one("first", "first_value", "s", None, BY["at"]), one("last", "last_value", "s", None, BY["at"])]
    return made


def point(values: list[float], fraction: float) -> float | None:
    """Interpolate between the two values next to the fraction's position."""
    if not values:
        return None
    at = fraction * (len(values) - 1)
    low, high = sorted(values)[math.floor(at)], sorted(values)[math.ceil(at)]
    return low + (high - low) * (at - math.floor(at))


def most_frequent(values: list[Any]) -> Any:
    """The most frequent value. If several are equally frequent, the one that comes first."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], -values.index(value))) if values else None


def expected(name: str, rows: list[dict[str, Any]], distinct: bool) -> Any:
    kind, _, detail = name.partition(" ")
    if detail == "at":
        by = (lambda row: (row["o"], row["id"])) if kind == "mode" else (lambda row: -row["id"])
        rows = sorted(rows, key=by)
    column = {"disc": "v", "cont": "x", "text": "s", "list": "s" if detail else "v", "mode": "v"}.get(kind, "s")
    values = [row[column] for row in rows if row[column] is not None or kind in ("list", "first", "last")]
    if distinct:
        values = list(dict.fromkeys(values))
    if kind == "cont":
        return point(values, float(detail))
    if kind == "disc":
        return sorted(values)[max(math.ceil(float(detail) * len(values)) - 1, 0)] if values else None
    if kind == "text":
        return {",": ", ", "at": "|", "": ""}[detail].join(values) if values else None
    if kind == "mode":
        return most_frequent(values)
    if kind == "list":
        return values or None
    rows = sorted(rows, key=lambda row: row["id"], reverse=kind == "first")
    return rows[0]["s"] if rows else None


def check(n_rows: int, frame: WindowFrame, distinct: bool = False) -> None:
    made = calls(frame, distinct)
    got = run_window(table(n_rows), made, ["p"], ORDER).to_pylist()
    model = Rows(got, ["p"], ORDER)
    for position, row in enumerate(got):
        members = [got[at] for at in model.frame(position, frame)]
        for call in made:
            actual = row[call.name] if row[call.name] != [] else None
            assert actual == expected(call.name, members, distinct), (call.name, position)


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("frame", FRAMES[1:3], ids=["growing", "moving"])
def test_sizes(frame: WindowFrame, n_rows: int) -> None:
    check(n_rows, frame)


@pytest.mark.parametrize("exclude", EXCLUSIONS)
@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: f"{frame.mode} {frame.start} {frame.end}")
def test_every_frame(frame: WindowFrame, exclude: str) -> None:
    check(140, WindowFrame(frame.mode, frame.start, frame.end, exclude))


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: f"{frame.mode} {frame.start} {frame.end}")
def test_each_value_once(frame: WindowFrame) -> None:
    check(140, frame, distinct=True)


def test_lists_of_many_frames_grow() -> None:
    """The lists have more values than the table has rows, so the buffer of their row numbers grows."""
    rows = pa.table({"id": np.arange(600)})
    call = WindowCall("x", "array_agg", "id", frame=WindowFrame("rows", None, 0))
    got = run_window(rows, [call], [], [SortKey("id")])
    assert got["x"].to_pylist() == [list(range(position + 1)) for position in range(600)]
