"""Top-N returns the first rows of the order, for any order of the input. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import DIRECTIONS, Key, order_rows, take_rows

from oracle import assert_same_rows
from qcore.errors import PlanError
from qcore_ext.ground.memory import Account
from qcore_ext.sort.top_n import TopN
from qcore_testing.operators import run_chain
from random_tables import KEY_TYPES, SIZES, random_table

RNG = np.random.default_rng(46)


def check(table: pa.Table, keys: list[Key], count: int, offset: int) -> None:
    """The row number is the last key, so there are no ties."""
    table = table.append_column("row", pa.array(np.arange(table.num_rows)))
    keys = [*keys, ("row", False, False)]
    got = run_chain([TopN("top", Account(), keys, count, offset)], table, table.schema)
    wanted = take_rows(table, order_rows(table, keys)[offset : offset + count])
    assert_same_rows(pa.Table.from_batches(got, table.schema), wanted, ordered=True, rel_tol=0, abs_tol=0)


@pytest.mark.parametrize("n_rows", [*SIZES, 20_000])
@pytest.mark.parametrize(("count", "offset"), [(0, 0), (1, 0), (1, 1), (100, 7), (5000, 0), (4000, 3000), (30_000, 0)])
def test_q2_counts_and_offsets(n_rows: int, count: int, offset: int) -> None:
    types = {"a": pa.int32(), "s": pa.string()}
    table = random_table(47, n_rows, types, null_share=0.1, n_distinct={"a": 300})
    check(table, [("a", True, False)], count, offset)
    check(table, [("s", False, True), ("a", False, False)], count, offset)


@pytest.mark.each_value
@pytest.mark.parametrize("type", KEY_TYPES, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_q2_every_type(type: pa.DataType, direction: tuple[bool, bool]) -> None:
    """After 8,192 rows most rows are rejected by their prefix, or by a comparison with the last kept row."""
    table = random_table(48, 14_000, {"k": type}, null_share=0.2, n_distinct=40, extremes=True)
    check(table, [("k", *direction)], 90, 10)


@pytest.mark.parametrize("values", ["rising", "falling", "equal", "late"])
def test_q2_the_best_rows_may_come_first_last_or_never(values: str) -> None:
    rows = np.arange(30_000)
    k = {"rising": rows, "falling": -rows, "equal": rows * 0, "late": np.where(rows < 29_990, 5, rows % 3)}[values]
    for name, column in (("k", pa.array(k)), ("s", pa.array([f"the same long start {v:+09d}" for v in k]))):
        check(pa.table({name: column}), [(name, False, False)], 50, 0)
        check(pa.table({name: column}), [(name, True, False)], 50, 3)


def test_q2_impossible_calls_are_refused() -> None:
    for count, offset in ((-1, 0), (1, -1)):
        with pytest.raises(PlanError, match=f"has count {count} and offset {offset}; neither may be negative"):
            TopN("top", Account(), [("k", False, False)], count, offset)
    nested = pa.table({"k": [1], "l": [[1]]})
    with pytest.raises(PlanError, match="nested column 'l'; use OrderBy and Limit"):
        run_chain([TopN("top", Account(), [("k", False, False)], 1)], nested)
