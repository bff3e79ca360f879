"""Encoding of whole arrays of nested values as sortable bytes; nested_values describes the bytes.

A level of nesting takes a few passes of numpy over all values below it. Rows are runs of one array of bytes, with their
lengths. Types that numpy does not have are encoded one value at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qcore.errors import ExecutionError
from qcore.expression.scalars import array_of
from qcore.expression.types import is_list_of_any_layout
from qcore.functions.arrow.nested_values import DAY_NANOS, MONTH_DAYS, NULL, SPANS, VALUE, WHOLE_BYTES, encode_value
from qcore.late_module import late_module

pc = late_module("pyarrow.compute")

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int64]
# Returns the bytes of each value as a row of a matrix; None for a type whose values differ in length.
Fixed = Callable[[pa.Array], npt.NDArray[np.uint8] | None]
# The most values that are encoded in one step. While it is encoded a value takes a few times 18 bytes.
_VALUES_MAX = 1 << 20
# The field name that marks the elements of a list as the entries of a map.
_ENTRY = "$entry"
# The most bytes of an array with offsets of 32 bits.
_BYTES_MAX = (1 << 31) - 1
_EPOCH_ORDINAL = 719_163
_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


def nested_bytes(values: pa.Array) -> pa.Array:
    """The bytes of each value of an array of lists, structs, maps or intervals; null where the value is."""
    return bytes_of_rows(values, _view_bytes)


def bytes_of_rows(values: pa.Array, fixed: Fixed) -> pa.Array:
    """As nested_bytes. `fixed` gives the bytes of numbers and times: as many for each value of an array."""
    if pa.types.is_interval(values.type):
        return _interval_bytes(values)
    if pa.types.is_map(values.type):
        values = entries_of_maps(values)
    n = len(values)
    if n > 1 and n_values(values) > _VALUES_MAX:
        half = n // 2
        return pa.concat_arrays([bytes_of_rows(part, fixed) for part in (values[:half], values[half:])])
    return binaries(*_encode_rows(values, fixed), values)


def binaries(data: Bytes, lengths: Lengths, values: pa.Array) -> pa.Array:
    """Make a binary array of runs of bytes with these lengths, null where `values` is.

    Raises
    ------
    ExecutionError
        There are more bytes than a binary array can hold.
    """
    n = len(values)
    if len(data) > _BYTES_MAX:
        raise ExecutionError(
            f"{n} values of type {values.type} take {len(data):,} bytes as keys or kept values; an array holds "
            f"{_BYTES_MAX:,}; use a smaller batch_rows, or compare parts of the values"
        )
    offsets = offsets_of(lengths).astype(np.int32)
    rows = pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pc.if_else(values.is_valid(), rows, pa.scalar(None, pa.binary())) if values.null_count else rows


def offsets_of(lengths: Lengths) -> Lengths:
    """The positions at which consecutive runs of these lengths begin, and the end of the last."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def entries_of_maps(maps: pa.Array) -> pa.Array:
    """Maps as lists of their entries, which are never null."""
    entries = pa.StructArray.from_arrays([maps.keys, maps.items], ["key", "value"])
    kind = pa.list_(pa.field(_ENTRY, entries.type))
    offsets = pa.array(maps.offsets.to_numpy(zero_copy_only=False))
    return pa.ListArray.from_arrays(offsets, entries, type=kind, mask=maps.is_null() if maps.null_count else None)


def columns_of_structs(structs: pa.Array) -> list[pa.Array]:
    """The fields' values, null where the structs are."""
    if len(structs) == 0:
        # pyarrow ends the process if the slice of a field's values begins after their end.
        return [array_of([], field.type) for field in structs.type]
    return list(structs.flatten())


def n_values(values: pa.Array) -> int:
    """The number of elements of lists; for other types the number of values."""
    if is_list_of_any_layout(values.type):
        return int(pc.sum(pc.list_value_length(values)).as_py() or 0)
    return len(values)


def _encode_rows(values: pa.Array, fixed: Fixed) -> tuple[Bytes, Lengths]:
    """The concatenated bytes of all rows, and the length of each. A null has arbitrary bytes."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _encode_rows(values.dictionary_decode(), fixed)
    if pa.types.is_map(kind):
        return _encode_rows(entries_of_maps(values), fixed)
    if is_list_of_any_layout(kind):
        items = values.flatten()
        is_map = kind.value_field.name == _ENTRY
        data, lengths = _encode_rows(items, fixed) if is_map else _parts(items, fixed)
        ends = offsets_of(lengths)[np.cumsum(as_int64(pc.list_value_length(values)))]
        return _pad_rows(data, np.diff(ends, prepend=0), 0, 1)
    if pa.types.is_struct(kind):
        return side_by_side([_parts(column, fixed) for column in columns_of_structs(values)], len(values))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        held = _text_bytes(values)
        return _one_by_one(values) if held is None else _pad_rows(*held, 0, 2)
    rows = fixed(values)
    if rows is None:
        return _one_by_one(values)
    return rows.reshape(-1), np.full(len(values), rows.shape[1], np.int64)


def _parts(values: pa.Array, fixed: Fixed) -> tuple[Bytes, Lengths]:
    """The bytes of values as parts of other values, with a first byte that tells nulls from values."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    data, lengths = _encode_rows(values, fixed)
    if not valid.all():
        data, lengths = data[np.repeat(valid, lengths)], np.where(valid, lengths, 0)
    data, lengths = _pad_rows(data, lengths, 1, 0)
    data[np.cumsum(lengths) - lengths] = np.where(valid, VALUE[0], NULL[0])
    return data, lengths


