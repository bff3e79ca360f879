"""Translation of Substrait literals to Literal expressions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Literal
from qcore.expression.types import DECIMAL_DIGITS_MAX, common_type
from qcore.functions.current_moment import moment
from qcore.substrait.types import INTEGERS, read_type, time_type, unit_of

_SIMPLE = {
    "boolean": pa.bool_(),
    "fp32": pa.float32(),
    "fp64": pa.float64(),
    "string": pa.string(),
    "fixed_char": pa.string(),
    "binary": pa.binary(),
    "fixed_binary": pa.binary(),
}


def read_literal(message: Any) -> Literal:
    """The Literal of a Substrait Expression.Literal message."""
    kind = message.WhichOneof("literal_type")
    if kind in _SIMPLE:
        return Literal(getattr(message, kind), _SIMPLE[kind])
    if kind in INTEGERS:
        return _integer(getattr(message, kind), INTEGERS[kind], message.type_variation_reference)
    reader = _READERS.get(kind)
    if reader is None:
        raise PlanError(f"a literal of the Substrait type {kind or 'without a kind'} cannot be read")
    return reader(getattr(message, kind))


def _integer(value: int, types: tuple[pa.DataType, pa.DataType], variation: int) -> Literal:
    if variation != 1:
        return Literal(value, types[0])
    # The message has unsigned values in the signed field.
    return Literal(value % (1 << types[1].bit_width), types[1])


def decimal_literal(unscaled: int, scale: int) -> Literal:
    """The decimal unscaled × 10^-scale with the fewest digits: 1 as decimal(20,0) would make results too wide."""
    if scale < 0:
        unscaled, scale = unscaled * 10**-scale, 0
    digits = str(abs(unscaled))
    if max(len(digits), scale) > DECIMAL_DIGITS_MAX:
        raise PlanError(f"the decimal literal {unscaled}e{-scale} has more than {DECIMAL_DIGITS_MAX} digits")
    value = Decimal((int(unscaled < 0), tuple(map(int, digits)), -scale))
    return Literal(value, pa.decimal128(max(len(digits), scale, 1), scale))


def _decimal(message: Any) -> Literal:
    return decimal_literal(int.from_bytes(message.value, "little", signed=True), message.scale)


def _timestamp(zone: str | None) -> Callable[[Any], Literal]:
    def read(message: Any) -> Literal:
        type_, count = pa.timestamp(unit_of(message.precision), zone), int(message.value)
        return Literal(count, type_) if type_.unit == "ns" else moment(count, type_)

    return read


def _time(message: Any) -> Literal:
    type_ = time_type(message.precision)
    if message.precision == 9:
        return Literal(message.value, type_)
    return Literal(pa.scalar(message.value, type_).as_py(), type_)


def _interval(months: int, days: int, nanos: int) -> Literal:
    return Literal(pa.MonthDayNano([months, days, nanos]), pa.month_day_nano_interval())


def _nanos(message: Any) -> int:
    scale = 10 ** (9 - message.precision)
    return int(message.seconds) * 1_000_000_000 + int(message.subseconds) * scale


def _interval_compound(message: Any) -> Literal:
    months, rest = message.interval_year_to_month, message.interval_day_to_second
    return _interval(months.years * 12 + months.months, rest.days, _nanos(rest))


def _list(message: Any) -> Literal:
    values = [read_literal(value) for value in message.values]
    return Literal([value.value for value in values], pa.list_(common_type([value.type for value in values])))


def _struct(message: Any) -> Literal:
    """A struct. The message has no names of fields."""
    values = [read_literal(value) for value in message.fields]
    type_ = pa.struct([(f"c{i}", value.type) for i, value in enumerate(values)])
    return Literal({f"c{i}": value.value for i, value in enumerate(values)}, type_)


def _map(message: Any) -> Literal:
    pairs = [(read_literal(entry.key), read_literal(entry.value)) for entry in message.key_values]
    keys, values = (common_type([pair[i].type for pair in pairs]) for i in (0, 1))
    return Literal([(key.value, value.value) for key, value in pairs], pa.map_(keys, values))


_READERS: dict[str, Callable[[Any], Literal]] = {
    "date": lambda days: moment(days, pa.date32()),
    "decimal": _decimal,
    "var_char": lambda message: Literal(message.value, pa.string()),
    "precision_time": _time,
    "precision_timestamp": _timestamp(None),
    "precision_timestamp_tz": _timestamp("UTC"),
    "interval_year_to_month": lambda message: _interval(message.years * 12 + message.months, 0, 0),
    "interval_day_to_second": lambda message: _interval(0, message.days, _nanos(message)),
    "interval_compound": _interval_compound,
    "list": _list,
    "struct": _struct,
    "map": _map,
    "empty_list": lambda message: Literal([], pa.list_(read_type(message.type))),
    "empty_map": lambda message: Literal([], pa.map_(read_type(message.key), read_type(message.value))),
    "null": lambda type_: Literal(None, read_type(type_)),
}
