"""Rows kept column by column: grown, copied to one store with other drivers' rows, strings copied or held. SPEC Q2.

A sort keeps its rows in such a store, one a driver; its output has every column of every row. A join copies the rows of
all drivers to one store.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from joins import hash_join, run_together
from sorted_rows import sort, take_rows

import qcore
from oracle import assert_same_rows
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_ext.sort.order_by import OrderBy
from qcore_testing.operators import run_chain
from random_tables import ALL_TYPES, ENCODED_TYPES, SIZES, plain, random_table


def check_kept(table: pa.Table, n_drivers: int) -> None:
    """Rows sorted by a shuffled column equal the input, column by column."""
    order = np.random.default_rng(50).permutation(table.num_rows)
    table = table.append_column("order", pa.array(order))
    assert_same_rows(
        sort(table, [("order", False, False)], n_drivers), take_rows(table, list(np.argsort(order))), ordered=True
    )


TYPES = [type for type in ALL_TYPES if type not in ENCODED_TYPES]


@pytest.mark.each_value
@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("n_rows", [*SIZES, 9000])
def test_q2_every_type(type: pa.DataType, n_rows: int) -> None:
    for null_share in (0.0, 0.3):
        check_kept(random_table(51, n_rows, {"x": type}, null_share=null_share), 1)
        check_kept(random_table(52, n_rows, {"x": type}, null_share=null_share), 3)


@pytest.mark.parametrize("first_null", [0, 1, 4095, 4096, 4097, 8999])
def test_q2_the_first_null_may_come_in_any_part(first_null: int) -> None:
    x = pa.array([None if i == first_null else i for i in range(9000)])
    for n_drivers in (1, 2, 4):
        check_kept(pa.table({"x": x, "y": x.cast(pa.string())}), n_drivers)


@pytest.mark.each_value
@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("n_rows", [1, 7, 9001, 40_003])
def test_q2_every_type_of_several_drivers_in_one_store(type: pa.DataType, n_rows: int) -> None:
    """Each row of the build side is found by its number. A part begins at any bit of a validity bitmap."""
    for null_share, n_drivers in ((0.0, 2), (0.3, 3)):
        table = random_table(54, n_rows, {"x": type}, null_share=null_share)
        table = table.append_column("row", pa.array(np.arange(n_rows) * 2**40))
        probe = pa.table({"id": table["row"]})
        batches = hash_join(probe, table, "inner", ["id"], ["row"], n_drivers, 1000)
        assert_same_rows(pa.Table.from_batches(batches).select(["x", "row"]), table)


def test_the_rows_of_the_largest_part_are_not_copied() -> None:
    """The others go behind them. Before, all rows went to a store of their own, and were in memory twice."""
    n_rows = 600_000
    build = pa.table({"k": np.arange(n_rows) * 2**40, **{f"x{i}": np.arange(n_rows) for i in range(29)}})
    parts = [build.slice(0, 500_000), build.slice(500_000)]
    memory = Account()
    bridge = JoinBridge("inner", 2, 1, False, build.schema, pa.schema([("id", pa.int64())]))
    run_together(
        [partial(run_chain, [HashBuild("build", memory, bridge, ["k"], [f"x{i}" for i in range(29)])], part)
         for part in parts]
    )
    # Capacity doubles: there is space for 524,288, 131,072 and then for 1,048,576 rows of 240 bytes.
    assert memory.peak_bytes < (1_048_576 + 131_072) * 240 * 1.2
    probe = HashProbe("probe", memory, bridge, ["id"], [("build", "x0", "x0"), ("build", "x28", "x28")])
    got = pa.Table.from_batches(run_chain([probe], pa.table({"id": build["k"]})))
    assert got["x0"].to_pylist() == got["x28"].to_pylist() == list(range(n_rows))


def test_q2_rows_after_the_last_null_are_valid() -> None:
    """The last byte of a bitmap is written, whatever the memory held before."""
    ids = pa.array(np.arange(40_003) * 2**40)
    for first_nulls in (40_003, 1):
        x = pa.array(np.arange(40_003), mask=np.arange(40_003) < first_nulls)
        build = pa.table({"k": ids, "x": x})
        batches = hash_join(pa.table({"id": ids}), build, "inner", ["id"], ["k"], 2, 1000)
        assert sum(batch["x"].null_count for batch in batches) == first_nulls


@pytest.mark.parametrize("type", ENCODED_TYPES, ids=str)
def test_q2_dictionaries(type: pa.DataType) -> None:
    table = random_table(53, 7000, {"x": type}, n_distinct=30).append_column("row", pa.array(range(7000)))
    got = run_chain([OrderBy("sort", Account(), [("row", True, False)])], table)
    assert_same_rows(got, plain(table).take(pa.array(range(6999, -1, -1))), ordered=True)


@pytest.mark.parametrize("every", [1, 3, 5, 100, 3000])
def test_q2_strings_of_few_rows_out_of_many_are_copied(every: int) -> None:
    """Copied strings are in the store. Strings that were not copied are in their batch."""
    n = 60_000
    words = pa.array([None if i % 7 == 3 else f"a text of more than twelve bytes {i}" for i in range(n)])
    table = pa.table({"i": np.arange(n), "s": words})
    for source in (table, table.set_column(1, "s", pc.dictionary_encode(words))):
        got = qcore.sql(
            f"select i, s from t where i % {every} = 0 order by i desc", {"t": source}, threads=1
        ).to_arrow()
        rows = range((n - 1) // every * every, -1, -every)
        assert_same_rows(got, table.take(pa.array(rows)), ordered=True)
