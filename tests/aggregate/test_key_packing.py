"""Keys packed into one or two words: all divisions of the words, and equal values of different bits. SPEC Q2."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check

from random_tables import KEY_TYPES, SIZES, random_table

COUNT = [Call("count", -1, pa.int64(), len)]
WIDTHS = [pa.int8(), pa.int16(), pa.float32(), pa.float64(), pa.string(), pa.null()]


@pytest.mark.each_value
@pytest.mark.parametrize("type", [*KEY_TYPES, pa.null()], ids=str)
@pytest.mark.parametrize("n_rows", SIZES)
def test_q2_a_lone_key_of_every_type(type: pa.DataType, n_rows: int) -> None:
    check(random_table(14, n_rows, [type], null_share=0.2, extremes=True), 1, COUNT)


@pytest.mark.parametrize("types", list(itertools.product(WIDTHS, repeat=2)), ids=str)
def test_q2_pairs_of_widths(types: tuple[pa.DataType, ...]) -> None:
    """Rows that differ in one field only are different groups, for each word, shift and null bit of a field."""
    table = random_table(15, 3000, types, null_share=0.2, n_distinct=20, extremes=True)
    check(table, 2, COUNT)


@pytest.mark.parametrize("types", [
    [pa.int8()] * 16,
    [pa.int8()] * 8,
    [pa.uint8(), pa.bool_(), pa.int16(), pa.date32(), pa.int64()],
    [pa.int32()] * 4,
    [pa.int32()] * 3,
    [pa.int16(), pa.null(), pa.int16(), pa.string()],
    [pa.bool_()] * 17,
], ids=len)  # fmt: skip
def test_q2_several_keys(types: list[pa.DataType]) -> None:
    each = 2 if len(types) > 5 else 6
    table = random_table(16, 3000, types, null_share=0.1, n_distinct=each, extremes=True)
    check(table, len(types), COUNT)


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
def test_q2_zeros_are_one_key_and_every_nan_is_one(type: pa.DataType) -> None:
    nans = np.frombuffer(np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).tobytes())
    x = pa.array(np.array([0.0, -0.0, *nans, 1.0, -1.0]).astype(type.to_pandas_dtype()), from_pandas=False)
    for more in ({}, {"j": pa.array([1] * len(x), pa.int8())}):
        check(pa.table({"k": x, **more}), 1 + len(more), COUNT)


@pytest.mark.parametrize("n_columns", [1, 2])
def test_q2_strings_of_each_length_around_the_limits(n_columns: int) -> None:
    """A word takes 7 bytes and their length, two take 12. Length and zero bytes count."""
    words = [
        "",
        "\0",
        "\0\0",
        *("abcdefghijklmno"[:n] for n in range(1, 15)),
        *("abcdefghijkl\0\0"[:n] for n in range(15)),
    ]
    for n in (7, 8, 12, 13, 14):
        few = [word for word in words if len(word) <= n] * 2
        table = pa.table({"k": few, "j": pa.array([0] * len(few), pa.int8())})
        check(table if n_columns == 2 else table.drop(["j"]), n_columns, COUNT)


def test_q2_bits_under_a_null_do_not_count() -> None:
    values = np.array([1, 2, 3, 2**62, 5], np.int64)
    validity = pa.py_buffer(np.packbits([0, 0, 1, 0, 1], bitorder="little").tobytes())
    k = pa.Array.from_buffers(pa.int64(), 5, [validity, pa.py_buffer(values.tobytes())])
    check(pa.table({"k": k}), 1, COUNT)
    check(pa.table({"k": k, "j": k}), 2, COUNT)
