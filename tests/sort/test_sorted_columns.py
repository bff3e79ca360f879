"""The output of a sort: values read from prefixes, or gathered from the stores of several drivers. SPEC Q2."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import DIRECTIONS, check, order_rows, sort, take_rows

from oracle import assert_same_rows
from random_tables import KEY_TYPES, SIZES, random_table
from sweeps import every


@pytest.mark.each_value
@pytest.mark.parametrize("type", every(2, KEY_TYPES), ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("n_drivers", [1, 3])
def test_q2_a_key_comes_back_as_it_went_in(type: pa.DataType, null_share: float, n_drivers: int) -> None:
    for n_rows in SIZES:
        table = random_table(50, n_rows, {"k": type}, null_share=null_share, n_distinct=20)
        for direction in DIRECTIONS:
            check(table, [("k", *direction)], n_drivers)


@pytest.mark.each_value
@pytest.mark.parametrize("type", KEY_TYPES, ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.2, 1.0])
def test_q2_a_column_that_is_no_key_is_gathered(type: pa.DataType, null_share: float) -> None:
    table = random_table(51, 5000, {"k": pa.int16(), "v": type}, null_share={"k": 0.1, "v": null_share}, extremes=True)
    for n_drivers in (1, 2, 5):
        check(table, [("k", False, False)], n_drivers)


def test_q2_null_bits_at_the_edges_of_parts() -> None:
    """Two threads write different bits of the bitmap's word at the boundary of their parts."""
    rng = np.random.default_rng(52)
    n = 131_111
    keys = rng.integers(0, n, n)
    nulls = rng.random((2, n)) < 0.3
    table = pa.table({"k": pa.array(keys, mask=nulls[0]), "v": pa.array(np.arange(n), mask=nulls[1])})
    got = sort(table, [("k", False, True)])
    order = np.lexsort((np.arange(n), np.where(nulls[0], -1, keys)))
    assert got.equals(table.take(pa.array(order)).combine_chunks())


def test_q2_only_some_drivers_have_nulls() -> None:
    table = pa.table({"k": pa.array([3, 1, 2] * 8 + [None, 0] * 8 + [5] * 8), "v": pa.array([None] * 8 + [*range(40)])})
    for direction in DIRECTIONS:
        check(table, [("k", *direction)], 5)


def test_q2_wide_decimals_in_the_prefix_and_beyond() -> None:
    type = pa.decimal128(38, 2)
    for top in (10, 2**62, 2**63 - 2, 2**63, 10**30):
        values = [Decimal(v) / 100 for v in (-top, top, 0, 1, -1, top // 2)] * 20
        check(pa.table({"k": pa.array([*values, None], type)}), [("k", True, False)], 2)


def test_q2_nested_columns_travel_with_rows_of_several_drivers() -> None:
    table = random_table(53, 3000, {"k": pa.int32(), "l": pa.list_(pa.int16()), "v": pa.string()}, null_share=0.1)
    for n_drivers in (1, 3):
        got = sort(table, [("k", False, False)], n_drivers)
        assert_same_rows(got, take_rows(table, order_rows(table, [("k", False, False)])), ordered=True)
