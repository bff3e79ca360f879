"""The elements of each row of a list column, in every Arrow layout of lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_testing.units import list_rows

ROWS = [[1, 2], [], None, [None, 4, 5], [6]]
FIXED = [[1, 2], None, [3, None], [5, 6]]
TEXTS = [["a", "a text of more than twelve bytes"], None, [], [None]]


def rows_of(array: pa.Array) -> list[list[Any]]:
    """The rows of a list column, by list_column. A null row has no elements."""
    positions, elements = list_rows(*open_lists(array))
    values = [] if elements is None else pa.record_batch(elements).column(0).to_pylist()
    assert all(length >= 0 for _, length in positions)
    return [values[start : start + length] for start, length in positions]


def open_lists(array: pa.Array) -> tuple[PyBatch, int, Schema]:
    batch = PyBatch.from_arrow(pa.record_batch([array], ["x"]))
    is_map = pa.types.is_map(array.type)
    item = pa.struct([array.type.key_field, array.type.item_field]) if is_map else array.type.value_type
    return batch, 0, Schema(pa.schema([("item", item)]))


@pytest.mark.parametrize("slice_", [slice(None), slice(1, None), slice(3, 4), slice(2, 2)])
@pytest.mark.parametrize("make", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
@pytest.mark.parametrize(("item", "rows"), [(pa.int64(), ROWS), (pa.int8(), ROWS), (pa.string(), TEXTS)])
def test_variable_lists(make: Any, item: pa.DataType, rows: list[Any], slice_: slice) -> None:
    array = pa.array(rows, make(item))[slice_]
    assert rows_of(array) == [row or [] for row in rows[slice_]]


@pytest.mark.parametrize("slice_", [slice(None), slice(1, None), slice(2, 3)])
def test_lists_of_fixed_size(slice_: slice) -> None:
    assert rows_of(pa.array(FIXED, pa.list_(pa.int64(), 2))[slice_]) == [row or [] for row in FIXED[slice_]]


def test_maps_are_lists_of_their_entries() -> None:
    array = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64()))
    assert rows_of(array) == [[{"key": "a", "value": 1}, {"key": "b", "value": None}], [], []]


def test_views_may_overlap_and_go_back() -> None:
    views = pa.ListViewArray.from_arrays([2, 0, 1], [2, 3, 0], pa.array([10, 11, 12, 13]))
    assert rows_of(views) == [[12, 13], [10, 11, 12], []]


def test_nulls_have_no_elements_whatever_their_offsets_say() -> None:
    lists = pa.ListArray.from_arrays([0, 2, 4, 5], pa.array([1, 2, 3, 4, 5]), mask=pa.array([False, True, False]))
    assert rows_of(lists) == [[1, 2], [], [5]]


def break_buffers(type_: pa.DataType, buffers: list[tuple[list[int], pa.DataType]]) -> PyBatch:
    """One list of four elements whose buffers are overwritten after pyarrow validated them."""
    memory = [bytearray(len(values) * kind.bit_width // 8) for values, kind in buffers]
    children = [pa.array([1, 2, 3, 4], pa.int64())]
    array = pa.Array.from_buffers(type_, 1, [None, *map(pa.py_buffer, memory)], children=children)
    batch = pa.record_batch([array], ["x"])
    for held, (values, kind) in zip(memory, buffers, strict=True):
        held[:] = pa.array(values, kind).buffers()[1].to_pybytes()[: len(held)]
    return PyBatch.from_arrow(batch, trusted=True)


INT32, INT64 = pa.int32(), pa.int64()


@pytest.mark.parametrize(
    ("type_", "buffers"),
    [
        (pa.list_(pa.int64()), [([0, 5], INT32)]),
        (pa.list_(pa.int64()), [([3, 1], INT32)]),
        (pa.list_(pa.int64()), [([-1, 1], INT32)]),
        (pa.large_list(pa.int64()), [([0, 1 << 40], INT64)]),
        (pa.list_view(pa.int64()), [([2], INT32), ([3], INT32)]),
        (pa.list_view(pa.int64()), [([-1], INT32), ([1], INT32)]),
        (pa.large_list_view(pa.int64()), [([0], INT64), ([-1], INT64)]),
    ],
)
def test_elements_that_do_not_exist_are_reported(type_: pa.DataType, buffers: list[Any]) -> None:
    """The length of such a row is -1, and no memory after the elements is read."""
    positions, _ = list_rows(break_buffers(type_, buffers), 0, Schema(pa.schema([("item", pa.int64())])))
    assert [length for _, length in positions] == [-1]


def test_a_column_of_nulls_has_no_elements() -> None:
    assert rows_of(pa.nulls(3, pa.list_(pa.int64()))) == [[], [], []]


def test_a_foreign_array_with_too_few_buffers_is_refused() -> None:
    """The array is declared as a list view but has no buffer of sizes."""
    batch = pa.record_batch([pa.array([[1], [2]], pa.list_(pa.int64()))], ["x"])
    said = pa.record_batch([pa.array([[1], [2]], pa.list_view(pa.int64()))], ["x"])

    class Wrong:
        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            return said.__arrow_c_array__()[0], batch.__arrow_c_array__()[1]

    with pytest.raises(ExecutionError, match="fewer buffers than its type needs"):
        list_rows(PyBatch.from_arrow(Wrong(), trusted=True), 0, Schema(pa.schema([("item", pa.int64())])))
