"""What window functions lose on DataFusion's way into Substrait, written where it stays. Floor P2.

Substrait's window functions have no FILTER and no IGNORE NULLS, and DataFusion leaves DISTINCT out, refuses GROUPS
frames and makes distances of a RANGE that are no whole numbers unbounded. A filter becomes a condition of the argument;
the others go among what the function partitions by, as a comparison with a text that says what was meant. The reader of
the message takes it out again.
"""

from __future__ import annotations

import re

from qcore.frontends.sql_text import SqlText
from qcore.frontends.substrait.windows import MARKER
from qcore_ext.ground.status import PlanError

_AFTER_EXPRESSION = frozenset({"ASC", "DESC", "NULLS", "ROWS", "RANGE", "GROUPS"})
# Words within expressions without columns.
_NO_COLUMNS = frozenset({
    "AND", "AS", "BETWEEN", "BIGINT", "BOOLEAN", "CASE", "DATE", "DAY", "DECIMAL", "DISTINCT", "DOUBLE", "ELSE",
    "END", "FALSE", "FLOAT", "FOR", "FROM", "IN", "INT", "INTEGER", "INTERVAL", "IS", "LIKE", "MONTH", "NOT",
    "NULL", "NUMERIC", "OR", "PRECISION", "REAL", "SMALLINT", "STRING", "TEXT", "THEN", "TIME", "TIMESTAMP",
    "TINYINT", "TRUE", "UNSIGNED", "VARCHAR", "WHEN", "YEAR",
})  # fmt: skip
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_FILTERED = frozenset({"ARRAY_AGG", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"})


def mark_windows(text: str) -> str:
    """The text with every window function written so that nothing of it is lost.

    Functions for which a row that is filtered out is not one with a null argument keep their FILTER.
    """
    if "over" not in text.lower():
        return text
    text = _inlined(text)
    done = 0
    while (found := _marked(SqlText.read(text), done)) is not None:
        text, done = found
    return text


def framed_by_peers(text: str) -> str:
    """The text with GROUPS as the frame of every ordered window that has none: the rows of the standard's RANGE, for
    types that the planner knows no RANGE of.
    """
    text = _inlined(text)
    sql = SqlText.read(text)
    for over in reversed(sql.places("OVER")):
        if not sql.is_sign(over + 1, "("):
            continue
        end = sql.partner[over + 1]
        inside = list(sql.level(over + 2, end))
        is_ordered = any(sql.is_word(i, "ORDER") for i in inside)
        if is_ordered and not any(sql.is_word(i, "ROWS", "RANGE", "GROUPS") for i in inside):
            at = sql.tokens[end].start
            text = f"{text[:at]} GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW{text[at:]}"
    return text


def _inlined(text: str) -> str:
    """The text with named windows written out, where they must differ between functions."""
    while True:
        sql = SqlText.read(text)
        for i in sql.places("OVER"):
            if not sql.is_sign(i + 1, "(") and i + 1 < len(sql.tokens):
                definition = _definition(sql, i)
                if definition is not None:
                    text = sql.replaced(i + 1, i + 2, definition)
                    break
        else:
            return text


def _definition(sql: SqlText, over: int) -> str | None:
    """The brackets of the window that token over + 1 names, in the innermost query that has it."""
    name = sql.name(over + 1)
    for region in reversed(sql.enclosing(over)):
        for i in sql.level(region.main, region.end):
            is_named = sql.tokens[i].kind in ("word", "quoted") and sql.name(i) == name and sql.is_word(i + 1, "AS")
            if is_named and sql.is_sign(i + 2, "(") and _in_window_list(sql, region.main, i):
                return sql.slice(i + 2, sql.partner[i + 2] + 1)
    return None


def _in_window_list(sql: SqlText, start: int, position: int) -> bool:
    """Whether the last clause that begins before the position is WINDOW."""
    clauses = [i for i in sql.level(start, position) if sql.is_word(i, "SELECT", "FROM", "WINDOW", "WITH")]
    return bool(clauses) and sql.is_word(clauses[-1], "WINDOW")


def _marked(sql: SqlText, done: int) -> tuple[str, int] | None:
    """The text with the next window function behind position `done` of the text marked, and where to go on."""
    for over in sql.places("OVER"):
        if sql.tokens[over].start < done or not sql.is_sign(over + 1, "("):
            continue
        replaced = _rewritten(sql, over)
        if replaced is not None:
            start, text = replaced
            end = sql.partner[over + 1] + 1
            rest = sql.text[sql.tokens[end - 1].end :]
            begin = sql.text[: sql.tokens[start].start]
            # Windows do not nest: all that was written anew is done with.
            return f"{begin}{text}{rest}", len(begin) + len(text)
    return None


def _rewritten(sql: SqlText, over: int) -> tuple[int, str] | None:
    """The first token of the function and its text up to the end of its window; None when nothing would be lost."""
    at = over - 1
    flags = []
    if sql.is_word(at, "NULLS") and sql.is_word(at - 1, "IGNORE", "RESPECT"):
        flags += ["ignore_nulls"] if sql.is_word(at - 1, "IGNORE") else []
        at -= 2
    condition = ""
    if sql.is_sign(at, ")") and sql.is_word(sql.partner.get(at, 0) - 1, "FILTER"):
        condition = sql.slice(sql.partner[at] + 2, at)
        at = sql.partner[at] - 2
    if not sql.is_sign(at, ")") or at not in sql.partner:
        return None
    opened, closed = sql.partner[at], at
    function = opened - 1
    if condition and sql.is_word(function, *_FILTERED):
        return None
    first = opened + 1
    if sql.is_word(closed - 1, "NULLS") and sql.is_word(closed - 2, "IGNORE", "RESPECT"):
        flags += ["ignore_nulls"] if sql.is_word(closed - 2, "IGNORE") else []
        closed -= 2
    if sql.is_word(first, "DISTINCT"):
        flags.append("distinct")
        first += 1
    window = sql.slice(over + 2, sql.partner[over + 1])
    groups = [i for i in sql.level(over + 2, sql.partner[over + 1]) if sql.is_word(i, "GROUPS")]
    if groups:
        flags.append("groups")
        start = sql.tokens[groups[0]].start - sql.tokens[over + 2].start
        window = f"{window[:start]}ROWS{window[start + len('GROUPS') :]}"
    distances = _distances(sql, over)
    if distances is not None:
        first_token, ends = distances
        flags += ends
        start = sql.tokens[first_token].start - sql.tokens[over + 2].start
        window = f"{window[:start]}ROWS UNBOUNDED PRECEDING"
    if not flags and not condition:
        return None
    if flags:
        # A constant to partition by would be optimized away, so it is compared with what depends on the rows.
        compared = _depending(sql, over, first, closed)
        marker = f"CAST({compared} AS VARCHAR) = '{' '.join([MARKER, str(over), *flags])}'"
        if sql.is_word(over + 2, "PARTITION"):
            start = sql.tokens[over + 4].start - sql.tokens[over + 2].start
            window = f"{window[:start]}{marker}, {window[start:]}"
        else:
            window = f"PARTITION BY {marker} {window}"
    name = sql.slice(function, function + 1)
    return function, f"{name}({_arguments(sql, first, closed, condition)}) OVER ({window})"


def _distances(sql: SqlText, over: int) -> tuple[int, list[str]] | None:
    """Where a RANGE frame by fractions or intervals begins, and its ends as flags; None when the frame is another."""
    stop = sql.partner[over + 1]
    begin = next((i for i in sql.level(over + 2, stop) if sql.is_word(i, "RANGE")), None)
    if begin is None:
        return None
    both = sql.is_word(begin + 1, "BETWEEN")
    middle = next((i for i in sql.level(begin + 2, stop) if sql.is_word(i, "AND")), stop) if both else stop
    spans = [(begin + 1 + both, middle)] + ([(middle + 1, stop)] if middle < stop else [])
    ends = [_distance(sql, start, end) for start, end in spans]
    if None in ends or all(end in ("all", "0") for end in ends):
        return None
    return begin, [f"from={ends[0]}", f"to={ends[1] if len(ends) > 1 else 0}"]


def _distance(sql: SqlText, start: int, end: int) -> str | None:
    """A frame's end: all, 0, a number, or a number of microseconds; None for what is none of these."""
    if sql.is_word(start, "UNBOUNDED"):
        return "all"
    if sql.is_word(start, "CURRENT"):
        return "0"
    sign = "-" if sql.is_word(end - 1, "PRECEDING") else ""
    written = sql.slice(start, end - 1)
    if re.fullmatch(r"\d+(\.\d+)?", written):
        return sign + written
    found = re.fullmatch(r"interval\s*'\s*(\d+)\s*([a-z]*)\s*'\s*([a-z]*)", written, re.IGNORECASE)
    unit = (found.group(2) or found.group(3)).lower().removesuffix("s") if found else ""
    return f"{sign}{int(found.group(1)) * _MICROSECONDS[unit]}us" if found and unit in _MICROSECONDS else None


def _depending(sql: SqlText, over: int, first: int, closed: int) -> str:
    """The first expression to order by, or the first argument, that names a column."""
    inside = range(over + 2, sql.partner[over + 1])
    orders = [i + 2 for i in inside if sql.is_word(i, "ORDER") and sql.is_word(i + 1, "BY")]
    spans = [*((start, sql.partner[over + 1]) for start in orders), (first, closed)]
    for start, end in spans:
        ends = (i for i in sql.level(start, end) if sql.is_sign(i, ",") or sql.is_word(i, *_AFTER_EXPRESSION))
        end = next(ends, end)
        if any(_may_be_column(sql, i) for i in range(start, end)):
            return sql.slice(start, end)
    raise PlanError(f"{sql.slice(first - 1, closed + 1)} OVER of a constant is not supported; give a column")


def _may_be_column(sql: SqlText, i: int) -> bool:
    if sql.tokens[i].kind == "quoted":
        return True
    return sql.tokens[i].kind == "word" and not sql.is_sign(i + 1, "(") and not sql.is_word(i, *_NO_COLUMNS)


def _arguments(sql: SqlText, first: int, closed: int, condition: str) -> str:
    """The arguments, the first one null where the condition does not hold."""
    if not condition:
        return sql.slice(first, closed)
    commas = [i for i in sql.level(first, closed) if sql.is_sign(i, ",")]
    end = commas[0] if commas else closed
    value = "1" if sql.is_sign(first, "*") or first == closed else sql.slice(first, end)
    return f"CASE WHEN {condition} THEN {value} END {sql.slice(end, closed)}"
