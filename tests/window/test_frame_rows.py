"""A frame that neighbouring rows share is computed once. Each row has the result of its own frame. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from windows import EXCLUSIONS, Rows, run_window

from qcore.plan.nodes import SortKey, WindowCall, WindowFrame
from random_tables import SIZES

FRAMES = [
    WindowFrame("rows", None, None), WindowFrame("range", None, 0), WindowFrame("range", 0, None),
    WindowFrame("range", 0, 0), WindowFrame("groups", -1, 1), WindowFrame("rows", -1, 1), WindowFrame("rows", 0, None),
]  # fmt: skip


def table(n_rows: int, seed: int) -> pa.Table:
    """Partitions and peer groups of very different sizes."""
    rng = np.random.default_rng(seed)
    parts = np.repeat(np.arange(n_rows), rng.integers(1, 40, n_rows))[:n_rows]
    return pa.table({"id": np.arange(n_rows), "p": parts, "k": rng.integers(0, 4, n_rows)})


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 300])
@pytest.mark.parametrize("exclude", EXCLUSIONS)
def test_results_of_shared_frames(exclude: str, n_rows: int) -> None:
    """array_agg reads the rows of each frame. Sums and counts use other code, and must agree with it."""
    frames = [WindowFrame(frame.mode, frame.start, frame.end, exclude) for frame in FRAMES]
    calls = [
        WindowCall(f"{function} {at}", function, "id", frame=frame)
        for at, frame in enumerate(frames)
        for function in ("array_agg", "sum", "count")
    ]
    order = [SortKey("k")]
    got = run_window(table(n_rows, n_rows), calls, ["p"], order).to_pylist()
    model = Rows(got, ["p"], order)
    for at, frame in enumerate(frames):
        ids = [[got[at]["id"] for at in model.frame(position, frame)] for position in range(n_rows)]
        assert [row[f"array_agg {at}"] or [] for row in got] == ids
        assert [row[f"count {at}"] for row in got] == [len(row) for row in ids]
        assert [row[f"sum {at}"] for row in got] == [sum(row) if row else None for row in ids]


@pytest.mark.parametrize("exclude", ["no others", "group"])
def test_a_frame_is_computed_once(exclude: str) -> None:
    """20,000 rows share one or two frames. Reading the frame for each row would take 400 million steps."""
    n_rows = 20_000
    rows = pa.table({"p": [0] * n_rows, "k": np.arange(n_rows) // 10_000, "id": np.arange(n_rows)})
    call = WindowCall("x", "quantile_disc", "id", frame=WindowFrame("rows", None, None, exclude), parameter=0.5)
    got = run_window(rows, [call, WindowCall("n", "mode", "k", frame=call.frame)], ["p"], [SortKey("k")])
    halves = [9999, 9999] if exclude == "no others" else [14_999, 4999]
    assert got["x"].to_pylist() == np.repeat(halves, 10_000).tolist()
    assert got["n"].to_pylist() == ([0] * n_rows if exclude == "no others" else np.repeat([1, 0], 10_000).tolist())
