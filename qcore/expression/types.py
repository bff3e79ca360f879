"""Logical types and their common types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import PlanError

DECIMAL_DIGITS_MAX = 38

Types = Sequence[pa.DataType]

BOOL = pa.bool_()
INT64 = pa.int64()
FLOAT64 = pa.float64()
STRING = pa.string()
DATE = pa.date32()
INTERVAL = pa.month_day_nano_interval()
UUID = pa.uuid()

_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_DIGITS = {1: 3, 2: 5, 4: 10, 8: 19}
_UNITS = ("s", "ms", "us", "ns")


class TypeMismatch(Exception):
    """Types do not fit. The message is the reason."""


def _ids(*types: pa.DataType) -> frozenset[int]:
    return frozenset(type_.id for type_ in types)


# Ids of types with one layout. Looking up an id takes a twentieth of the time of the other checks.
_PLAIN = _ids(
    pa.null(), BOOL, *_SIGNED, *_UNSIGNED, pa.float32(), FLOAT64, pa.decimal128(1), STRING, pa.binary(), DATE,
    pa.timestamp("s"), pa.time32("s"), pa.time64("us"), pa.duration("s"), INTERVAL, pa.list_(BOOL), pa.struct([]),
    pa.map_(BOOL, BOOL),
)  # fmt: skip
_NUMERIC = _ids(
    *_SIGNED, *_UNSIGNED, pa.float16(), pa.float32(), FLOAT64, pa.decimal32(1), pa.decimal64(1), pa.decimal128(1),
    pa.decimal256(1),
)  # fmt: skip
# Ids of types without parameters: equal ids are equal types.
WITHOUT_PARAMETERS = _ids(
    pa.null(), BOOL, *_SIGNED, *_UNSIGNED, pa.float32(), FLOAT64, STRING, pa.binary(), DATE, INTERVAL,
)  # fmt: skip
_TEMPORAL = _ids(DATE, pa.date64(), pa.timestamp("s"), pa.time32("s"), pa.time64("us"))


def plain(type_: pa.DataType) -> pa.DataType:
    """The logical type, without the layout: dictionary, view, large and others."""
    if type_.id in _PLAIN:
        return type_
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return plain(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return STRING
    if pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_) or type_ == pa.binary_view():
        return pa.binary()
    if pa.types.is_date64(type_):
        return DATE
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_decimal(type_) and not pa.types.is_decimal128(type_) and type_.precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(type_.precision, type_.scale)
    return type_


def is_temporal(type_: pa.DataType) -> bool:
    """Date, timestamp or time of day."""
    return type_.id in _TEMPORAL


def is_instant(type_: pa.DataType) -> bool:
    """Timestamp with a time zone."""
    return bool(pa.types.is_timestamp(type_) and type_.tz is not None)


def is_zoned(type_: pa.DataType) -> bool:
    """Timestamp with a time zone other than UTC, whose local time differs from the stored instant."""
    return bool(pa.types.is_timestamp(type_) and type_.tz not in (None, "UTC", "Etc/UTC", "+00:00"))


def compares_by_bytes(type_: pa.DataType) -> bool:
    """List, struct, map or interval. The engine compares these by their bytes from `nested_encoding`."""
    return bool(pa.types.is_nested(type_) or pa.types.is_interval(type_))


def is_numeric(type_: pa.DataType) -> bool:
    """Integer, decimal or float."""
    return type_.id in _NUMERIC


def is_text(type_: pa.DataType) -> bool:
    """String of any layout."""
    return type_.id == STRING.id or pa.types.is_string(plain(type_))


def is_list_of_any_layout(type_: pa.DataType) -> bool:
    """List, large list, fixed-size list or list view."""
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
    return bool(is_list or pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_))


def integer_as_decimal(type_: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer type."""
    digits = _DIGITS[type_.bit_width // 8]
    return pa.decimal128(20 if type_ == pa.uint64() else digits, 0)


def shown_type(type_: pa.DataType) -> str:
    """The name of a type in errors: as pyarrow prints it, but uuid."""
    return "uuid" if type_ == UUID else str(type_)


def common_type(types: Types) -> pa.DataType:
    """The type in which values of all `types` can be compared or mixed. PlanError if there is none."""
    try:
        return merged_type([plain(type_) for type_ in types])
    except TypeMismatch:
        raise PlanError(
            f"the types {', '.join(map(shown_type, types))} have nothing in common; cast them to one type"
        ) from None


def merged_type(types: Types) -> pa.DataType:
    """The common type of plain types. TypeMismatch if there is none."""
    result = pa.null()
    for type_ in types:
        result = _common_pair(result, type_)
    return result


def _common_pair(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if is_numeric(a) and is_numeric(b):
        return _common_numeric(a, b)
    for one, other in ((a, b), (b, a)):
        if pa.types.is_date(one) and pa.types.is_timestamp(other):
            return other
        if pa.types.is_string(one) and (is_temporal(other) or is_numeric(other) or pa.types.is_boolean(other)):
            return other
        if pa.types.is_string(one) and (pa.types.is_binary(other) or other == UUID):
            return other
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return pa.timestamp(_finest(a, b), a.tz or b.tz)
    if pa.types.is_time(a) and pa.types.is_time(b):
        unit = _finest(a, b)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if pa.types.is_duration(a) and pa.types.is_duration(b):
        return pa.duration(_finest(a, b))
    if is_list_of_any_layout(a) and is_list_of_any_layout(b):
        return pa.list_(_common_pair(plain(a.value_type), plain(b.value_type)))
    if pa.types.is_struct(a) and pa.types.is_struct(b) and _same_fields(a, b):
        fields = zip(a, b, strict=True)
        return pa.struct([(one.name, _common_pair(plain(one.type), plain(other.type))) for one, other in fields])
    raise TypeMismatch(f"{shown_type(a)} and {shown_type(b)} have nothing in common")


def _same_fields(a: pa.StructType, b: pa.StructType) -> bool:
    """Whether the numbers and the names of fields are equal. Generated names c0, c1, … match any name."""
    if a.num_fields != b.num_fields:
        return False
    pairs = zip((field.name for field in a), (field.name for field in b), strict=True)
    return all(one == other or f"c{i}" in (one, other) for i, (one, other) in enumerate(pairs))


def _finest(a: pa.DataType, b: pa.DataType) -> str:
    return max(a.unit, b.unit, key=_UNITS.index)


def _common_numeric(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        # A decimal such as 0.1 equals the nearest float, of 32 bits too, as in DuckDB.
        one, other = (a, b) if pa.types.is_floating(a) else (b, a)
        return one if pa.types.is_decimal(other) else FLOAT64
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return _common_integer(a, b)
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    digits = max(a.precision - a.scale, b.precision - b.scale) + scale
    return pa.decimal128(min(digits, DECIMAL_DIGITS_MAX), scale)


def _common_integer(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if (a in _SIGNED) == (b in _SIGNED):
        return max(a, b, key=lambda type_: type_.bit_width)
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    if unsigned.bit_width < signed.bit_width:
        return signed
    if unsigned == pa.uint64():
        return pa.decimal128(20, 0)
    return _SIGNED[_UNSIGNED.index(unsigned) + 1]


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The decimal type of an integer type. Other types are returned unchanged."""
    return integer_as_decimal(type_) if pa.types.is_integer(type_) else type_
