"""What window functions lose on DataFusion's way into Substrait, written where it stays.

Substrait's window functions have no FILTER, no order of their own and no IGNORE NULLS, and DataFusion leaves DISTINCT
out and does not take every frame (frames). A filter becomes a condition of the argument where that means the same;
all else goes among what the function partitions by, as a comparison with a text that says what was meant. The reader of
the message takes it out again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.clauses import items
from qcore.frontends.text.frames import frame_text
from qcore.frontends.text.named_windows import with_windows_written_out, without_named_frames
from qcore.frontends.text.tokens import SqlText
from qcore.substrait.windows import MARKER

_AFTER_EXPRESSION = frozenset({"ASC", "DESC", "NULLS", "ROWS", "RANGE", "GROUPS"})
# Words within expressions without columns.
_NO_COLUMNS = frozenset({
    "AND", "AS", "BETWEEN", "BIGINT", "BOOLEAN", "CASE", "DATE", "DAY", "DECIMAL", "DISTINCT", "DOUBLE", "ELSE",
    "END", "FALSE", "FLOAT", "FOR", "FROM", "IN", "INT", "INTEGER", "INTERVAL", "IS", "LIKE", "MONTH", "NOT",
    "NULL", "NUMERIC", "OR", "PRECISION", "REAL", "SMALLINT", "STRING", "TEXT", "THEN", "TIME", "TIMESTAMP",
    "TINYINT", "TRUE", "UNSIGNED", "VARCHAR", "WHEN", "YEAR",
})  # fmt: skip
# Functions that a row with a null argument is not the same to as one that is filtered out.
_FILTERED = frozenset({"ARRAY_AGG", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"})
# Functions to which the order of a frame's rows matters.
_ORDERED = frozenset({"ARRAY_AGG", "STRING_AGG", "FIRST_VALUE", "LAST_VALUE", "MODE", "QUANTILE_DISC", "QUANTILE_CONT"})
# Functions that the planner has not: another with a result of the same type stands for them.
_STAND_INS = {"MODE": "first_value", "QUANTILE_DISC": "first_value"}


def mark_windows(text: str, null_order: str = "nulls_last") -> str:
    """The text with every window function written so that nothing of it is lost.

    `null_order` is Dialect.null_order.
    """
    if "over" not in text.lower():
        return text
    text = without_named_frames(with_windows_written_out(text))
    done = 0
    while (found := _marked(SqlText.read(text), done, null_order)) is not None:
        text, done = found
    return text


def framed_by_peers(text: str) -> str:
    """The text with GROUPS as the frame of every ordered window that has none: the rows of the standard's RANGE, for
    types that the planner knows no RANGE of.
    """
    text = with_windows_written_out(text)
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


def _marked(sql: SqlText, done: int, null_order: str) -> tuple[str, int] | None:
    """The text with the next window function behind position `done` of the text marked, and where to go on."""
    for over in sql.places("OVER"):
        if sql.tokens[over].start < done or not sql.is_sign(over + 1, "("):
            continue
        replaced = _rewritten(sql, over, null_order)
        if replaced is not None:
            start, text = replaced
            end = sql.partner[over + 1] + 1
            rest = sql.text[sql.tokens[end - 1].end :]
            begin = sql.text[: sql.tokens[start].start]
            # Windows do not nest: all that was written anew is done with.
            return f"{begin}{text}{rest}", len(begin) + len(text)
    return None


@dataclass
class _Call:
    """A window function's text: arguments are tokens first to closed; its filter and its own order stand apart."""

    name: str
    first: int
    closed: int
    condition: str
    order: list[str]
    flags: list[str]


