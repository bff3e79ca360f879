"""The times of a query's operators: the counters that add up to them, and a table as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qcore.text_table import render_cells

TIMED_CALLS = ("add_input", "get_output", "finish", "is_blocked")


def operator_wall_nanos(counters: Mapping[str, Any]) -> int:
    """Time inside the operator's own calls, in ns, without the time it was blocked."""
    return sum(int(counters[name]["wall_nanos"]) for name in TIMED_CALLS)


def profile_text(stats: Mapping[str, Any]) -> str:
    """Render one line an operator, most expensive first; times are summed over its drivers.

    A last column shows the time of functions that pyarrow computes, if there are any.

    Parameters
    ----------
    stats : mapping
        The value of Result.stats() or Task.stats().

    Returns
    -------
    str
        Columns: operator, node, ms, share, blocked ms, rows in, rows out, peak bytes.
    """
    rows = [counters for pipeline in stats["pipelines"] for counters in pipeline["operators"]]
    rows.sort(key=operator_wall_nanos, reverse=True)
    total = sum(map(operator_wall_nanos, rows)) or 1
    columns: list[list[str]] = [[] for _ in range(8)]
    for counters in rows:
        wall = operator_wall_nanos(counters)
        blocked = sum(counters["blocked_wall_nanos"].values())
        cells = (
            counters["name"],
            counters["node_id"],
            f"{wall / 1e6:,.2f}",
            f"{100 * wall / total:.0f}%",
            f"{blocked / 1e6:,.2f}",
            f"{counters['input_rows']:,}",
            f"{counters['output_rows']:,}",
            f"{counters['peak_bytes']:,}",
        )
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    headers = ["operator", "node", "ms", "share", "blocked ms", "rows in", "rows out", "peak bytes"]
    if any(counters.get("arrow_calls") for counters in rows):
        headers.append("pyarrow ms")
        columns.append([f"{counters.get('arrow_wall_nanos', 0) / 1e6:,.2f}" for counters in rows])
    return render_cells(headers, columns, [False, False, *(True for _ in headers[2:])])
