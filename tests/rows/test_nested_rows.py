"""Lists, structs and maps that an operator keeps, and returns in the order of the other columns. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import sort, take_rows

import qcore
from oracle import assert_same_rows
from random_tables import NESTED_TYPES, SIZES, random_table


@pytest.mark.parametrize("type", NESTED_TYPES, ids=str)
@pytest.mark.parametrize("n_rows", [*SIZES, 5000])
@pytest.mark.parametrize("n_drivers", [1, 3])
def test_q2_nested_columns_among_others(type: pa.DataType, n_rows: int, n_drivers: int) -> None:
    types = {"a": type, "i": pa.int32(), "b": pa.list_(pa.string()), "s": pa.string()}
    table = random_table(54, n_rows, types, null_share=0.2)
    order = np.random.default_rng(55).permutation(n_rows)
    table = table.append_column("order", pa.array(order))
    got = sort(table, [("order", False, False)], n_drivers)
    assert_same_rows(got, take_rows(table, list(np.argsort(order))), ordered=True, check_names=True)


def test_q2_only_selected_rows_of_several_batches_are_kept() -> None:
    table = pa.table({"i": range(9000), "l": [[i, i + 1][: i % 3] for i in range(9000)]})
    table = pa.Table.from_batches(table.to_batches(1000))
    got = qcore.sql("select l, i from t where i % 7 = 2 order by i desc", {"t": table}, threads=1).to_arrow()
    assert_same_rows(got, table.select(["l", "i"]).take(pa.array(range(8997, -1, -7))), ordered=True)


def test_q2_sliced_lists_keep_their_offsets() -> None:
    table = pa.table({"i": range(100), "l": [[i] * (i % 4) for i in range(100)]}).slice(13, 50)
    got = sort(table, [("i", True, False)])
    assert_same_rows(got, take_rows(table, list(range(49, -1, -1))), ordered=True)
