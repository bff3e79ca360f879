"""Nested values as bytes that can be stored and decoded, whole arrays at a time.

Operators that copy rows, such as windows, have no layout for lists, structs and maps. They keep a block of bytes for
each value. A block has a byte for each of its values, which is 0 for a null. Then the values follow by column: numbers
as in Arrow, lengths before the bytes of texts, and lengths of lists before the block of their elements. Blocks do not
sort like their values; the bytes of nested_encoding do.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from qcore.expression.scalars import array_of
from qcore.expression.types import is_list_of_any_layout, is_text
from qcore.functions.arrow.list_layouts import large_lists
from qcore.functions.arrow.nested_encoding import (
    Bytes,
    Lengths,
    as_int64,
    binaries,
    columns_of_structs,
    entries_of_maps,
    n_values,
    offsets_of,
    side_by_side,
)
from qcore.late_module import late_module

pc = late_module("pyarrow.compute")

_LENGTH_BYTES = 8
# The most values that are written, and the most bytes that are read, in one step.
_VALUES_MAX, _BYTES_MAX = 1 << 20, 16 << 20


def blocks(values: pa.Array) -> pa.Array:
    """The block of each value of an array; null where the value is."""
    n = len(values)
    if n > 1 and n_values(values) > _VALUES_MAX:
        half = n // 2
        return pa.concat_arrays([blocks(part) for part in (values[:half], values[half:])])
    return binaries(*_write_blocks(values, np.ones(n, np.int64)), values)


def values_of_blocks(raw: pa.Array, type_: pa.DataType, ahead: int = 0) -> pa.Array:
    """Decode an array of blocks, which begin `ahead` bytes after the start of each row, to values of a type."""
    n = len(raw)
    _, offsets, data = raw.buffers()
    if n == 0:
        return array_of([], type_)
    positions = np.frombuffer(offsets, np.int32)[raw.offset : raw.offset + n + 1].astype(np.int64)
    if n > 1 and positions[-1] - positions[0] > _BYTES_MAX:
        half = n // 2
        return pa.concat_arrays([values_of_blocks(part, type_, ahead) for part in (raw[:half], raw[half:])])
    there = raw.is_valid().to_numpy(zero_copy_only=False)
    held, starts = np.frombuffer(data or b"", np.uint8), positions[:-1] + ahead
    if not there.all():
        absent, _ = _write_blocks(pa.nulls(1, type_), np.ones(1, np.int64))
        starts = np.where(there, starts, len(held))
        held = np.concatenate((held, absent))
    return _read(held, starts, np.ones(n, np.int64), type_)[0]


def _write_blocks(values: pa.Array, sizes: Lengths) -> tuple[Bytes, Lengths]:
    """The concatenated blocks of groups of `sizes` values each, and the number of bytes of each block."""
    there = values.is_valid().to_numpy(zero_copy_only=False)
    return side_by_side([(there.view(np.uint8), sizes), *_columns(values, sizes)], len(sizes))


def _columns(values: pa.Array, sizes: Lengths) -> list[tuple[Bytes, Lengths]]:
    kind = values.type
    if pa.types.is_null(kind):
        return []
    if pa.types.is_dictionary(kind):
        return _columns(values.dictionary_decode(), sizes)
    if pa.types.is_run_end_encoded(kind):
        return _columns(pc.run_end_decode(values), sizes)
    if pa.types.is_struct(kind):
        return [_write_blocks(column, sizes) for column in columns_of_structs(values)]
    if pa.types.is_map(kind):
        return _columns(entries_of_maps(values), sizes)
    if is_list_of_any_layout(kind):
        lists = large_lists(values)
        counts = as_int64(pc.list_value_length(lists))
        return [_numbers(counts, sizes), _write_blocks(lists.flatten(), _sums(counts, sizes))]
    if is_text(kind) or _is_bytes(kind):
        texts = pc.fill_null(values.cast(pa.large_binary()), b"")
        offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        lengths = np.diff(offsets)
        return [_numbers(lengths, sizes), (data, _sums(lengths, sizes))]
    if pa.types.is_boolean(kind):
        return [(as_int64(values.cast(pa.int64())).astype(np.uint8), sizes)]
    width = kind.bit_width // 8
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    return [(data[values.offset * width : (values.offset + len(values)) * width], sizes * width)]


def _read(held: Bytes, at: Lengths, sizes: Lengths, kind: pa.DataType) -> tuple[pa.Array, Lengths]:
    """The values of the groups whose blocks begin at the positions `at`, and the ends of the blocks."""
    if pa.types.is_dictionary(kind):
        values, at = _read(held, at, sizes, kind.value_type)
        # pyarrow's cast makes dictionaries of texts only.
        encoded = values.dictionary_encode()
        indices = encoded.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=kind.ordered), at
    if pa.types.is_run_end_encoded(kind):
        values, at = _read(held, at, sizes, kind.value_type)
        return pc.run_end_encode(values, kind.run_end_type), at
    n = int(sizes.sum())
    there = _gather_bytes(held, at, sizes).view(bool)
    at = at + sizes
    mask = pa.array(~there) if not there.all() else None
    if pa.types.is_null(kind):
        return pa.nulls(n), at
    if pa.types.is_struct(kind):
        fields = []
        for field in kind:
            values, at = _read(held, at, sizes, field.type)
            fields.append(values)
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask), at
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        offsets, entries, at = _lists(held, at, sizes, entry)
        keys, items = entries.flatten()
        return pa.MapArray.from_arrays(offsets.astype(np.int32), keys, items, type=kind, mask=mask), at
    if is_list_of_any_layout(kind):
        offsets, items, at = _lists(held, at, sizes, kind.value_type)
        lists = pa.LargeListArray.from_arrays(offsets, items, type=pa.large_list(kind.value_field), mask=mask)
        by_offsets = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return (lists.cast(kind) if by_offsets else array_of(lists.to_pylist(), kind)), at
    validity = pa.array(there).buffers()[1] if mask is not None else None
    if is_text(kind) or _is_bytes(kind):
        lengths, at = _gather_bytes(held, at, sizes * _LENGTH_BYTES).view(np.int64), at + sizes * _LENGTH_BYTES
        totals = _sums(lengths, sizes)
        data = pa.py_buffer(_gather_bytes(held, at, totals))
        wide = pa.large_string() if is_text(kind) else pa.large_binary()
        texts = pa.Array.from_buffers(wide, n, [validity, pa.py_buffer(offsets_of(lengths)), data])
        return texts.cast(kind), at + totals
    if pa.types.is_boolean(kind):
        return pa.array(_gather_bytes(held, at, sizes).view(bool), mask=None if mask is None else ~there), at + sizes
    width = kind.bit_width // 8
    data = pa.py_buffer(_gather_bytes(held, at, sizes * width))
    return pa.Array.from_buffers(kind, n, [validity, data]), at + sizes * width


def _lists(held: Bytes, at: Lengths, sizes: Lengths, kind: pa.DataType) -> tuple[Lengths, pa.Array, Lengths]:
    """The offsets and the elements of the groups' lists, and the ends of the blocks."""
    counts = _gather_bytes(held, at, sizes * _LENGTH_BYTES).view(np.int64)
    items, at = _read(held, at + sizes * _LENGTH_BYTES, _sums(counts, sizes), kind)
    return offsets_of(counts), items, at


def _gather_bytes(held: Bytes, starts: Lengths, lengths: Lengths) -> Bytes:
    """Concatenate runs of bytes."""
    ends = np.cumsum(lengths)
    return held[np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)]


def _numbers(numbers: Lengths, sizes: Lengths) -> tuple[Bytes, Lengths]:
    return np.ascontiguousarray(numbers, np.int64).view(np.uint8), sizes * _LENGTH_BYTES


def _sums(numbers: Lengths, sizes: Lengths) -> Lengths:
    """The sums of consecutive groups of `sizes` numbers."""
    total = offsets_of(numbers)
    ends = np.cumsum(sizes)
    return total[ends] - total[ends - sizes]


def _is_bytes(kind: pa.DataType) -> bool:
    """Bytes of any length, in any layout."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
