"""Named windows, and what builds on them, written out where they are used.

The planner knows WINDOW w AS (…) and OVER w, and passes over the name in OVER (w ORDER BY …).
"""

from __future__ import annotations

from collections.abc import Iterator

from qcore.errors import PlanError
from qcore.frontends.text.frames import MODES, without_frame
from qcore.frontends.text.tokens import Region, SqlText

_NO_BASE = ("PARTITION", "ORDER", *MODES)


def without_base_windows(text: str) -> str:
    """The text with OVER (w …) and WINDOW v AS (w …) without w: with its partitions and order.

    Raises
    ------
    PlanError
        There is no window of that name, or what it says is said again.
    """
    sql = SqlText.read(text)
    if not sql.places("OVER") or not sql.places("WINDOW"):
        return _checked(sql)
    # From the left, so that what a named window builds on is written out before others build on it.
    done = 0
    while done < len(sql.tokens):
        done += 1
        opened = done - 1
        named = _named_at(sql, opened - 2)
        if not sql.is_sign(opened, "(") or not (sql.is_word(opened - 1, "OVER") or named):
            continue
        if named and _has_base(sql, opened):
            sql = SqlText(_with_base(sql, opened, opened - 2))
            done = opened
    for over in reversed(sql.places("OVER")):
        if sql.is_sign(over + 1, "(") and _has_base(sql, over + 1):
            sql = SqlText(_with_base(sql, over + 1, over))
    return sql.text


def _checked(sql: SqlText) -> str:
    for over in sql.places("OVER"):
        if sql.is_sign(over + 1, "(") and _has_base(sql, over + 1):
            raise _no_window(sql, over + 2)
    return sql.text


def _no_window(sql: SqlText, i: int) -> PlanError:
    name = sql.name(i)
    return PlanError(f"there is no window {name!r}; WINDOW {name} AS (…), before ORDER BY and LIMIT, defines one")


def _has_base(sql: SqlText, opened: int) -> bool:
    """Whether the brackets at token `opened` begin with the name of another window."""
    first = opened + 1
    if first >= sql.partner[opened] or sql.tokens[first].kind not in ("word", "quoted"):
        return False
    return not sql.is_word(first, *_NO_BASE)


def _with_base(sql: SqlText, opened: int, before: int) -> str:
    """The whole text with the base of the window in the brackets at `opened` written out: one that is defined in the
    queries around token `before`, and before it where that is a definition.
    """
    base = _find(sql, opened + 1, before)
    if base is None:
        raise _no_window(sql, opened + 1)
    end = sql.partner[opened]
    own, given = list(sql.level(opened + 2, end)), list(sql.level(base + 1, sql.partner[base]))
    name = sql.name(opened + 1)
    for word in ("PARTITION", "ORDER"):
        if any(sql.is_word(i, word) for i in own) and any(sql.is_word(i, word) for i in given):
            raise PlanError(f"({sql.slice(opened + 1, end)}): the window {name!r} has {word} BY already")
    if any(sql.is_word(i, *MODES) for i in given):
        raise PlanError(f"({sql.slice(opened + 1, end)}): the window {name!r} has a frame; build on one without")
    rest = next((i for i in own if sql.is_word(i, "ORDER", *MODES)), end)
    partitions, others = sql.slice(opened + 2, rest), sql.slice(rest, end)
    return sql.replaced(opened + 1, end, f"{partitions} {sql.slice(base + 1, sql.partner[base])} {others}")


def _find(sql: SqlText, named: int, before: int) -> int | None:
    """The bracket of the definition of the window that token `named` names."""
    is_definition = not sql.is_word(before, "OVER")
    for region in reversed(sql.enclosing(before)):
        found = [
            i + 2
            for i in _definitions(sql, region)
            if sql.name(i) == sql.name(named) and not (is_definition and i >= before)
        ]
        if found:
            return found[-1]
        if is_definition:
            break
    return None


def with_windows_written_out(text: str) -> str:
    """The text with OVER w as OVER (…)."""
    while True:
        sql = SqlText.read(text)
        for i in sql.places("OVER"):
            if not sql.is_sign(i + 1, "(") and i + 1 < len(sql.tokens):
                opened = _find(sql, i + 1, i)
                if opened is not None:
                    text = sql.replaced(i + 1, i + 2, sql.slice(opened, sql.partner[opened] + 1))
                    break
        else:
            return text


def without_named_frames(text: str) -> str:
    """The text without the frames of named windows, which are written out where they are used."""
    sql = SqlText.read(text)
    for i in reversed(sql.places("AS") if sql.places("WINDOW") else ()):
        if sql.is_sign(i + 1, "(") and _named_at(sql, i - 1):
            end = sql.partner[i + 1]
            if end < len(sql.tokens):
                text = text[: sql.tokens[i + 1].start] + without_frame(sql, i + 1) + text[sql.tokens[end].end :]
    return text


def _named_at(sql: SqlText, i: int) -> bool:
    """Whether token i is the name that a WINDOW clause defines."""
    return i >= 0 and any(i in _definitions(sql, region) for region in sql.enclosing(i)[-1:])


def _definitions(sql: SqlText, region: Region) -> Iterator[int]:
    """The names that the WINDOW clauses of a query define."""
    clause = ""
    for i in sql.level(region.main, region.end):
        if sql.is_word(i, "SELECT", "FROM", "WINDOW", "WITH"):
            clause = sql.tokens[i].text
        is_name = sql.tokens[i].kind in ("word", "quoted") and sql.is_word(i + 1, "AS") and sql.is_sign(i + 2, "(")
        if clause == "WINDOW" and is_name:
            yield i
