"""Sortable bytes of nested values whose types may widen. Equal values have equal bytes, also if their types differ.

The bytes are those of nested_encoding, except for numbers and dates: an integer, a decimal and a float of equal value
have the same bytes, and so have a date and its midnight. Bytes that were kept need no change when the type widens
(data/widening).
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qcore.errors import SchemaChangeError
from qcore.functions.arrow.nested_encoding import Lengths, as_int64, bytes_of_floats, bytes_of_rows, bytes_of_whole
from qcore.functions.arrow.nested_values import (
    WHOLE_BYTES,
    bytes_of_float,
    float_of_bytes,
    leaf_of_bytes,
    nested_values,
    whole_of_bytes,
)
from qcore.functions.arrow.nested_values import bytes_of_whole as bytes_of_one
from qcore.late_module import late_module

pc = late_module("pyarrow.compute")

Rows = npt.NDArray[np.uint8]
# A number is encoded as the nearest float, its whole part, and its digits after the point. For a float that is not a
# whole number the last two are zero, because no decimal with digits after the point widens into a float.
_FLOAT_BYTES = 8
_NUMBER_BYTES = _FLOAT_BYTES + 2 * WHOLE_BYTES
_DIGITS_BEHIND = 38
# The most digits of a decimal that fits an integer of 64 bits.
_SHORT_DIGITS = 18
# A time or a duration is encoded as whole days, then nanoseconds.
_TIME_BYTES = 2 * WHOLE_BYTES
_DAY_SECONDS = 86_400
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOS = _UNITS["ns"]
_EXACT = Context(prec=80)


def widening_bytes(values: pa.Array) -> pa.Array:
    """The bytes of each value of an array of lists, structs, maps or intervals; null where the value is."""
    return bytes_of_rows(values, _encode_numbers)


def values_of_widening_bytes(raw: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    """Decode an array of bytes, or an array of lists of bytes, to a type that can hold all the values.

    Raises
    ------
    SchemaChangeError
        A value of a narrower type has no exact value of this type. The message has the column's name.
    """
    try:
        return nested_values(raw, type_, _leaf)
    except (pa.ArrowInvalid, _Inexact) as error:
        raise SchemaChangeError(
            f"column {name!r} changed to {type_}, which does not hold all values of before exactly ({error}); cast it "
            "to one type at its source"
        ) from None


class _Inexact(Exception):
    """A value of a narrower type has no exact value of the wider one."""


def _encode_numbers(values: pa.Array) -> Rows | None:
    kind = values.type
    if pa.types.is_integer(kind):
        held = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
        return _numbers(held.astype(np.float64), held if kind == pa.uint64() else held.astype(np.int64))
    if pa.types.is_floating(kind):
        return _floats(pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))
    if pa.types.is_decimal128(kind):
        return _decimals(values)
    if pa.types.is_boolean(kind):
        return bytes_of_whole(as_int64(values.cast(pa.int64())))
    return _times(values)


def _numbers(nearest: npt.NDArray[np.float64], whole: Lengths, behind: Rows | None = None) -> Rows:
    if behind is None:
        behind = bytes_of_whole(np.zeros(len(nearest), np.int64))
    return np.hstack((bytes_of_floats(nearest), bytes_of_whole(whole), behind))


def _floats(held: npt.NDArray[np.float64]) -> Rows:
    whole = np.zeros(len(held), np.int64)
    small = np.abs(held) < float(1 << 63)
    whole[small] = held[small].astype(np.int64)
    whole[whole != held] = 0
    return _numbers(held, whole)


def _decimals(values: pa.Array) -> Rows:
    kind = values.type
    unit = 10**kind.scale
    held = np.frombuffer(values.buffers()[1] or b"", np.int64).reshape(-1, 2)
    held = held[values.offset : values.offset + len(values)]
    if kind.precision <= _SHORT_DIGITS and kind.scale == 0:
        return _numbers(held[:, 0].astype(np.float64), held[:, 0])
    rows = [_decimal((int(high) << 64) + (int(low) & (1 << 64) - 1), unit, kind.scale) for low, high in held.tolist()]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, _NUMBER_BYTES)


def _decimal(digits: int, unit: int, scale: int) -> bytes:
    whole, behind = divmod(abs(digits), unit)
    sign = -1 if digits < 0 else 1
    behind *= sign * 10 ** (_DIGITS_BEHIND - scale)
    return bytes_of_float(float(sign * whole) + 0.0) + bytes_of_one(sign * whole) + bytes_of_one(behind)


def _times(values: pa.Array) -> Rows | None:
    kind = values.type
    if pa.types.is_date32(kind) or pa.types.is_date64(kind):
        days = as_int64(values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
        return np.hstack((bytes_of_whole(days), bytes_of_whole(np.zeros(len(days), np.int64))))
    if not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind)):
        return None
    stored = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    unit = _UNITS[kind.unit]
    days, rest = np.divmod(as_int64(values.view(stored).cast(pa.int64())), _DAY_SECONDS * unit)
    return np.hstack((bytes_of_whole(days), bytes_of_whole(rest * (_NANOS // unit))))


def _leaf(raw: bytes, at: int, type_: pa.DataType) -> tuple[Any, int]:
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return _number(raw, at, type_), at + _NUMBER_BYTES
    if pa.types.is_date(type_):
        return whole_of_bytes(raw, at) * (1 if pa.types.is_date32(type_) else _DAY_SECONDS * 1000), at + _TIME_BYTES
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or pa.types.is_time(type_):
        unit = _UNITS[type_.unit]
        days, nanos = whole_of_bytes(raw, at), whole_of_bytes(raw, at + WHOLE_BYTES)
        return days * _DAY_SECONDS * unit + nanos * unit // _NANOS, at + _TIME_BYTES
    return leaf_of_bytes(raw, at, type_)


def _number(raw: bytes, at: int, type_: pa.DataType) -> Any:
    whole = whole_of_bytes(raw, at + _FLOAT_BYTES)
    if pa.types.is_integer(type_):
        return whole
    if pa.types.is_decimal(type_):
        behind = whole_of_bytes(raw, at + _FLOAT_BYTES + WHOLE_BYTES) // 10 ** (_DIGITS_BEHIND - type_.scale)
        return Decimal(whole * 10**type_.scale + behind).scaleb(-type_.scale, _EXACT)
    value = float_of_bytes(raw[at : at + _FLOAT_BYTES])
    if whole != 0 and value != whole:
        raise _Inexact(whole)
    return value
