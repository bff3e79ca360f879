"""Functions of dates, times and intervals by their names in SQL."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Cast, Expr, Literal, call
from qcore.expression.types import DATE, INT64, INTERVAL, is_instant, is_temporal, plain
from qcore.functions.catalogue import PART_NAMES, PARTS, part_name
from qcore.functions.dialect import Dialect
from qcore.functions.entries import Build, Table, entry, expr_entry
from qcore.functions.operators import OPERATORS
from qcore.functions.time_patterns import strftime_pattern
from qcore.functions.typed import cast, constant, derive_expr, engine_call, is_null, literal_value
from qcore.functions.variants import dialect_call

_STAMP, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
_NANOS = 1_000_000_000
# The Julian day of the first of January 1970.
_JULIAN_1970 = 2_440_588.0
# Bins of time_bucket start on a Monday.
_BUCKET_ORIGIN = Literal(datetime.datetime(2000, 1, 3), _STAMP)
#: Functions that convert times to numbers, and their inverse functions.
EPOCHS = {
    "epoch": "to_timestamp", "epoch_ms": "make_timestamp_ms", "epoch_us": "make_timestamp",
    "epoch_ns": "make_timestamp_ns",
}  # fmt: skip

# --- parts -----------------------------------------------------------------------------------------------------------


def _extract(dialect: Dialect, part: Bound, when: Bound) -> Bound:
    name = literal_value(part)
    if not isinstance(name, str):
        raise PlanError("the part of a date must be a text literal")
    return _part(part_name(name), dialect, when)


def _part(name: str, dialect: Dialect, when: Bound) -> Bound:
    if pa.types.is_integer(when.type) and name == "epoch":
        raise _refuse_number("epoch")
    return dialect_call(dialect, name, when)


def _part_of(name: str) -> Build:
    return lambda dialect, when: _part(name, dialect, when)


def _truncate_time(dialect: Dialect, unit: Bound, when: Bound) -> Bound:
    name = literal_value(unit)
    if not isinstance(name, str):
        raise PlanError("the unit of date_trunc must be a text literal")
    # The result for a date is also a timestamp, as in DuckDB and PostgreSQL.
    when = cast(when, _STAMP) if pa.types.is_date(when.type) else when
    return engine_call("date_trunc", constant(name.lower()), when)


def _refuse_number(name: str) -> PlanError:
    return PlanError(f"{name} takes a date or a timestamp; use {EPOCHS[name]}(x) to make a timestamp of an integer")


def _since_1970(name: str, unit: str) -> Build:
    def build(dialect: Dialect, when: Bound) -> Bound:
        if pa.types.is_integer(when.type):
            raise _refuse_number(name)
        if pa.types.is_interval(when.type) or pa.types.is_duration(when.type) or pa.types.is_time(when.type):
            per_second = {"millisecond": 1e3, "microsecond": 1e6, "nanosecond": 1e9}[unit]
            return cast(derive_expr(lambda value: call("multiply", Call("epoch", (value,)), per_second), when), INT64)
        start = Bound(Cast(Literal(0, INT64), _STAMP), _STAMP)
        return engine_call("date_diff", constant(unit), start, when)

    return build


def _julian(when: Expr) -> Expr:
    """The Julian day: days since the first day of the year 4713 BC. Days start at midnight."""
    return call("add", call("divide", Call("epoch", (when,)), 86_400.0), _JULIAN_1970)


def _year_and_week(when: Expr) -> Expr:
    return call("add", call("multiply", Call("iso_year", (when,)), 100), Call("week", (when,)))


def _era(when: Expr) -> Expr:
    return Cast(call("greater", Call("year", (when,)), 0), INT64)


def _unix_time(when: Expr) -> Expr:
    return Cast(call("floor", Call("epoch", (when,))), INT64)


# --- differences and sums --------------------------------------------------------------------------------------------


def _days_between(late: Expr, early: Expr) -> Expr:
    return call("date_diff", "day", early, late)


def _date_diff(dialect: Dialect, *arguments: Bound) -> Bound:
    if len(arguments) == 2:
        return derive_expr(_days_between, *arguments)
    return engine_call("date_diff", *arguments)


def _date_sub(dialect: Dialect, *arguments: Bound) -> Bound:
    """date_sub(when, interval), or date_sub(unit, start, end): the whole units between."""
    if len(arguments) == 3:
        return engine_call("whole_units", *arguments)
    return _minus(dialect, *arguments)


def _minus(dialect: Dialect, when: Bound, by: Bound) -> Bound:
    sign = OPERATORS["-"]
    assert not isinstance(sign, str)
    return sign.build(dialect, _as_time(when), by)


def _plus(dialect: Dialect, when: Bound, by: Bound) -> Bound:
    sign = OPERATORS["+"]
    assert not isinstance(sign, str)
    return sign.build(dialect, _as_time(when), by)


def _as_time(when: Bound) -> Bound:
    """Text as a timestamp."""
    return cast(when, _STAMP) if pa.types.is_string(plain(when.type)) or is_null(when) else when


def _add_months(when: Expr, count: Expr) -> Expr:
    return call("add", Cast(when, DATE), call("multiply", _interval(1, 0, 0), count))


def _interval(months: int, days: int, nanos: int) -> Literal:
    return Literal(pa.MonthDayNano([months, days, nanos]), INTERVAL)


def _interval_of(*unit: int) -> Build:
    """An interval of `count` units. Some units accept fractions."""

    def build(dialect: Dialect, count: Bound) -> Bound:
        product = OPERATORS["*"]
        assert not isinstance(product, str)
        return product.build(dialect, Bound(_interval(*unit), INTERVAL), count)

    return build


def _age(dialect: Dialect, *arguments: Bound) -> Bound:
    if len(arguments) == 1:
        raise PlanError("age(x) is age(current_date, x) in a query; give both arguments")
    return engine_call("age", *arguments)


def _time_bucket(dialect: Dialect, width: Bound, when: Bound, *origin: Bound) -> Bound:
    """The start of a time's bin. A third argument is the start of a bin, or an interval that moves all bins."""
    if origin and pa.types.is_interval(origin[0].type):
        by = origin[0]
        return _plus(dialect, _time_bucket(dialect, width, _minus(dialect, cast(when, _STAMP), by)), by)
    span = literal_value(width)
    if isinstance(span, pa.MonthDayNano) and span[0]:
        result = engine_call("month_bin", width, when, *origin)
    else:
        start = cast(origin[0], _STAMP) if origin else Bound(_BUCKET_ORIGIN, _STAMP)
        result = engine_call("date_bin", width, when, start)
    return cast(result, DATE) if pa.types.is_date(when.type) else result


