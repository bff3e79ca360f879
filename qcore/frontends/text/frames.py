"""Window frames in SQL text: what the planner has no syntax for, as words for the reader of its message.

The planner refuses EXCLUDE and intervals that are written as numbers, and makes distances of a RANGE that are no whole
numbers unbounded; its Substrait has no GROUPS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.tokens import SqlText

# What a frame begins with.
MODES = ("ROWS", "RANGE", "GROUPS")
_MONTHS = {"month": 1, "mon": 1, "quarter": 3, "year": 12, "yr": 12, "y": 12, "decade": 120, "century": 1200}
_DAYS = {"day": 1, "d": 1, "week": 7, "w": 7}
_NANOS = {
    "microsecond": 1_000,
    "us": 1_000,
    "millisecond": 1_000_000,
    "ms": 1_000_000,
    "second": 1_000_000_000,
    "sec": 1_000_000_000,
    "s": 1_000_000_000,
    "minute": 60_000_000_000,
    "min": 60_000_000_000,
    "m": 60_000_000_000,
    "hour": 3_600_000_000_000,
    "hr": 3_600_000_000_000,
    "h": 3_600_000_000_000,
}
_EXCLUSIONS = {
    ("NO", "OTHERS"): "",
    ("CURRENT", "ROW"): "current_row",
    ("GROUP",): "group",
    ("TIES",): "ties",
}


@dataclass(frozen=True)
class FrameText:
    """A window's text with a frame that the planner takes, the words that say what is meant, and whether it changed."""

    window: str
    words: tuple[str, ...]
    is_other: bool


def frame_text(sql: SqlText, over: int) -> FrameText:
    """The window in the brackets behind token `over`. PlanError for an exclusion there is none of."""
    start, stop = over + 2, sql.partner[over + 1]
    begin = next((i for i in sql.level(start, stop) if sql.is_word(i, *MODES)), None)
    if begin is None:
        return FrameText(sql.slice(start, stop), (), False)
    words: list[str] = []
    excluded = next((i for i in sql.level(begin, stop) if sql.is_word(i, "EXCLUDE")), stop)
    if excluded < stop:
        rows = tuple(sql.tokens[i].text for i in range(excluded + 1, stop))
        if rows not in _EXCLUSIONS:
            raise PlanError(f"EXCLUDE {' '.join(rows)}: a frame excludes NO OTHERS, CURRENT ROW, GROUP or TIES")
        words += [f"exclude={_EXCLUSIONS[rows]}"] if _EXCLUSIONS[rows] else []
    before = sql.slice(start, begin)
    if sql.is_word(begin, "GROUPS"):
        return FrameText(f"{before} ROWS {sql.slice(begin + 1, excluded)}", (*words, "groups"), True)
    ends = _distances(sql, begin, excluded) if sql.is_word(begin, "RANGE") else None
    if ends is not None:
        return FrameText(f"{before} ROWS UNBOUNDED PRECEDING", (*words, *ends), True)
    return FrameText(sql.slice(start, excluded), tuple(words), excluded < stop)


def without_frame(sql: SqlText, opened: int) -> str:
    """A window definition in the brackets at token `opened` without its frame."""
    stop = sql.partner[opened]
    begin = next((i for i in sql.level(opened + 1, stop) if sql.is_word(i, *MODES)), stop)
    return f"({sql.slice(opened + 1, begin)})"


def _distances(sql: SqlText, begin: int, stop: int) -> list[str] | None:
    """The ends of a RANGE frame by fractions or intervals; None when the frame is another."""
    both = sql.is_word(begin + 1, "BETWEEN")
    middle = next((i for i in sql.level(begin + 2, stop) if sql.is_word(i, "AND")), stop) if both else stop
    spans = [(begin + 1 + both, middle)] + ([(middle + 1, stop)] if middle < stop else [])
    ends = [_distance(sql, start, end) for start, end in spans]
    if None in ends or all(end in ("all", "0") for end in ends):
        return None
    return [f"from={ends[0]}", f"to={ends[1] if len(ends) > 1 else 0}"]


def _distance(sql: SqlText, start: int, end: int) -> str | None:
    """A frame's end: all, 0, a number, or i and an interval's months, days and nanoseconds; None for none of these."""
    if sql.is_word(start, "UNBOUNDED"):
        return "all"
    if sql.is_word(start, "CURRENT"):
        return "0"
    sign = -1 if sql.is_word(end - 1, "PRECEDING") else 1
    written = sql.slice(start, end - 1)
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", written):
        return written if sign > 0 else f"-{written}"
    parts = _interval(sql, start, end - 1)
    return None if parts is None else "i" + ":".join(str(sign * part) for part in parts)


def _interval(sql: SqlText, start: int, end: int) -> tuple[int, int, int] | None:
    """Months, days and nanoseconds of INTERVAL '1 month 2 days', INTERVAL '3' HOUR, INTERVAL 3 HOUR, INTERVAL (3) HOUR;
    None for what is written otherwise.
    """
    if not sql.is_word(start, "INTERVAL"):
        return None
    text = sql.slice(start + 1, end).replace("(", " ").replace(")", " ").replace("'", " ").lower()
    parts = [0, 0, 0]
    at = 0
    for found in re.finditer(r"\s*(\d+)(\.\d+)?\s*([a-z]+)\s*", text):
        if found.start() != at:
            return None
        at = found.end()
        number, share, unit = found.groups()
        for place, units in enumerate((_MONTHS, _DAYS, _NANOS)):
            size = units.get(unit) or units.get(unit.removesuffix("s")) or units.get(unit.removesuffix("ies") + "y")
            if size is None:
                continue
            if share is not None and (place < 2 or size % 10 ** (len(share) - 1)):
                return None
            parts[place] += int(number) * size + (0 if share is None else int(share[1:]) * size // 10 ** len(share[1:]))
            break
        else:
            return None
    return (parts[0], parts[1], parts[2]) if at == len(text) and at else None
