"""Runs of several drivers merged into one order, by whichever driver comes last. SPEC Q2, V2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import DIRECTIONS, check

from oracle import assert_same_rows
from qcore_ext.ground.memory import Account
from qcore_ext.sort.merge import SortState
from qcore_ext.sort.order_by import OrderBy
from qcore_testing.operators import run_chain
from random_tables import SIZES, random_table


@pytest.mark.parametrize("n_rows", [*SIZES, 20_000])
@pytest.mark.parametrize("n_drivers", [2, 3, 8])
def test_q2_runs_of_all_sizes(n_rows: int, n_drivers: int) -> None:
    types = {"k": pa.int32(), "s": pa.string(), "w": pa.decimal128(38, 2)}
    table = random_table(44, n_rows, types, null_share=0.1, n_distinct={"k": 50, "s": 20, "w": 30})
    for direction in DIRECTIONS:
        check(table, [("s", *direction), ("k", *direction)], n_drivers)
        check(table, [("w", *direction)], n_drivers)


def test_q2_equal_rows_of_an_earlier_run_come_first() -> None:
    table = pa.table({"k": np.arange(6000) % 5, "row": np.arange(6000)})
    state = SortState(3)
    for part in range(3):
        given = run_chain([OrderBy("o", Account(), [("k", False, False)], state)], table.slice(part * 2000, 2000))
    assert_same_rows(
        pa.Table.from_batches(given), table.sort_by([("k", "ascending"), ("row", "ascending")]), ordered=True
    )


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_v2_a_driver_without_rows_delivers_no_run(empty: int) -> None:
    table = random_table(45, 4000, {"k": pa.int64()}, null_share=0.1)
    state = SortState(3)
    parts = [table.slice(0, 2000), table.slice(2000)]
    parts.insert(empty, table.slice(0, 0))
    for part in parts:
        given = run_chain([OrderBy("o", Account(), [("k", False, False)], state)], part, table.schema)
    assert_same_rows(pa.Table.from_batches(given), table.sort_by("k"), ordered=True)
    assert state.n_drivers == 3


def test_v2_a_sort_has_a_driver() -> None:
    with pytest.raises(ValueError, match="at least one driver, but n_drivers is 0"):
        SortState(0)
