"""Prefixes and comparisons of keys of every type, direction and order of nulls, compared with Python. SPEC Q2."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
import pytest
from sorted_rows import DIRECTIONS, Key, check, sort

from qcore.errors import PlanError
from random_tables import KEY_TYPES, SIZES, random_table
from sweeps import every


@pytest.mark.each_value
@pytest.mark.parametrize("type", KEY_TYPES, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_q2_every_type(type: pa.DataType, direction: tuple[bool, bool]) -> None:
    for n_rows in SIZES:
        check(random_table(40, n_rows, {"k": type}, null_share=0.2, extremes=True), [("k", *direction)])


# Keys of these widths use a part of a prefix's 64 bits, all of them, or more.
WIDTHS = [
    [pa.int8()] * 3,
    [pa.int32(), pa.int16(), pa.int8(), pa.bool_()],
    [pa.int32()] * 3,
    [pa.int64(), pa.int8()],
    [pa.string(), pa.int16()],
    [pa.int16(), pa.string(), pa.float32()],
    [pa.decimal128(38, 2), pa.uint8()],
    [pa.float64(), pa.float64()],
    [pa.bool_()] * 7,
    [pa.uint16(), pa.null(), pa.uint32(), pa.uint16()],
]


@pytest.mark.parametrize("types", every(3, WIDTHS), ids=str)
def test_q2_several_keys_in_one_prefix(types: list[pa.DataType]) -> None:
    table = random_table(41, 3000, types, null_share=0.2, n_distinct=4, extremes=True)
    for first, second in itertools.product(DIRECTIONS, repeat=2):
        check(table, [(name, *(first, second)[i % 2]) for i, name in enumerate(table.column_names)])


@pytest.mark.parametrize("values", [
    [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-300, -1e-300, None],
    [10**18, -(10**18), 10**20, -(10**20), 10**20 + 1, 0, None],
    ["", "\0", "a", "a\0", "a\0\0", "a\1", "aaaaaaa", "aaaaaaaa", "aaaaaaab", "aaaaaaaab", None, "ÿ", "\x7f"],
    [-(2**63), 2**63 - 1, -1, 0, 1, None],
], ids=lambda values: repr(values[0]))  # fmt: skip
def test_q2_neighbours(values: list[Any]) -> None:
    """Each pair of values is sorted alone, so that a third value cannot hide a wrong order."""
    type = pa.decimal128(38, 0) if 10**20 in values else None
    for pair in itertools.permutations(values, 2):
        table = pa.table({"k": pa.array(pair, type or pa.array(values).type)})
        for direction in DIRECTIONS:
            check(table, [("k", *direction)])


@pytest.mark.parametrize(("name", "message"), [
    ("x", "cannot order by 'x': the columns are k, l, m"),
    ("l", "cannot order by 'l': .* have no order"),
    ("m", "cannot order by 'm': .* have no order"),
])  # fmt: skip
def test_q2_columns_without_an_order_are_named(name: str, message: str) -> None:
    types = {"k": pa.int8(), "l": pa.list_(pa.int8()), "m": pa.month_day_nano_interval()}
    keys: list[Key] = [("k", False, False), (name, False, False)]
    with pytest.raises(PlanError, match=message):
        sort(random_table(49, 1, types), keys)