def _rewritten(sql: SqlText, over: int, null_order: str) -> tuple[int, str] | None:
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
    function = sql.partner[at] - 1
    called = _Call(sql.name(function).upper(), function + 2, at, condition, [], flags)
    frame = frame_text(sql, over)
    _read_arguments(sql, called, null_order)
    if condition and called.name in _FILTERED and called.name != "ARRAY_AGG" and not called.order:
        return None
    flags += frame.words
    name = sql.slice(function, function + 1)
    if called.name in _STAND_INS:
        flags.append(f"function={called.name.lower()}")
        name = _STAND_INS[called.name]
    if not flags and not condition and not frame.is_other and called.name != "STRING_AGG":
        return None
    window = frame.window
    extra = [condition] if condition and called.name in _FILTERED else []
    flags += ["filter"] if extra else []
    extra += called.order
    if flags:
        # A constant to partition by would be optimized away, so it is compared with what depends on the rows.
        compared = _depending(sql, over, called.first, called.closed)
        marker = f"CAST({compared} AS VARCHAR) = '{' '.join([MARKER, str(over), *flags])}'"
        if extra:
            marker = f"struct({', '.join([marker, *extra])})"
        if sql.is_word(over + 2, "PARTITION"):
            start = sql.tokens[over + 4].start - sql.tokens[over + 2].start
            window = f"{window[:start]}{marker}, {window[start:]}"
        else:
            window = f"PARTITION BY {marker} {window}"
    arguments = _arguments(sql, called, "" if called.name in _FILTERED else condition)
    return function, f"{name}({arguments}) OVER ({window})"


def _read_arguments(sql: SqlText, called: _Call, null_order: str) -> None:
    """Take out of the arguments what the planner does not take there: nulls passed over, DISTINCT, an order, a
    fraction.
    """
    flags = called.flags
    if sql.is_word(called.closed - 1, "NULLS") and sql.is_word(called.closed - 2, "IGNORE", "RESPECT"):
        flags += ["ignore_nulls"] if sql.is_word(called.closed - 2, "IGNORE") else []
        called.closed -= 2
    if sql.is_word(called.first, "DISTINCT"):
        flags.append("distinct")
        called.first += 1
    inside = list(sql.level(called.first, called.closed))
    order = next((i for i in inside if sql.is_word(i, "ORDER") and sql.is_word(i + 1, "BY")), None)
    if order is not None and called.name in _ORDERED:
        directions = []
        for a, b in items(sql, order + 2, called.closed):
            end, direction = _direction(sql, a, b, null_order)
            directions.append(direction)
            called.order.append(sql.slice(a, end))
        flags.append(f"order={','.join(directions)}")
        called.closed = order
    if called.name == "QUANTILE_DISC":
        parts = list(items(sql, called.first, called.closed))
        fraction = sql.slice(*parts[1]) if len(parts) == 2 else ""
        if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", fraction):
            raise PlanError("quantile_disc over a window takes a value and a fraction, a number from 0 to 1")
        flags.append(f"parameter={fraction}")
        called.closed = parts[0][1]


def _direction(sql: SqlText, start: int, end: int, null_order: str) -> tuple[int, str]:
    """Where a key to order by ends, and its direction: a or d, then f or l for nulls first or last."""
    first = None
    if sql.is_word(end - 2, "NULLS") and sql.is_word(end - 1, "FIRST", "LAST"):
        first = sql.is_word(end - 1, "FIRST")
        end -= 2
    descending = sql.is_word(end - 1, "DESC")
    end -= sql.is_word(end - 1, "ASC", "DESC")
    if first is None:
        first = null_order in ("nulls_first", "nulls_max" if descending else "nulls_min")
    return end, f"{'d' if descending else 'a'}{'f' if first else 'l'}"


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


def _arguments(sql: SqlText, called: _Call, condition: str) -> str:
    """The arguments, the first one null where the condition does not hold."""
    first, closed = called.first, called.closed
    parts = list(items(sql, first, closed))
    more = ", ','" if called.name == "STRING_AGG" and len(parts) == 1 else ""
    if not condition:
        return sql.slice(first, closed) + more
    end = parts[0][1]
    value = "1" if sql.is_sign(first, "*") or first == closed else sql.slice(first, end)
    return f"CASE WHEN {condition} THEN {value} END {sql.slice(end, closed)}{more}"
