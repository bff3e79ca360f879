"""Calls over dates, times and intervals that are more than one step of the function's name.

Parts of a calendar or a clock are computed from a timestamp's local time, in the time zone of its type.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.scalars import scalar_of
from qcore.expression.types import BOOL, FLOAT64, INT64, INTERVAL, is_temporal, is_zoned
from qcore.functions import catalogue as functions
from qcore.lowering.program_builder import ProgramBuilder
from qcore.lowering.scalar_calls import CallCompiler

_TIME_PARTS = ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond")
_UNITS = ("millennium", "century", "decade", "year", "quarter", "month", "week", "day", *_TIME_PARTS)
_WITHIN_AN_HOUR = _TIME_PARTS[1:]
# Arrow's units of parts of a second.
_FINER_UNITS = {"millisecond": "ms", "microsecond": "us", "nanosecond": "ns"}
# Seconds by which a year of 365.25 days is longer than twelve months of 30 days.
_SECONDS_BESIDE_MONTHS = 5.25 * 86_400
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _to_timestamp(unit: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """A number counts units since 1970. Other values are converted."""
    step = arguments[0]
    given = program.types[step]
    if pa.types.is_integer(given):
        return program.convert(program.convert(program.convert(step, INT64), pa.timestamp(unit)), type_)
    if pa.types.is_floating(given) or pa.types.is_decimal(given):
        per_unit = program.constant(scalar_of(_NANOS[unit] / _NANOS[type_.unit]))
        scaled = program.add("multiply", [program.convert(step, FLOAT64), per_unit], FLOAT64)
        return program.convert(program.convert(scaled, INT64), type_)
    return program.convert(step, type_)


def _finiteness(name: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """is_finite and is_infinite. Dates and timestamps are always finite."""
    if pa.types.is_floating(program.types[arguments[0]]):
        return program.add(name, arguments, BOOL)
    known = program.add("is_not_null", arguments, BOOL)
    result = program.constant(scalar_of(name == "is_finite"))
    return program.add("case", [known, result, program.null(BOOL)], BOOL)


def _date_diff(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    unit = _unit(program, "date_diff", arguments[0])
    local = [program.local_time(step) for step in arguments[1:]]
    finest, given = _FINER_UNITS.get(unit), program.types[local[0]]
    if finest is not None and (pa.types.is_date(given) or _NANOS[given.unit] > _NANOS[finest]):
        local = [program.convert(step, pa.timestamp(finest, getattr(given, "tz", None))) for step in local]
    return program.add("date_diff", local, type_, unit=unit)


def _at_time_zone(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """The local time of an instant in the zone; for a local time there, the instant."""
    when, zone = arguments
    if type_.tz is not None:
        return program.convert(when, type_)
    there = pa.timestamp(type_.unit, program.literal_value("at_time_zone", zone, "the zone"))
    return program.convert(program.local_time(program.convert(when, there)), type_)


def _date_bin(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    months, days, nanos = program.literal_value("date_bin", arguments[0], "the interval")
    stride = (days * 86_400_000_000_000 + nanos) // _NANOS[type_.unit]
    if months or stride <= 0:
        raise PlanError("date_bin takes a positive interval of days and times; date_trunc cuts months")
    origin = program.literal_value("date_bin", arguments[2], "the origin") if len(arguments) == 3 else None
    ticks = 0 if origin is None else program.value(arguments[2]).value
    return program.add("date_bin", [arguments[1]], type_, stride=stride, origin=ticks)


def _unit(program: ProgramBuilder, name: str, step: int) -> str:
    """A unit of dates and times, from a literal."""
    unit = functions.part_name(str(program.literal_value(name, step, "the unit")))
    if unit not in _UNITS:
        raise PlanError(f"{name}: unknown unit {unit!r}; there are {', '.join(_UNITS)}")
    return unit


def _part(name: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    (step,) = arguments
    given = program.types[step]
    if pa.types.is_duration(given):
        step = program.convert(step, INTERVAL)
    if name == "epoch":
        return _epoch(program, step)
    step = program.local_time(step)
    if pa.types.is_date(given) and name in _TIME_PARTS:
        step = program.convert(step, pa.timestamp("s"))
    if pa.types.is_time(given) and name not in _TIME_PARTS:
        raise PlanError(f"{name}({given}) is not defined: a time of day has no date")
    return program.add("part", [step], INT64, part=name, label=name)


def _epoch(program: ProgramBuilder, step: int) -> int:
    """Seconds since 1970, or of an interval: a year has 365.25 days, a month that is left 30, as in PostgreSQL."""
    seconds = program.add("part", [step], FLOAT64, part="epoch", label="epoch")
    if not pa.types.is_interval(program.types[step]):
        return seconds
    years = program.convert(program.add("part", [step], INT64, part="year", label="year"), FLOAT64)
    more = program.add("multiply", [years, program.constant(scalar_of(_SECONDS_BESIDE_MONTHS))], FLOAT64)
    return program.add("add", [seconds, more], FLOAT64)


def _date_trunc(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    unit = _unit(program, "date_trunc", arguments[0])
    local = program.local_time(arguments[1])
    truncated = program.add("date_trunc", [local], program.types[local], unit=unit)
    if local == arguments[1] or unit not in _WITHIN_AN_HOUR:
        return program.convert(truncated, type_)
    # When clocks are set back, two instants have one local time. Subtracting the difference keeps the right one.
    difference = program.add("subtract", [local, truncated], pa.duration(program.types[local].unit))
    return program.add("subtract", [arguments[1], difference], type_)


def _sum(name: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """+ and - of numbers, dates, times and intervals."""
    a, b = (program.types[step] for step in arguments)
    if not is_temporal(a) and is_temporal(b):
        arguments, a, b = arguments[::-1], b, a
    sign = -1 if name == "subtract" else 1
    if pa.types.is_date(a) and pa.types.is_date(b):
        return program.add("days_between", arguments, type_, label=name)
    if pa.types.is_date(a):
        operation = "shift_days" if pa.types.is_integer(b) else "shift_interval"
        return program.add(operation, arguments, type_, sign=sign, label=name)
    if is_zoned(a) and pa.types.is_interval(b):
        return _shift_zoned(name, program, arguments, sign)
    if pa.types.is_interval(b):
        operation = "interval_add" if pa.types.is_interval(a) else "shift_interval"
        operation = "shift_time" if pa.types.is_time(a) else operation
        operation = "shift_instant" if pa.types.is_timestamp(a) and a.tz else operation
        return program.add(operation, arguments, type_, sign=sign, label=name)
    return program.add(name, arguments, type_)


def _shift_zoned(name: str, program: ProgramBuilder, arguments: list[int], sign: int) -> int:
    """Shift a timestamp with a time zone. Months and days shift its local time, the rest shifts the instant: last, or
    first if a part goes back, as in DuckDB.
    """
    step, interval = arguments
    months, days, nanos = program.literal_value(name, interval, "the interval added to a timestamp of a time zone")
    goes_back = any(sign * part < 0 for part in (months, days, nanos))
    for part in sorted(((months, 0, 0), (0, days, 0), (0, 0, nanos)), key=lambda part: goes_back and not part[2]):
        if any(part):
            step = _shift_part(name, program, step, part, sign)
    return step


def _shift_part(name: str, program: ProgramBuilder, step: int, part: tuple[int, int, int], sign: int) -> int:
    """Shift a timestamp with a time zone by months, or by days, or by nanoseconds."""
    type_ = program.types[step]

    def shift(shifted: int) -> int:
        interval = program.constant(scalar_of(pa.MonthDayNano(part), INTERVAL))
        return program.add("shift_interval", [shifted, interval], program.types[shifted], sign=sign, label=name)

    months, _, nanos = part
    if nanos:
        return shift(step)
    wanted = shift(program.local_time(step))
    if months:
        return program.convert(wanted, type_)
    # Of two instants with the wanted local time, the one that is whole days of 24 hours away.
    away = shift(step)
    has_wanted_time = program.add("equal", [program.local_time(away), wanted], BOOL)
    return program.add("case", [has_wanted_time, away, program.convert(wanted, type_)], type_)


def _negate(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    if not pa.types.is_interval(type_):
        return program.add("negate", arguments, type_)
    minus_one = program.constant(scalar_of(-1))
    return program.add("interval_multiply", [*arguments, minus_one], type_, label="negate")


def _multiply(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    if not pa.types.is_interval(type_):
        return program.add("multiply", arguments, type_)
    if not pa.types.is_interval(program.types[arguments[0]]):
        arguments = arguments[::-1]
    if pa.types.is_floating(program.types[arguments[1]]):
        return program.arrow_call("interval_multiply", arguments, type_)
    return program.add("interval_multiply", arguments, type_, label="multiply")


TEMPORAL_CALLS: dict[str, CallCompiler] = {
    "to_timestamp": partial(_to_timestamp, "s"),
    "to_timestamp_seconds": partial(_to_timestamp, "s"),
    "to_timestamp_millis": partial(_to_timestamp, "ms"),
    "to_timestamp_micros": partial(_to_timestamp, "us"),
    "to_timestamp_nanos": partial(_to_timestamp, "ns"),
    "from_unixtime": partial(_to_timestamp, "s"),
    "is_finite": partial(_finiteness, "is_finite"),
    "is_infinite": partial(_finiteness, "is_infinite"),
    "date_diff": _date_diff,
    "at_time_zone": _at_time_zone,
    "date_bin": _date_bin,
    "date_trunc": _date_trunc,
    "add": partial(_sum, "add"),
    "subtract": partial(_sum, "subtract"),
    "negate": _negate,
    "multiply": _multiply,
    **{name: partial(_part, name) for name in functions.PARTS},
}
