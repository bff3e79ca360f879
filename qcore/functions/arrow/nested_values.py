"""Sortable bytes of nested values and intervals: the bytes are equal and ordered as the values are.

Within a value, null equals null and is last. A list is before a longer list that begins with the same elements.
Intervals are compared by length; a month has 30 days and a day 24 hours.
"""

from __future__ import annotations

import datetime
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.scalars import array_of
from qcore.expression.types import UUID, is_list_of_any_layout

# The byte before each part of a value. The end of a list is a smaller byte than both.
_END, VALUE, NULL = b"\x00", b"\x01", b"\x02"
WHOLE_BYTES = 17
_SIGN = 1 << (8 * WHOLE_BYTES - 1)
_EPOCH = datetime.datetime(1970, 1, 1)
# The default one rounds to 28 digits.
_EXACT = Context(prec=80)
DAY_NANOS = 86_400_000_000_000
MONTH_DAYS = 30
# From bytes, a position and a type to the number or time at that position, and the position after it.
Leaf = Callable[[bytes, int, pa.DataType], tuple[Any, int]]
# An interval that is no part of a value: whole days above the least number of 64 bits, then the rest of a day.
_DAYS_AND_NANOS = struct.Struct(">QQ")
SPANS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])


def encode_value(value: Any, type_: pa.DataType) -> bytes:
    """The bytes of a value of a type, as a Python value of pyarrow. It must not be None."""
    if pa.types.is_dictionary(type_):
        return encode_value(value, type_.value_type)
    if is_list_of_any_layout(type_):
        return b"".join(_part(item, type_.value_type) for item in value) + _END
    if pa.types.is_struct(type_):
        return b"".join(_part(value[field.name], field.type) for field in type_)
    if pa.types.is_map(type_):
        parts = (_part(key, type_.key_type) + _part(item, type_.item_type) for key, item in value)
        return b"".join(parts) + _END
    if pa.types.is_floating(type_):
        # -0.0 + 0.0 is 0.0
        return bytes_of_float(value + 0.0)
    if isinstance(value, uuid.UUID):
        value = value.bytes
    if isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        return raw.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
    return bytes_of_whole(_whole(value, type_))


def _part(value: Any, type_: pa.DataType) -> bytes:
    return NULL if value is None else VALUE + encode_value(value, type_)


def bytes_of_float(value: float) -> bytes:
    """The bytes of a float that is not -0.0, in the floats' order."""
    if math.isnan(value):
        return b"\xff" * 8
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    return int((bits ^ 0xFFFFFFFFFFFFFFFF) if bits >> 63 else (bits | 1 << 63)).to_bytes(8, "big")


def _whole(value: Any, type_: pa.DataType) -> int:
    if isinstance(value, Decimal):
        return int(value.scaleb(type_.scale, _EXACT))
    if isinstance(value, (int, bool)):
        return int(value)
    if pa.types.is_interval(type_):
        months, days, nanos = value
        return int((months * MONTH_DAYS + days) * DAY_NANOS + nanos)
    if isinstance(value, datetime.datetime):
        since = value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta()) - _EPOCH
        return since // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return value.toordinal()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    raise PlanError(f"a nested key has values of type {type_}, which have no order; compare parts of the key")


def leaf_of_bytes(raw: bytes, at: int, type_: pa.DataType) -> tuple[Any, int]:
    """The number or time whose bytes begin at a position, and the position after it."""
    if pa.types.is_floating(type_):
        return float_of_bytes(raw[at : at + 8]), at + 8
    return _from_whole(whole_of_bytes(raw, at), type_), at + WHOLE_BYTES


def whole_of_bytes(raw: bytes, at: int) -> int:
    """The whole number whose bytes begin at a position."""
    return int.from_bytes(raw[at : at + WHOLE_BYTES], "big") - _SIGN


def bytes_of_whole(whole: int) -> bytes:
    """The bytes of a whole number, in the numbers' order."""
    return (whole + _SIGN).to_bytes(WHOLE_BYTES, "big")