# --- made of text and numbers ----------------------------------------------------------------------------------------


def _with_pattern(dialect: Dialect, pattern: Bound) -> Bound:
    """A constant pattern of dates and times converted to that of strftime."""
    text = literal_value(pattern)
    return constant(strftime_pattern(text, dialect.time_pattern == "java")) if isinstance(text, str) else pattern


def _to_char(dialect: Dialect, when: Bound, pattern: Bound) -> Bound:
    return engine_call("strftime", _as_time(when), _with_pattern(dialect, pattern))


def _strftime(dialect: Dialect, when: Bound, form: Bound) -> Bound:
    """strftime. DuckDB takes the format as the first or the second argument."""
    may_be_form = is_temporal(form.type) or "%" in str(literal_value(when))
    if pa.types.is_string(plain(when.type)) and may_be_form and "%" not in str(literal_value(form)):
        when, form = form, when
    return engine_call("strftime", when, form)


def _format_with(pattern: str) -> Callable[[Expr], Expr]:
    return lambda when: call("strftime", when, pattern)


def _to_date(dialect: Dialect, when: Bound, *form: Bound) -> Bound:
    parsed = engine_call("strptime", when, _with_pattern(dialect, form[0])) if form else when
    return cast(parsed, DATE)


def _to_timestamp(name: str) -> Build:
    """to_timestamp and similar functions. Text is parsed, with an optional format. Numbers are units since 1970."""

    def build(dialect: Dialect, when: Bound, *form: Bound) -> Bound:
        is_text = pa.types.is_string(plain(when.type))
        if form:
            made = engine_call("strptime", when, _with_pattern(dialect, form[0]))
        elif dialect.timestamp == "instant" and name == "to_timestamp" and is_text:
            return cast(when, _INSTANT)
        else:
            made = engine_call(name, when)
        if dialect.timestamp != "instant" or name == "to_timestamp_nanos":
            return made
        if name == "to_timestamp":
            return cast(made, _INSTANT)
        return engine_call("at_time_zone", made, constant("UTC")) if not is_instant(made.type) else made

    return build


def _make_timestamp(dialect: Dialect, *parts: Bound) -> Bound:
    """make_timestamp(microseconds), or make_timestamp(year, month, day, hour, minute, second)."""
    made = Bound(Cast(parts[0].expr, _STAMP), _STAMP) if len(parts) == 1 else engine_call("make_timestamp", *parts)
    if len(parts) == 1 and not (pa.types.is_integer(parts[0].type) or is_null(parts[0])):
        raise PlanError("make_timestamp takes an integer of microseconds, or year, month, day, hour, minute, second")
    return cast(made, _INSTANT) if dialect.timestamp == "instant" else made


