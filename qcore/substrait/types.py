"""Substrait types → Arrow types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError

# Type variations of DataFusion's producer. Substrait itself has no unsigned integers and no layouts.
_UNSIGNED = 1
_DURATION = 1
_LARGE = 1
_VIEW = 2

# Signed and unsigned types.
INTEGERS = {
    "i8": (pa.int8(), pa.uint8()),
    "i16": (pa.int16(), pa.uint16()),
    "i32": (pa.int32(), pa.uint32()),
    "i64": (pa.int64(), pa.uint64()),
}
_TEXTS = {0: pa.string(), _LARGE: pa.large_string(), _VIEW: pa.string_view()}
_BINARIES = {0: pa.binary(), _LARGE: pa.large_binary(), _VIEW: pa.binary_view()}
_PLAIN = {
    "bool": pa.bool_(),
    "fp32": pa.float32(),
    "fp64": pa.float64(),
    "date": pa.date32(),
    "fixed_char": pa.string(),
    "varchar": pa.string(),
    "interval_year": pa.month_day_nano_interval(),
    "interval_day": pa.month_day_nano_interval(),
    "interval_compound": pa.month_day_nano_interval(),
}
# Types that DataFusion's producer declares because Substrait lacks them: their number here, and the engine's type. All
# other types that a plan declares get the number 0.
OWN_TYPES = {"null": (1, pa.null()), "fp16": (2, pa.float32())}
_BY_NUMBER = dict(OWN_TYPES.values())
UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def read_type(message: Any) -> pa.DataType:
    """The Arrow type of a Substrait Type message. PlanError for a type that the engine lacks."""
    kind = message.WhichOneof("kind")
    if kind in INTEGERS:
        return INTEGERS[kind][getattr(message, kind).type_variation_reference == _UNSIGNED]
    if kind == "interval_day" and message.interval_day.type_variation_reference == _DURATION:
        return pa.duration(unit_of(message.interval_day.precision))
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "string":
        return _TEXTS.get(message.string.type_variation_reference, pa.string())
    if kind == "binary":
        return _BINARIES.get(message.binary.type_variation_reference, pa.binary())
    if kind == "fixed_binary":
        return pa.binary(message.fixed_binary.length)
    if kind == "decimal":
        return pa.decimal128(message.decimal.precision, message.decimal.scale)
    if kind in ("precision_timestamp", "precision_timestamp_tz"):
        zone = "UTC" if kind == "precision_timestamp_tz" else None
        return pa.timestamp(unit_of(getattr(message, kind).precision), zone)
    if kind == "precision_time":
        return time_type(message.precision_time.precision)
    if kind == "list":
        return pa.list_(read_type(message.list.type))
    if kind == "map":
        return pa.map_(read_type(message.map.key), read_type(message.map.value))
    if kind == "struct":
        return pa.struct([(f"c{i}", read_type(part)) for i, part in enumerate(message.struct.types)])
    if kind == "user_defined" and message.user_defined.type_reference in _BY_NUMBER:
        return _BY_NUMBER[message.user_defined.type_reference]
    raise PlanError(f"the Substrait type {kind or 'without a kind'} cannot be read")


def unit_of(precision: int) -> str:
    """Arrow's time unit for so many digits of a second."""
    if precision not in UNITS:
        raise PlanError(f"times of precision {precision} cannot be read; 0, 3, 6 and 9 can")
    return UNITS[precision]


def time_type(precision: int) -> pa.DataType:
    """The type of a time of day with so many digits of a second."""
    unit = unit_of(precision)
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def top_level_names(names: Iterable[str], types: Iterable[pa.DataType]) -> list[str]:
    """The names of the columns, from a list that also has those of struct fields, depth first."""
    remaining = iter(names)
    result = []
    for type_ in types:
        result.append(next(remaining, ""))
        for _ in range(_nested_names(type_)):
            next(remaining, None)
    return result


def name_struct_fields(names: Iterable[str], types: Iterable[pa.DataType]) -> list[pa.DataType]:
    """The types with names for the fields of structs, from the list that top_level_names takes."""
    remaining = iter(names)
    result = []
    for type_ in types:
        next(remaining, "")
        result.append(_name_fields(type_, remaining))
    return result


def _name_fields(type_: pa.DataType, names: Iterator[str]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(next(names, part.name), _name_fields(part.type, names)) for part in type_])
    if pa.types.is_map(type_):
        return pa.map_(_name_fields(type_.key_type, names), _name_fields(type_.item_type, names))
    if pa.types.is_list(type_) and pa.types.is_nested(type_.value_type):
        return pa.list_(_name_fields(type_.value_type, names))
    return type_


def _nested_names(type_: pa.DataType) -> int:
    if pa.types.is_struct(type_):
        return sum(1 + _nested_names(field.type) for field in type_)
    if pa.types.is_map(type_):
        return _nested_names(type_.key_type) + _nested_names(type_.item_type)
    if pa.types.is_list(type_):
        return _nested_names(type_.value_type)
    return 0