def decode_value(raw: bytes, at: int, type_: pa.DataType, leaf: Leaf = leaf_of_bytes) -> tuple[Any, int]:
    """The value whose bytes begin at a position, and the position after it. `leaf` reads numbers and times."""
    if pa.types.is_dictionary(type_):
        return decode_value(raw, at, type_.value_type, leaf)
    if is_list_of_any_layout(type_):
        return _items(raw, at, lambda position: _decoded_part(raw, position, type_.value_type, leaf))
    if pa.types.is_struct(type_):
        value: dict[str, Any] = {}
        for field in type_:
            value[field.name], at = _decoded_part(raw, at, field.type, leaf)
        return value, at
    if pa.types.is_map(type_):

        def pair(position: int) -> tuple[Any, int]:
            key, position = _decoded_part(raw, position, type_.key_type, leaf)
            item, position = _decoded_part(raw, position, type_.item_type, leaf)
            return (key, item), position

        return _items(raw, at, pair)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        data, at = _decoded_bytes(raw, at)
        return data.decode(), at
    if _is_bytes(type_) or type_ == UUID:
        return _decoded_bytes(raw, at)
    return leaf(raw, at, type_)


def _is_bytes(type_: pa.DataType) -> bool:
    kinds = pa.types
    return bool(
        kinds.is_binary(type_)
        or kinds.is_large_binary(type_)
        or kinds.is_fixed_size_binary(type_)
        or kinds.is_binary_view(type_)
    )


def _items(raw: bytes, at: int, read: Callable[[int], tuple[Any, int]]) -> tuple[list[Any], int]:
    items = []
    while raw[at : at + 1] != _END:
        item, at = read(at)
        items.append(item)
    return items, at + 1


def _decoded_part(raw: bytes, at: int, type_: pa.DataType, leaf: Leaf) -> tuple[Any, int]:
    return (None, at + 1) if raw[at : at + 1] == NULL else decode_value(raw, at + 1, type_, leaf)


def float_of_bytes(raw: bytes) -> float:
    """The float of its bytes."""
    bits = int.from_bytes(raw, "big")
    bits = bits ^ 1 << 63 if bits >> 63 else bits ^ 0xFFFFFFFFFFFFFFFF
    (value,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    return float(value)


def _decoded_bytes(raw: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while raw[end : end + 2] != b"\x00\x00":
        end += 2 if raw[end : end + 2] == b"\x00\xff" else 1
    return raw[at:end].replace(b"\x00\xff", b"\x00"), end + 2


def _from_whole(whole: int, type_: pa.DataType) -> Any:
    if pa.types.is_decimal(type_):
        return Decimal(whole).scaleb(-type_.scale, _EXACT)
    if pa.types.is_boolean(type_):
        return bool(whole)
    if pa.types.is_timestamp(type_):
        moment = _EPOCH + datetime.timedelta(microseconds=whole)
        return moment.replace(tzinfo=datetime.UTC) if type_.tz else moment
    if pa.types.is_date(type_):
        return datetime.date.fromordinal(whole)
    if pa.types.is_duration(type_):
        return datetime.timedelta(microseconds=whole)
    if pa.types.is_time(type_):
        return (_EPOCH + datetime.timedelta(microseconds=whole)).time()
    if pa.types.is_interval(type_):
        days, nanos = divmod(abs(whole), DAY_NANOS)
        months, days = divmod(days, MONTH_DAYS)
        sign = -1 if whole < 0 else 1
        return pa.MonthDayNano([sign * months, sign * days, sign * nanos])
    return whole


def nested_values(raw: pa.Array, type_: pa.DataType, leaf: Leaf = leaf_of_bytes) -> pa.Array:
    """Decode an array of bytes, or an array of lists of bytes, to values of a type."""
    if pa.types.is_list(raw.type):
        item = type_.value_type
        lists = [None if many is None else [_value(one, item, leaf) for one in many] for many in raw.to_pylist()]
        return array_of(lists, type_)
    return array_of([_value(one, type_, leaf) for one in raw.to_pylist()], type_)


def _value(raw: bytes | None, type_: pa.DataType, leaf: Leaf) -> Any:
    if raw is None:
        return None
    if pa.types.is_interval(type_):
        return _interval_of(*_DAYS_AND_NANOS.unpack(raw))
    return decode_value(raw, 0, type_, leaf)[0]


def _interval_of(days: int, nanos: int) -> pa.MonthDayNano:
    """The interval of the two numbers that stand for one that is in nothing else: see `_interval_bytes`."""
    return _from_whole((days - (1 << 63)) * DAY_NANOS + nanos, pa.month_day_nano_interval())