def _make_timestamptz(dialect: Dialect, *parts: Bound) -> Bound:
    """make_timestamptz(microseconds), or make_timestamptz(year, …, second), with an optional time zone."""
    if len(parts) == 1:
        return engine_call("at_time_zone", _make_timestamp(dialect, *parts), constant("UTC"))
    if len(parts) not in (6, 7):
        raise PlanError("make_timestamptz takes microseconds, or year to second with an optional time zone")
    made = engine_call("make_timestamp", *parts[:6])
    return engine_call("at_time_zone", made, parts[6]) if len(parts) == 7 else cast(made, _INSTANT)


def _nanos(dialect: Dialect, count: Bound) -> Bound:
    return Bound(Cast(count.expr, pa.timestamp("ns")), pa.timestamp("ns"))


_WHEN = "date or time or interval"
# Names of parts that are also functions: year(x), dayofweek(x).
_PART_FUNCTIONS = {
    **{name: name for name in PARTS if name != "epoch"},
    **{name: PART_NAMES[name] for name in ("dayofweek", "weekday", "dayofyear", "isodow", "isoyear", "weekofyear")},
    "dayofmonth": "day",
}  # fmt: skip
_UNITS: dict[str, tuple[int, int, int]] = {
    "to_millennia": (12_000, 0, 0), "to_centuries": (1200, 0, 0), "to_decades": (120, 0, 0), "to_years": (12, 0, 0),
    "to_quarters": (3, 0, 0), "to_months": (1, 0, 0), "to_weeks": (0, 7, 0), "to_days": (0, 1, 0),
    "to_hours": (0, 0, 3600 * _NANOS), "to_minutes": (0, 0, 60 * _NANOS), "to_seconds": (0, 0, _NANOS),
    "to_milliseconds": (0, 0, 1_000_000), "to_microseconds": (0, 0, 1_000),
}  # fmt: skip
TIMES: Table = {
    "extract": entry("part, time", "integer", _extract),
    "date_part": "extract",
    "datepart": "extract",
    **{name: entry(_WHEN, "integer", _part_of(own)) for name, own in _PART_FUNCTIONS.items()},
    "epoch": entry(_WHEN, "number", _part_of("epoch")),
    "epoch_ms": entry(_WHEN, "integer", _since_1970("epoch_ms", "millisecond")),
    "epoch_us": entry(_WHEN, "integer", _since_1970("epoch_us", "microsecond")),
    "epoch_ns": entry(_WHEN, "integer", _since_1970("epoch_ns", "nanosecond")),
    "julian": expr_entry("date or timestamp", "number", _julian),
    "era": expr_entry("date or timestamp", "integer", _era),
    "yearweek": expr_entry("date or timestamp", "integer", _year_and_week),
    "to_unixtime": expr_entry("date or timestamp", "integer", _unix_time),
    "monthname": expr_entry("date or timestamp", "text", _format_with("%B")),
    "dayname": expr_entry("date or timestamp", "text", _format_with("%A")),
    "date_trunc": entry("unit, date or timestamp", "timestamp", _truncate_time),
    "datetrunc": "date_trunc",
    "date_diff": entry("[unit], date or timestamp, date or timestamp", "integer", _date_diff),
    "datediff": "date_diff",
    "datesub": "date_sub",
    "date_sub": entry("[unit], date or timestamp, interval or time", "timestamp; integer", _date_sub),
    "date_add": entry("date or timestamp, interval", "date or timestamp", _plus),
    "add_months": expr_entry("date, integer", "date", _add_months),
    "age": entry("timestamp, [timestamp]", "interval", _age),
    "time_bucket": entry("interval, date or timestamp, [interval or timestamp]", "date or timestamp", _time_bucket),
    **{name: entry("number", "interval", _interval_of(*unit)) for name, unit in _UNITS.items()},
    "to_char": entry("date or timestamp, text", "text", _to_char),
    "date_format": "to_char",
    "strftime": entry("date or time, text", "text", _strftime),
    "to_date": entry("text, [text]", "date", _to_date),
    **{
        name: entry("number or text, [text]", "timestamp", _to_timestamp(name))
        for name in (
            "to_timestamp", "to_timestamp_seconds", "to_timestamp_millis", "to_timestamp_micros", "to_timestamp_nanos",
        )
    },
    "make_timestamp": entry("integer, [integer], [integer], [integer], [integer], [number]", "timestamp",
                            _make_timestamp),
    "make_timestamptz": entry("integer, [integer], [integer], [integer], [integer], [number], [text]",
                              "timestamp with time zone", _make_timestamptz),
    "make_timestamp_ms": "to_timestamp_millis",
    "make_timestamp_ns": entry("integer", "timestamp[ns]", _nanos),
}  # fmt: skip
