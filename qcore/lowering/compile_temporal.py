"""Steps of dates, times and intervals.

What depends on a calendar or a clock is computed of a timestamp's local time, in the zone of its type.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import BOOL, FLOAT64, INT64, INTERVAL, is_temporal, is_zoned
from qcore.functions import catalogue as functions
from qcore.lowering.compile_steps import Steps

_TIME_PARTS = ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond")
_UNITS = ("millennium", "century", "decade", "year", "quarter", "month", "week", "day", *_TIME_PARTS)
_WITHIN_AN_HOUR = _TIME_PARTS[1:]
# Arrow's units of parts of a second.
_FINER_UNITS = {"millisecond": "ms", "microsecond": "us", "nanosecond": "ns"}
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class TemporalSteps(Steps):
    """The functions of dates and times that are more than one step of their own name."""

    def call_to_timestamp(self, steps: list[int], type_: pa.DataType) -> int:
        """Numbers are seconds since 1970."""
        return self.ticks(steps[0], type_, "s")

    def call_to_timestamp_seconds(self, steps: list[int], type_: pa.DataType) -> int:
        return self.ticks(steps[0], type_, "s")

    def call_to_timestamp_millis(self, steps: list[int], type_: pa.DataType) -> int:
        return self.ticks(steps[0], type_, "ms")

    def call_to_timestamp_micros(self, steps: list[int], type_: pa.DataType) -> int:
        return self.ticks(steps[0], type_, "us")

    def call_to_timestamp_nanos(self, steps: list[int], type_: pa.DataType) -> int:
        return self.ticks(steps[0], type_, "ns")

    def call_from_unixtime(self, steps: list[int], type_: pa.DataType) -> int:
        return self.ticks(steps[0], type_, "s")

    def ticks(self, step: int, type_: pa.DataType, unit: str) -> int:
        """Numbers as the time so many units after 1970; others are converted."""
        given = self.types[step]
        if pa.types.is_integer(given):
            return self.convert(self.convert(self.convert(step, INT64), pa.timestamp(unit)), type_)
        if pa.types.is_floating(given) or pa.types.is_decimal(given):
            per_unit = self.constant(pa.scalar(_NANOS[unit] / _NANOS[type_.unit]))
            scaled = self.add("multiply", [self.convert(step, FLOAT64), per_unit], FLOAT64)
            return self.convert(self.convert(scaled, INT64), type_)
        return self.convert(step, type_)

    def call_is_finite(self, steps: list[int], type_: pa.DataType) -> int:
        return self.finiteness("is_finite", steps[0])

    def call_is_infinite(self, steps: list[int], type_: pa.DataType) -> int:
        return self.finiteness("is_infinite", steps[0])

    def finiteness(self, name: str, step: int) -> int:
        """Of numbers; there are no infinite dates and timestamps."""
        if pa.types.is_floating(self.types[step]):
            return self.add(name, [step], BOOL)
        known = self.add("is_not_null", [step], BOOL)
        return self.add("case", [known, self.constant(pa.scalar(name == "is_finite")), self.null(BOOL)], BOOL)

    def call_date_diff(self, steps: list[int], type_: pa.DataType) -> int:
        unit = self.unit("date_diff", steps[0])
        local = [self.local(step) for step in steps[1:]]
        finest, given = _FINER_UNITS.get(unit), self.types[local[0]]
        if finest is not None and (pa.types.is_date(given) or _NANOS[given.unit] > _NANOS[finest]):
            local = [self.convert(step, pa.timestamp(finest, getattr(given, "tz", None))) for step in local]
        return self.add("date_diff", local, type_, unit=unit)

    def call_at_time_zone(self, steps: list[int], type_: pa.DataType) -> int:
        """An instant as what a clock in the zone shows, and a local time as the instant at which it shows that."""
        when, zone = steps
        if type_.tz is not None:
            return self.convert(when, type_)
        there = pa.timestamp(type_.unit, self.literal_value("at_time_zone", zone, "the zone"))
        return self.convert(self.local(self.convert(when, there)), type_)

    def call_date_bin(self, steps: list[int], type_: pa.DataType) -> int:
        months, days, nanos = self.literal_value("date_bin", steps[0], "the interval")
        stride = (days * 86_400_000_000_000 + nanos) // _NANOS[type_.unit]
        if months or stride <= 0:
            raise PlanError("date_bin takes an interval of days and times, longer than nothing; date_trunc cuts months")
        origin = self.literal_value("date_bin", steps[2], "the origin") if len(steps) == 3 else None
        ticks = 0 if origin is None else self.value(steps[2]).value
        return self.add("date_bin", [steps[1]], type_, stride=stride, origin=ticks)

    def unit(self, name: str, step: int) -> str:
        """A unit of dates and times, from a literal."""
        unit = functions.part_name(str(self.literal_value(name, step, "the unit")))
        if unit not in _UNITS:
            raise PlanError(f"{name}: unknown unit {unit!r}; there are {', '.join(_UNITS)}")
        return unit

    def part(self, name: str, step: int) -> int:
        type_ = self.types[step]
        if pa.types.is_duration(type_):
            step = self.convert(step, INTERVAL)
        if name == "epoch":
            return self.add("part", [step], FLOAT64, part=name, label=name)
        step = self.local(step)
        if pa.types.is_date(type_) and name in _TIME_PARTS:
            step = self.convert(step, pa.timestamp("s"))
        if pa.types.is_time(type_) and name not in _TIME_PARTS:
            raise PlanError(f"{name}({type_}) is not defined: a time of day has no date")
        return self.add("part", [step], INT64, part=name, label=name)

    def call_date_trunc(self, steps: list[int], type_: pa.DataType) -> int:
        unit = self.unit("date_trunc", steps[0])
        local = self.local(steps[1])
        cut = self.add("date_trunc", [local], self.types[local], unit=unit)
        if local == steps[1] or unit not in _WITHIN_AN_HOUR:
            return self.convert(cut, type_)
        # Of the two instants at which a clock that is set back shows the time, the one that is cut.
        off = self.add("subtract", [local, cut], pa.duration(self.types[local].unit))
        return self.add("subtract", [steps[1], off], type_)

    def call_add(self, steps: list[int], type_: pa.DataType) -> int:
        return self.sum("add", steps, type_)

    def call_subtract(self, steps: list[int], type_: pa.DataType) -> int:
        return self.sum("subtract", steps, type_)

    def sum(self, name: str, steps: list[int], type_: pa.DataType) -> int:
        """+ and -, of dates and intervals too."""
        a, b = (self.types[step] for step in steps)
        if not is_temporal(a) and is_temporal(b):
            steps, a, b = steps[::-1], b, a
        if pa.types.is_date(a) and pa.types.is_date(b):
            return self.add("days_between", steps, type_, label=name)
        if pa.types.is_date(a):
            operation = "shift_days" if pa.types.is_integer(b) else "shift_interval"
            return self.add(operation, steps, type_, sign=-1 if name == "subtract" else 1, label=name)
        if is_zoned(a) and pa.types.is_interval(b):
            return self.shift_zoned(name, steps, type_)
        if pa.types.is_interval(b):
            operation = "interval_add" if pa.types.is_interval(a) else "shift_interval"
            operation = "shift_time" if pa.types.is_time(a) else operation
            operation = "shift_instant" if pa.types.is_timestamp(a) and a.tz else operation
            return self.add(operation, steps, type_, sign=-1 if name == "subtract" else 1, label=name)
        return self.add(name, steps, type_)

    def shift_zoned(self, name: str, steps: list[int], type_: pa.DataType) -> int:
        """Months and days move what a clock in the zone shows, the rest the instant: last, or where a part goes back
        first, as in DuckDB.
        """
        moved, interval = steps
        months, days, nanos = self.literal_value(name, interval, "the interval added to a timestamp of a time zone")
        sign = -1 if name == "subtract" else 1
        goes_back = any(sign * part < 0 for part in (months, days, nanos))
        for part in sorted(((months, 0, 0), (0, days, 0), (0, 0, nanos)), key=lambda part: goes_back and not part[2]):
            if any(part):
                moved = self.shift_part(name, moved, part, sign)
        return moved

    def shift_part(self, name: str, moved: int, part: tuple[int, int, int], sign: int) -> int:
        """A timestamp of a zone moved by months, or by days, or by nanoseconds."""
        type_ = self.types[moved]

        def shifted(step: int, by: tuple[int, int, int]) -> int:
            interval = self.constant(pa.scalar(pa.MonthDayNano(by), INTERVAL))
            return self.add("shift_interval", [step, interval], self.types[step], sign=sign, label=name)

        months, days, nanos = part
        if nanos:
            return shifted(moved, part)
        wanted = shifted(self.local(moved), part)
        if months:
            return self.convert(wanted, type_)
        # Of a time that a clock shows twice, the one that is whole days of 24 hours away.
        away = shifted(moved, (0, days, 0))
        shows_it = self.add("equal", [self.local(away), wanted], BOOL)
        return self.add("case", [shows_it, away, self.convert(wanted, type_)], type_)

    def call_negate(self, steps: list[int], type_: pa.DataType) -> int:
        if not pa.types.is_interval(type_):
            return self.add("negate", steps, type_)
        return self.add("interval_multiply", [*steps, self.constant(pa.scalar(-1))], type_, label="negate")

    def call_multiply(self, steps: list[int], type_: pa.DataType) -> int:
        if pa.types.is_interval(type_):
            steps = steps if pa.types.is_interval(self.types[steps[0]]) else steps[::-1]
            if pa.types.is_floating(self.types[steps[1]]):
                return self.arrow("interval_multiply", steps, type_)
            return self.add("interval_multiply", steps, type_, label="multiply")
        return self.add("multiply", steps, type_)
