"""Window functions of which DataFusion's Substrait keeps a part only."""

from __future__ import annotations

import re
from typing import Any

from qcore.errors import PlanError
from qcore.substrait.messages import messages_within

_BOUND = r"(CURRENT ROW|.+? (?:PRECEDING|FOLLOWING))"
_FRAME = re.compile(rf"(?:ROWS|RANGE|GROUPS) BETWEEN {_BOUND} AND {_BOUND}")


def refuse_lost_windows(message: Any, shown: str) -> None:
    """PlanError for window functions of which DataFusion's Substrait keeps a part only.

    Distances that are no whole numbers become unbounded: then the plan's text has a frame that no message has.
    """
    lines = [line for line in shown.splitlines() if "WindowAggr: windowExpr=" in line]
    if any("FILTER (WHERE" in line for line in lines):
        raise PlanError("FILTER of a window function that is no aggregate, or of array_agg, is not supported yet")
    if not lines:
        return
    written = {tuple(map(_bound_text, frame)) for line in lines for frame in _FRAME.findall(line)}
    read = {
        (_bound_of(function.lower_bound, "PRECEDING"), _bound_of(function.upper_bound, "FOLLOWING"))
        for function in messages_within(message.relations[0].root, "WindowFunction")
    }
    if not written <= read:
        raise PlanError("a window frame by distances that are no whole numbers is not supported yet")


def _bound_text(text: str) -> str:
    return "CURRENT ROW" if re.fullmatch(r"0 (PRECEDING|FOLLOWING)", text) else text


def _bound_of(bound: Any, outwards: str) -> str:
    """A frame's end as DataFusion writes it."""
    kind = bound.WhichOneof("kind")
    if kind in ("preceding", "following"):
        return _bound_text(f"{getattr(bound, kind).offset} {kind.upper()}")
    return "CURRENT ROW" if kind == "current_row" else f"UNBOUNDED {outwards}"
