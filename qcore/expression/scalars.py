"""Constants as pyarrow scalars, made without pandas.

The first call of pa.scalar() or pa.array() in a process imports pandas if it is installed. The import takes longer
than planning and running a small query.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.expression.types import UUID

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)

_TYPES = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
    datetime.date: pa.date32(), type(None): pa.null(),
}  # fmt: skip
_FORMATS = {
    pa.int8(): "<b", pa.int16(): "<h", pa.int32(): "<i", pa.int64(): "<q",
    pa.uint8(): "<B", pa.uint16(): "<H", pa.uint32(): "<I", pa.uint64(): "<Q",
}  # fmt: skip


def type_of(value: Any) -> pa.DataType:
    """The type of pa.scalar(value)."""
    found = _TYPES.get(type(value))
    if found is None or (type(value) is int and not -(1 << 63) <= value < 1 << 63):
        return pa.scalar(value).type
    return found


def scalar_of(value: Any, type: pa.DataType | None = None) -> pa.Scalar:
    """Return pa.scalar(value, type), and raise its errors."""
    type = type_of(value) if type is None else type
    if value is None:
        return pa.nulls(1, type)[0]
    held = _bytes_of(value, type)
    if held is None:
        return pa.scalar(value, type)
    return pa.Array.from_buffers(type, 1, [None, *map(pa.py_buffer, held)])[0]


def array_of(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """Return pa.array(values, type), also for UUIDs in lists, structs and maps, which pyarrow does not make."""
    try:
        return pa.array(values, type)
    except pa.ArrowNotImplementedError:
        return pa.array(values, without_uuids(type)).cast(type)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows."""
    return pa.record_batch([array_of([], type) for type in schema.types], schema=schema)


def without_uuids(type: pa.DataType) -> pa.DataType:
    """The type with the bytes of UUIDs in their place."""
    if type == UUID:
        return type.storage_type
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(without_uuids(field.type)) for field in type])
    if pa.types.is_map(type):
        parts = [part.with_type(without_uuids(part.type)) for part in (type.key_field, type.item_field)]
        return pa.map_(*parts, keys_sorted=type.keys_sorted)
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        make = pa.list_ if pa.types.is_list(type) else pa.large_list
        return make(type.value_field.with_type(without_uuids(type.value_type)))
    return type


def _bytes_of(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    """The buffers of an array of the value; None for values and types that pyarrow must convert."""
    try:
        if isinstance(value, bool):
            return (bytes([value]),) if type == pa.bool_() else None
        make = _MAKERS.get(type.id)
        return None if make is None else make(value, type)
    except (struct.error, OverflowError, UnicodeError):
        return None


def _integer(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    return (struct.pack(_FORMATS[type], value),) if _is(value, int) else None


def _float(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    return (struct.pack("<d", value),) if _is(value, float) else None


def _text(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    if not _is(value, str):
        return None
    data = value.encode()
    return struct.pack("<ii", 0, len(data)), data


def _date(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    return (struct.pack("<i", (value - _DAY).days),) if _is(value, datetime.date) else None


def _timestamp(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    if not _is(value, datetime.datetime) or type.unit != "us" or (value.tzinfo is None) != (type.tz is None):
        return None
    return (struct.pack("<q", (value - (_EPOCH if type.tz is None else _EPOCH_UTC)) // _MICROSECOND),)


def _interval(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    return (struct.pack("<iiq", *value),) if _is(value, pa.MonthDayNano) else None


def _decimal(value: Any, type: pa.DataType) -> tuple[bytes, ...] | None:
    if not _is(value, Decimal) or not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    zeros = exponent + type.scale
    if zeros < 0 or len(digits) + zeros > type.precision:
        return None
    number = int("".join(map(str, digits))) * 10**zeros
    return ((-number if sign else number).to_bytes(16, "little", signed=True),)


def _is(value: Any, kind: type) -> bool:
    """Whether the value's class is exactly this one. pyarrow may convert values of derived classes differently."""
    return type(value) is kind


_MAKERS: dict[int, Callable[[Any, pa.DataType], tuple[bytes, ...] | None]] = {
    **{type.id: _integer for type in _FORMATS},
    pa.float64().id: _float,
    pa.string().id: _text,
    pa.date32().id: _date,
    pa.timestamp("us").id: _timestamp,
    pa.month_day_nano_interval().id: _interval,
    pa.decimal128(1).id: _decimal,
}
