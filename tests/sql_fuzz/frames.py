"""Random frames of window functions."""

from __future__ import annotations

import random

from sql_fuzz.tables import DATE, DECIMALS, INT, TIMESTAMP, Facts


def rows_frame(rng: random.Random, word: str = "") -> str:
    """A frame in rows or groups whose start is not after its end, or no frame."""
    start = rng.choice([None, -5, -2, -1, 0, 1, 2])
    end = rng.choice([None, *range(-3 if start is None else start, 4)])
    ends = ["unbounded preceding" if start is None else _bound(start)]
    ends.append("unbounded following" if end is None else _bound(end))
    # In a total order each group of peers is one row.
    word = word or rng.choice(["rows", "rows", "groups"])
    return rng.choice(["", f"{word} between {ends[0]} and {ends[1]}"])


def range_frame(rng: random.Random, facts: Facts) -> str:
    """A RANGE frame by a distance of keys, or no frame if no distance is known."""
    unit = ""
    if facts.kind in (DATE, TIMESTAMP):
        unit = rng.choice(["day", "month", "year"] if facts.kind == DATE else ["second", "hour", "day"])
    elif facts.kind not in (INT, DECIMALS[0]) or facts.limit >= 2**30:
        return ""
    ends = []
    for side in ("preceding", "following"):
        distance = f"interval '{rng.randint(0, 40)}' {unit}" if unit else str(rng.randint(0, 3))
        ends.append(rng.choice([f"{distance} {side}", f"{distance} {side}", "current row", f"unbounded {side}"]))
    return f"range between {ends[0]} and {ends[1]}"


def excluding(rng: random.Random, frame: str) -> str:
    """The frame, sometimes with EXCLUDE."""
    if not frame or rng.random() < 0.6:
        return frame
    return f"{frame} exclude {rng.choice(['no others', 'current row', 'group', 'ties'])}"


def _bound(distance: int) -> str:
    if distance == 0:
        return "current row"
    return f"{abs(distance)} {'preceding' if distance < 0 else 'following'}"
