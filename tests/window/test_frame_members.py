"""The rows of a frame that an aggregate counts: with a filter, without nulls, in another order. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from windows import EXCLUSIONS, Rows, run_window

from qcore.plan.nodes import SortKey, WindowCall, WindowFrame
from random_tables import SIZES
from sweeps import every

ORDER = [SortKey("k")]
FRAMES = [
    WindowFrame("rows", -4, 3), WindowFrame("rows", None, 0), WindowFrame("rows", 2, 6), WindowFrame("groups", -1, 1),
    WindowFrame("rows", None, None),
]  # fmt: skip


def table(n_rows: int) -> pa.Table:
    rng = np.random.default_rng(n_rows)

    def nulls(share: float) -> Any:
        return rng.random(n_rows) < share

    return pa.table(
        {
            "id": np.arange(n_rows),
            "p": np.arange(n_rows) // 24,
            "k": np.arange(n_rows) // 2,
            "v": pa.array(rng.integers(0, 9, n_rows), mask=nulls(0.3)),
            "o": pa.array(rng.integers(0, 5, n_rows), mask=nulls(0.2)),
            "s": pa.array([f"order {number}" for number in rng.integers(0, 3, n_rows)], mask=nulls(0.1)),
            "f": pa.array(rng.random(n_rows) < 0.6, mask=nulls(0.2)),
        }
    )


def sorted_by(rows: list[dict[str, Any]], keys: list[SortKey]) -> list[dict[str, Any]]:
    for key in reversed(keys):
        some = [row for row in rows if row[key.column] is not None]
        none = [row for row in rows if row[key.column] is None]
        some.sort(key=lambda row, name=key.column: row[name], reverse=key.descending)
        rows = none + some if key.nulls_first else some + none
    return rows


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("exclude", EXCLUSIONS)
@pytest.mark.parametrize("filter", [None, "f"])
def test_members_of_frames(filter: str | None, exclude: str, n_rows: int) -> None:
    """array_agg keeps nulls, count and sum ignore them. A row whose filter is null is not counted."""
    frames = [WindowFrame(frame.mode, frame.start, frame.end, exclude) for frame in FRAMES]
    calls = [
        WindowCall(f"{function} {at}", function, "v", frame=frame, filter=filter)
        for at, frame in enumerate(frames)
        for function in ("array_agg", "count", "sum")
    ]
    got = run_window(table(n_rows), calls, ["p"], ORDER).to_pylist()
    model = Rows(got, ["p"], ORDER)
    for at, frame in enumerate(frames):
        members = [
            [got[at]["v"] for at in model.frame(position, frame) if filter is None or got[at]["f"]]
            for position in range(n_rows)
        ]
        values = [[value for value in row if value is not None] for row in members]
        assert [row[f"array_agg {at}"] or [] for row in got] == members
        assert [row[f"count {at}"] for row in got] == [len(row) for row in values]
        assert [row[f"sum {at}"] for row in got] == [sum(row) if row else None for row in values]


@pytest.mark.parametrize(
    "keys",
    [
        [SortKey("id", descending=True)],
        [SortKey("o"), SortKey("id")],
        [SortKey("o", descending=True, nulls_first=True), SortKey("id", descending=True)],
        [SortKey("s", nulls_first=True), SortKey("o", descending=True), SortKey("id")],
    ],
    ids=lambda keys: " ".join(key.column for key in keys),
)
@pytest.mark.parametrize("filter", [None, "f"])
def test_members_in_an_order_of_their_own(keys: list[SortKey], filter: str | None) -> None:
    n_rows = 500
    calls = [
        WindowCall(f"{at}", "array_agg", "id", frame=frame, filter=filter, order_by=tuple(keys))
        for at, frame in enumerate(FRAMES)
    ]
    got = run_window(table(n_rows), calls, ["p"], ORDER).to_pylist()
    model = Rows(got, ["p"], ORDER)
    for at, frame in enumerate(FRAMES):
        for position, row in enumerate(got):
            members = [got[at] for at in model.frame(position, frame) if filter is None or got[at]["f"]]
            assert (row[f"{at}"] or []) == [member["id"] for member in sorted_by(members, keys)]


@pytest.mark.parametrize("n_members", every(3, [4096, 4095, 4097]))
def test_frames_of_many_rows_are_marked_not_sorted(n_members: int) -> None:
    """Frames of 4,096 rows or more are ordered by marks. The marks of a frame are cleared before the next frame."""
    n_rows = n_members + 130
    order = np.random.default_rng(1).permutation(n_rows)
    frame = WindowFrame("rows", -(n_members - 1), 0)
    calls = [WindowCall("x", "array_agg", "id", frame=frame, order_by=(SortKey("id", descending=True),))]
    rows = pa.table({"at": np.arange(n_rows), "id": order})
    got = run_window(rows, calls, [], [SortKey("at")])
    lists = got["x"]
    for position in [0, 1, 4000, *range(n_members - 2, n_rows, 13)]:
        inside = np.sort(order[max(position - n_members + 1, 0) : position + 1])[::-1]
        np.testing.assert_array_equal(np.array(lists[position].as_py()), inside)
