"""Operators of arithmetic that DataFusion's parser or planner does not know, written as calls.

x ** y and x ^ y are power(x, y), signs binding tighter, as in DuckDB and PostgreSQL; ~x is -1 - x. An interval is
multiplied by a number where the text shows that it is one: INTERVAL '1 day', to_days(n), and products of these.
"""

from __future__ import annotations

from qcore.errors import PlanError
from qcore.frontends.text.clauses import UNITS
from qcore.frontends.text.operands import begins_value, ends_value, operand_end, operand_start
from qcore.frontends.text.tokens import SqlText
from qcore.functions.dialect import Dialect
from qcore.substrait.dialect_functions import TIMES_INTERVAL

_MAKERS = (
    "TO_YEARS", "TO_MONTHS", "TO_WEEKS", "TO_DAYS", "TO_HOURS", "TO_MINUTES", "TO_SECONDS", "TO_MILLISECONDS",
    "TO_MICROSECONDS", "TO_QUARTERS", "TO_DECADES",
)  # fmt: skip
_PRODUCT = TIMES_INTERVAL.upper()
_INTERVALS = ("INTERVAL", _PRODUCT, *_MAKERS)


def with_known_arithmetic(text: str, dialect: Dialect) -> str:
    """The text with powers and products of intervals as calls."""
    sql = SqlText.read(text)
    if sql.signs("^") and dialect.caret != "xor":
        text = _with_powers(text, ("^", "**"))
    elif sql.signs("*"):
        text = _with_powers(text, ("**",))
    if sql.signs("~"):
        text = _with_complements(text)
        sql = SqlText.read(text)
    if any(sql.places(word) for word in _INTERVALS) and (sql.signs("*") or sql.signs("/") or sql.signs("(")):
        while (changed := _with_made_interval(SqlText.read(text))) is not None:
            text = changed
        while (changed := _with_product(SqlText.read(text))) is not None:
            text = changed
    return text


def _with_powers(text: str, spellings: tuple[str, ...]) -> str:
    while True:
        sql = SqlText.read(text)
        found = sorted(place for signs in spellings for place in _places(sql, signs))
        if not found:
            return text
        i, width = found[0]
        if not ends_value(sql, i - 1) or not begins_value(sql, i + width):
            raise PlanError(f"{sql.slice(i, i + width)} stands between two numbers: x {sql.slice(i, i + width)} y")
        start, end = operand_start(sql, i), operand_end(sql, i + width)
        while start > 0 and any(sql.is_sign(start - 1, sign) for sign in "+-") and not ends_value(sql, start - 2):
            start -= 1
        text = sql.replaced(start, end, f"power({sql.slice(start, i)}, {sql.slice(i + width, end)})")


def _with_complements(text: str) -> str:
    """~x as -1 - x, which is the same bits turned over; ~ between two values is PostgreSQL's match."""
    while True:
        sql = SqlText.read(text)
        found = [i for i in sql.signs("~") if not ends_value(sql, i - 1) and begins_value(sql, i + 1)]
        found = [i for i in found if not sql.is_sign(i - 1, "!") and not sql.is_sign(i - 1, "~")]
        if not found:
            return text
        end = operand_end(sql, found[-1] + 1)
        text = sql.replaced(found[-1], end, f"(-1 - {sql.slice(found[-1] + 1, end)})")


def _places(sql: SqlText, signs: str) -> list[tuple[int, int]]:
    """Where an operator stands, and of how many tokens it is."""
    if len(signs) == 1:
        return [(i, 1) for i in sql.signs(signs) if not sql.is_sign(i + 1, "@")]
    return [
        (i, 2)
        for i in sql.signs(signs[0])
        if sql.is_sign(i + 1, signs[1]) and sql.tokens[i + 1].end - sql.tokens[i].start == 2 and ends_value(sql, i - 1)
    ]


# --- intervals ---


def _with_made_interval(sql: SqlText) -> str | None:
    """The text with its first INTERVAL (n) DAY, or INTERVAL n DAY of a column, as to_days(n)."""
    for i in sql.places("INTERVAL"):
        end = sql.partner[i + 1] + 1 if sql.is_sign(i + 1, "(") else i + 2
        is_value = sql.is_sign(i + 1, "(") or (end < len(sql.tokens) and sql.tokens[i + 1].kind in ("word", "quoted"))
        # The distances of a window's frame are no values (frames).
        if is_value and sql.is_word(end, *UNITS) and not sql.is_word(end + 1, "PRECEDING", "FOLLOWING"):
            unit = sql.tokens[end].text.lower().rstrip("s") + "s"
            return sql.replaced(i, end + 1, f"to_{unit}({sql.slice(i + 1, end)})")
    return None


def _interval_end(sql: SqlText, i: int) -> int | None:
    """Behind the interval that begins at token i; None where the text shows none."""
    if sql.is_word(i, "INTERVAL") and i + 1 < len(sql.tokens) and sql.tokens[i + 1].kind in ("string", "number"):
        return i + 2 + sql.is_word(i + 2, *UNITS)
    if sql.is_word(i, _PRODUCT, *_MAKERS) and sql.is_sign(i + 1, "("):
        return min(sql.partner[i + 1] + 1, len(sql.tokens))
    return None


def _with_product(sql: SqlText) -> str | None:
    """The text with its first product of a number and an interval, or quotient of an interval, as a call."""
    for i in sorted(place for word in _INTERVALS for place in sql.places(word)):
        first, end = i, _interval_end(sql, i)
        if end is None:
            continue
        while sql.is_sign(first - 1, "(") and sql.partner[first - 1] == end:
            first, end = first - 1, end + 1
        interval = sql.slice(first, end)
        if _is_times(sql, first - 1):
            start = operand_start(sql, first - 1)
            while any(sql.is_sign(start - 1, sign) for sign in "*/%") and ends_value(sql, start - 2):
                start = operand_start(sql, start - 1)
            return sql.replaced(start, end, f"{TIMES_INTERVAL}({interval}, {sql.slice(start, first - 1)})")
        if _is_times(sql, end):
            last = operand_end(sql, end + 1)
            return sql.replaced(first, last, f"{TIMES_INTERVAL}({interval}, {sql.slice(end + 1, last)})")
        if sql.is_sign(end, "/") and not sql.is_sign(end + 1, "/"):
            last = operand_end(sql, end + 1)
            by = f"1e0, {sql.slice(end + 1, last)}"
            return sql.replaced(first, last, f"{TIMES_INTERVAL}({interval}, {by})")
    return None


def _is_times(sql: SqlText, i: int) -> bool:
    return sql.is_sign(i, "*") and not sql.is_sign(i - 1, "*") and not sql.is_sign(i + 1, "*")
