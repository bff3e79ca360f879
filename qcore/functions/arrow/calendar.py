"""Dates and times made of their parts, whole units between two, and bins of months."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from qcore.expression.types import FLOAT64, INT64, INTERVAL, STRING, TypeMismatch, Types
from qcore.functions.arrow.scalar import MICROS, ArrowFunction, by_value
from qcore.functions.signatures import Function, Signature, take_types

TIME = pa.time64("us")
_MICROS = 1_000_000
# Bins of months begin with that of the year 2000.
_ORIGIN = datetime.datetime(2000, 1, 1)
_FIXED = {
    "week": 7 * 86_400 * _MICROS, "day": 86_400 * _MICROS, "hour": 3600 * _MICROS, "minute": 60 * _MICROS,
    "second": _MICROS, "millisecond": 1000, "microsecond": 1,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12_000}


def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> datetime.datetime:
    if not 0 <= second <= 60:
        raise ValueError(f"a minute has no second {second}")
    start = datetime.datetime(year, month, day, hour, minute)
    return start + datetime.timedelta(microseconds=round(second * _MICROS))


def _make_time(hour: int, minute: int, second: float) -> datetime.time:
    if not 0 <= second < 60:
        raise ValueError(f"a minute has no second {second}")
    micros = round(second * _MICROS)
    return datetime.time(hour, minute, micros // _MICROS, micros % _MICROS)


def _whole_units(unit: str, start: datetime.datetime, end: datetime.datetime) -> int:
    """The number of whole units between two times; negative if the second is earlier."""
    name = unit.lower()
    name = name[:-1] if name not in _FIXED and name not in _MONTHS and name.endswith("s") else name
    if name not in _FIXED and name not in _MONTHS:
        raise ValueError(f"unknown unit {unit!r}; there are {', '.join([*_MONTHS, *_FIXED])}")
    if start > end:
        return -_whole_units(unit, end, start)
    if name in _FIXED:
        return (end - start) // datetime.timedelta(microseconds=1) // _FIXED[name]
    return _whole_months(start, end) // _MONTHS[name]


def _whole_months(start: datetime.datetime, end: datetime.datetime) -> int:
    """The number of whole months between two times. The last day of a month completes a month that began on a later day
    of a longer month.
    """
    months = (end.year - start.year) * 12 + end.month - start.month
    day = start.day
    if end.day == calendar.monthrange(end.year, end.month)[1]:
        day = min(day, end.day)
    return months - ((end.day, end.time()) < (day, start.time()))


def _month_bin(width: Any, when: datetime.datetime, origin: datetime.datetime = _ORIGIN) -> datetime.datetime:
    """The first month of the bin that contains a time."""
    n_months, days, nanos = width
    if n_months <= 0 or days or nanos:
        raise ValueError("the width of a bin must be positive, and have either months, or days and times")
    first = origin.year * 12 + origin.month - 1
    month = first + (when.year * 12 + when.month - 1 - first) // n_months * n_months
    return datetime.datetime(month // 12, month % 12 + 1, 1)


def _whole(types: Types) -> Signature:
    if not pa.types.is_string(types[0]):
        raise TypeMismatch("it takes a unit, as text, and two dates or timestamps")
    if any(not _is_day(type_) for type_ in types[1:]):
        raise TypeMismatch("it takes two dates or timestamps")
    return Signature(INT64, (STRING, MICROS, MICROS))


def _bins(types: Types) -> Signature:
    if not pa.types.is_interval(types[0]) or not all(map(_is_day, types[1:])):
        raise TypeMismatch("it takes an interval and dates or timestamps")
    result = types[1] if pa.types.is_date(types[1]) else MICROS
    return Signature(result, (INTERVAL, *(MICROS for _ in types[1:])))


def _is_day(type_: pa.DataType) -> bool:
    is_local = pa.types.is_timestamp(type_) and type_.tz is None
    return is_local or pa.types.is_date(type_) or pa.types.is_string(type_) or pa.types.is_null(type_)


def _call_by_value(function: Callable[..., Any], type_: pa.DataType, resolve: Function) -> ArrowFunction:
    return ArrowFunction(resolve, by_value(function, type_))


CALENDAR_FUNCTIONS: dict[str, ArrowFunction] = {
    "make_timestamp": _call_by_value(_make_timestamp, MICROS, take_types(MICROS, *(INT64,) * 5, FLOAT64)),
    "make_time": _call_by_value(_make_time, TIME, take_types(TIME, INT64, INT64, FLOAT64)),
    "whole_units": _call_by_value(
        _whole_units, INT64, Function(3, 3, _whole, "unit, date or timestamp, date or timestamp", "integer")
    ),
    "month_bin": _call_by_value(
        _month_bin, MICROS, Function(2, 3, _bins, "interval, date or timestamp, [date or timestamp]", "as the second")
    ),
}
