"""Functions of single intervals: conversion from and to text, multiplication, difference of two times."""

from __future__ import annotations

import datetime
import math
import re
from fractions import Fraction
from typing import Any

import pyarrow as pa

_DAY_NANOS = 86_400_000_000_000
_MONTH_DAYS = 30
_SECOND = 10**9
# Names and abbreviations of units, and the months, days and nanoseconds of each.
_UNITS = {
    "millenniums millennium millennia mil": (12_000, 0, 0), "centuries century cent c": (1200, 0, 0),
    "decades decade dec": (120, 0, 0), "years year yrs yr y": (12, 0, 0), "quarters quarter": (3, 0, 0),
    "months month mons mon": (1, 0, 0), "weeks week w": (0, 7, 0), "days day d": (0, 1, 0),
    "hours hour hrs hr h": (0, 0, 3600 * _SECOND), "minutes minute mins min m": (0, 0, 60 * _SECOND),
    "seconds second secs sec s": (0, 0, _SECOND), "milliseconds millisecond msecs msec ms": (0, 0, 10**6),
    "microseconds microsecond usecs usec us": (0, 0, 1000),
}  # fmt: skip
_UNIT = {name: sizes for names, sizes in _UNITS.items() for name in names.split()}
_PART = re.compile(
    r"\s*(?:([-+]?)(\d+):(\d\d?)(?::(\d\d?(?:\.\d+)?))?|([-+]?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-z]+))(?![\w.])",
    re.IGNORECASE,
)


def span_as_text(spans: pa.Array) -> list[str | None]:
    """Intervals and durations as PostgreSQL and DuckDB write them: 1 year 2 months 3 days 04:05:06.000007."""
    return [None if span is None else _span_text(span) for span in spans.to_pylist()]


def _span_text(span: Any) -> str:
    if isinstance(span, datetime.timedelta):
        months, days, nanos = 0, 0, span // datetime.timedelta(microseconds=1) * 1000
    else:
        months, days, nanos = span
    # Years and months have the same sign.
    years, months = divmod(abs(months), 12) if months >= 0 else (-(abs(months) // 12), -(abs(months) % 12))
    named = [(years, "year"), (months, "month"), (days, "day")]
    words = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for count, unit in named if count]
    seconds, fraction = divmod(abs(nanos) // 1000, 1_000_000)
    if seconds or fraction or not words:
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        words.append(f"{'-' if nanos < 0 else ''}{clock}{f'.{fraction:06}'.rstrip('0') if fraction else ''}")
    return " ".join(words)


def parse_span(text: str) -> Any:
    """The interval of a text such as '1 year -2 days 04:05:06.7' or '3 hours ago'. ValueError for other text."""
    rest, sign = text.strip(), 1
    if rest.lower().endswith(" ago"):
        rest, sign = rest[:-4], -1
    total, at = [0, 0, 0], 0
    while found := _PART.match(rest, at):
        minus, hours, minutes, seconds, count, unit = found.groups()
        sizes = (0, 0, _SECOND) if unit is None else _UNIT.get(unit.lower())
        if sizes is None:
            break
        if unit is None:
            clock = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds or 0)
            count = -clock if minus == "-" else clock
        part = _span_of(*(Fraction(count) * sign * size for size in sizes))
        total, at = [t + p for t, p in zip(total, part, strict=True)], found.end()
    if at == 0 or rest[at:].strip():
        raise ValueError(f"{text!r} is not an interval; write numbers with units, as in '1 month 3 days 04:05:06'")
    return pa.MonthDayNano(total)


def parse_span_or_null(text: str) -> Any:
    """The interval of a text, or None for other text."""
    try:
        return parse_span(text)
    except ValueError:
        return None


def age(late: datetime.datetime, early: datetime.datetime) -> Any:
    """The difference in years and months, days, and time. Borrowed days come from early's month, as in PostgreSQL."""
    sign = 1
    if late < early:
        late, early, sign = early, late, -1
    months = (late.year - early.year) * 12 + late.month - early.month
    days = late.day - early.day
    clock = (late - late.replace(hour=0, minute=0, second=0, microsecond=0)) - (
        early - early.replace(hour=0, minute=0, second=0, microsecond=0)
    )
    micros = clock // datetime.timedelta(microseconds=1)
    if micros < 0:
        micros += 86_400_000_000
        days -= 1
    if days < 0:
        first = early.replace(day=1)
        following = (first + datetime.timedelta(days=32)).replace(day=1)
        days += (following - first).days
        months -= 1
    return pa.MonthDayNano([sign * months, sign * days, sign * micros * 1000])


def _span_of(months: Fraction, days: Fraction, nanos: Fraction) -> Any:
    """An interval. Fractions of a month become days, 30 to a month; fractions of a day become time in microseconds."""
    whole = math.trunc(months)
    days += (months - whole) * _MONTH_DAYS
    nanos += (days - math.trunc(days)) * _DAY_NANOS
    return pa.MonthDayNano([whole, math.trunc(days), round(nanos / 1000) * 1000])


def interval_multiply(span: Any, times: float | Fraction) -> Any:
    """The interval times a number. Fractions are carried as in _span_of."""
    by = Fraction(times)
    return _span_of(span[0] * by, span[1] * by, span[2] * by)


def interval_divide(span: Any, by: float) -> Any:
    """The interval divided by a number. ValueError for 0."""
    if by == 0:
        raise ValueError("division by zero; divide by nullif(divisor, 0) to get null instead")
    return interval_multiply(span, 1 / Fraction(by))
