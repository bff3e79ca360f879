"""Concatenation of Arrow arrays in parts, so that a query can be stopped between them."""

from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t, uintptr_t
from libc.string cimport memcpy

cdef enum:
    # Bytes to copy at a time: some milliseconds for memory that was never touched.
    PART_BYTES = 4194304


def concatenate(list arrays, look):
    """Return the same as pyarrow.concat_arrays for arrays of one type. Calls `look` before each PART_BYTES bytes."""
    import pyarrow

    if sum([array.nbytes for array in arrays]) <= PART_BYTES:
        look()
        return pyarrow.concat_arrays(arrays)
    arrays = [array for array in arrays if len(array) > 0]
    types = pyarrow.types
    type_ = arrays[0].type
    if types.is_struct(type_):
        children = [concatenate([array.field(i) for array in arrays], look) for i in range(type_.num_fields)]
        return pyarrow.Array.from_buffers(
            type_, sum(map(len, arrays)), [validity_of(arrays)], null_count=nulls_of(arrays), children=children
        )
    if types.is_map(type_) or types.is_list(type_) or types.is_large_list(type_):
        return concatenate_lists(arrays, look)
    width = 0 if types.is_nested(type_) or types.is_dictionary(type_) else width_of(type_)
    if width > 0:
        data = copy_parts([(array.buffers()[1], array.offset * width, len(array) * width) for array in arrays], look)
        return pyarrow.Array.from_buffers(
            type_, sum(map(len, arrays)), [validity_of(arrays), data], null_count=nulls_of(arrays)
        )
    if types.is_string(type_) or types.is_binary(type_):
        return concatenate_texts(arrays, look)
    look()
    return pyarrow.concat_arrays(arrays)


def width_of(type_):
    """The bytes of each value; 0 if values are bits or have no fixed width."""
    try:
        return type_.bit_width // 8
    except ValueError:
        return 0


def nulls_of(arrays):
    return sum([array.null_count for array in arrays])


def validity_of(arrays):
    """The validity buffer of the concatenated arrays; None if they have no nulls."""
    import pyarrow

    if nulls_of(arrays) == 0:
        return None
    return pyarrow.concat_arrays([array.is_valid() for array in arrays]).buffers()[1]


def last_of(array):
    return array[len(array) - 1].as_py()


def copy_parts(parts, look):
    """A buffer with all parts. A part is (buffer, offset, number of bytes)."""
    import pyarrow

    cdef int64_t start, n_bytes, n
    cdef uintptr_t source
    result = pyarrow.allocate_buffer(sum([part[2] for part in parts]))
    cdef uintptr_t target = result.address
    for buffer, start, n_bytes in parts:
        source = (<uintptr_t> buffer.address) + start if n_bytes > 0 else 0
        while n_bytes > 0:
            look()
            n = min(n_bytes, <int64_t> PART_BYTES)
            memcpy(<void*> target, <const void*> source, n)
            source += n
            target += n
            n_bytes -= n
    return result


def shift_offsets(offsets):
    """The offsets buffer of the concatenated arrays, from their arrays of offsets. None if an offset would overflow."""
    import pyarrow
    import pyarrow.compute

    moved = []
    end = 0
    for array in offsets:
        if end + last_of(array) - array[0].as_py() > (INT32_MAX if array.type.bit_width == 32 else INT64_MAX):
            return None
        by = pyarrow.scalar(end - array[0].as_py(), array.type)
        shifted = pyarrow.compute.add(array if not moved else array[1:], by)
        moved.append(shifted)
        end = last_of(shifted)
    return pyarrow.concat_arrays(moved).buffers()[1]


def concatenate_lists(arrays, look):
    import pyarrow

    type_ = arrays[0].type
    bounds = [(array.offsets[0].as_py(), last_of(array.offsets)) for array in arrays]
    offsets = shift_offsets([array.offsets for array in arrays])
    if offsets is None:
        return pyarrow.concat_arrays(arrays)
    if pyarrow.types.is_map(type_):
        keys, items = [
            concatenate([values[start:end] for values, (start, end) in zip(sides, bounds, strict=True)], look)
            for sides in ([array.keys for array in arrays], [array.items for array in arrays])
        ]
        held = pyarrow.StructArray.from_arrays([keys, items], fields=[type_.key_field, type_.item_field])
    else:
        parts = [array.values[start:end] for array, (start, end) in zip(arrays, bounds, strict=True)]
        held = concatenate(parts, look)
    return pyarrow.Array.from_buffers(
        type_, sum(map(len, arrays)), [validity_of(arrays), offsets], null_count=nulls_of(arrays), children=[held]
    )


def concatenate_texts(arrays, look):
    import pyarrow

    runs = [
        pyarrow.Array.from_buffers(pyarrow.int32(), len(array) + 1, [None, array.buffers()[1]], offset=array.offset)
        for array in arrays
    ]
    offsets = shift_offsets(runs)
    if offsets is None:
        return pyarrow.concat_arrays(arrays)
    parts = [
        (array.buffers()[2], run[0].as_py(), last_of(run) - run[0].as_py())
        for array, run in zip(arrays, runs, strict=True)
    ]
    return pyarrow.Array.from_buffers(
        arrays[0].type, sum(map(len, arrays)), [validity_of(arrays), offsets, copy_parts(parts, look)],
        null_count=nulls_of(arrays),
    )