def _pad_rows(data: Bytes, lengths: Lengths, front: int, back: int) -> tuple[Bytes, Lengths]:
    """The rows with `front` zeros before and `back` zeros after each."""
    longer = lengths + (front + back)
    ends = np.cumsum(longer)
    out = np.zeros(len(data) + len(lengths) * (front + back), np.uint8)
    is_data = np.ones(len(out), bool)
    for offset in range(front):
        is_data[ends - longer + offset] = False
    for offset in range(back):
        is_data[ends - 1 - offset] = False
    out[is_data] = data
    return out, longer


def side_by_side(parts: Sequence[tuple[Bytes, Lengths]], n: int) -> tuple[Bytes, Lengths]:
    """Concatenate the parts row by row."""
    total = np.zeros(n, np.int64)
    for _, lengths in parts:
        total += lengths
    out = np.empty(int(total.sum()), np.uint8)
    at = np.cumsum(total) - total
    for data, lengths in parts:
        moved = at - (np.cumsum(lengths) - lengths)
        out[np.repeat(moved, lengths) + np.arange(len(data))] = data
        at = at + lengths
    return out, total


def _text_bytes(values: pa.Array) -> tuple[Bytes, Lengths] | None:
    """The bytes of texts; None if one has a zero byte, which needs an escape."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    held = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    return None if (held == 0).any() else (held, np.diff(ends))


def _view_bytes(values: pa.Array) -> npt.NDArray[np.uint8] | None:
    """The bytes of each value as a row of a matrix, for types of fixed width; None for other types."""
    kind = values.type
    if pa.types.is_floating(kind):
        return _float_bytes(values)
    if pa.types.is_decimal128(kind):
        held = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(-1, 16)
        held = held[values.offset : values.offset + len(values), ::-1]
        return _whole_bytes(held, held[:, 0] >> 7 != 0)
    whole = _whole_numbers(values)
    return None if whole is None else bytes_of_whole(whole)


def bytes_of_whole(whole: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """A row of bytes for each whole number, in their order."""
    parts = np.empty((len(whole), 16), np.uint8)
    negative = (whole < 0) if whole.dtype != np.uint64 else np.zeros(len(whole), bool)
    parts[:, :8] = np.where(negative, 0xFF, 0)[:, None]
    parts[:, 8:] = whole.astype(whole.dtype.newbyteorder(">")).view(np.uint8).reshape(-1, 8)
    return _whole_bytes(parts, negative)


def _whole_bytes(parts: npt.NDArray[np.uint8], negative: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    out = np.empty((len(parts), WHOLE_BYTES), np.uint8)
    out[:, 0] = np.where(negative, 0x7F, 0x80)
    out[:, 1:] = parts
    return out


def _whole_numbers(values: pa.Array) -> npt.NDArray[np.int64] | npt.NDArray[np.uint64] | None:
    """The values as whole numbers of 64 bits with the same order; None for other types."""
    kind = values.type
    if pa.types.is_uint64(kind):
        return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return as_int64(values.cast(pa.int64()))
    if pa.types.is_date32(kind):
        return as_int64(values.cast(pa.int32()).cast(pa.int64())) + _EPOCH_ORDINAL
    timed = pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind)
    if timed and kind.unit in _MICROS:
        stored = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return as_int64(values.view(stored).cast(pa.int64())) * _MICROS[kind.unit]
    return None


def as_int64(values: pa.Array) -> Lengths:
    """Whole numbers, 0 for nulls."""
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False)).astype(np.int64)


def _float_bytes(values: pa.Array) -> npt.NDArray[np.uint8]:
    return bytes_of_floats(pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))


def bytes_of_floats(held: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """A row of 8 bytes for each float, in their order."""
    # -0.0 + 0.0 is 0.0
    bits = (held + 0.0).view(np.uint64)
    bits = np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))
    bits[np.isnan(held)] = np.uint64(0xFFFFFFFFFFFFFFFF)
    return bits.astype(">u8").view(np.uint8).reshape(-1, 8)


def _one_by_one(values: pa.Array) -> tuple[Bytes, Lengths]:
    rows = [b"" if value is None else encode_value(value, values.type) for value in values.to_pylist()]
    return np.frombuffer(b"".join(rows), np.uint8), np.fromiter(map(len, rows), np.int64, len(rows))


def _interval_bytes(values: pa.Array) -> pa.Array:
    """The whole days and the rest of a day, each as a number whose bytes sort like its values."""
    n = len(values)
    spans = np.frombuffer(values.buffers()[1] or b"", SPANS)[values.offset : values.offset + n]
    days, nanos = np.divmod(spans["nanos"], DAY_NANOS)
    days += spans["months"].astype(np.int64) * MONTH_DAYS + spans["days"]
    parts = np.empty((n, 2), ">u8")
    parts[:, 0] = days.view(np.uint64) ^ np.uint64(1 << 63)
    parts[:, 1] = nanos.view(np.uint64)
    fixed = pa.Array.from_buffers(pa.binary(16), n, [None, pa.py_buffer(parts.tobytes())])
    if values.null_count:
        fixed = pc.if_else(values.is_valid(), fixed, pa.scalar(None, pa.binary(16)))
    return fixed.cast(pa.binary())
