"""Groups are numbered in the order in which their keys first occur, in every kind of table. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check

from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import SIZES, random_table

KEYS = {
    "one word": [pa.int64()],
    "two words": [pa.int64(), pa.int32()],
    "one string of two words": [pa.string()],
    "stored": [pa.int64(), pa.int64(), pa.int64()],
    "stored strings": [pa.string(), pa.binary(), pa.float64()],
}


def rows(x: int) -> list[Call]:
    """The row numbers of each group, in order."""
    return [Call("count", -1, pa.int64(), len), Call("min", x, pa.int64(), min), Call("max", x, pa.int64(), max)]


def number_rows(table: pa.Table) -> pa.Table:
    return table.append_column("row", pa.array(np.arange(table.num_rows)))


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 30_000])
@pytest.mark.parametrize("n_distinct", [3, 70, None])
@pytest.mark.parametrize("name", KEYS)
def test_q2_few_keys_and_many(name: str, n_distinct: int | None, n_rows: int) -> None:
    types = {f"k{i}": type for i, type in enumerate(KEYS[name])}
    table = number_rows(random_table(11, n_rows, types, null_share=0.1, n_distinct=n_distinct, extremes=True))
    check(table, len(types), rows(len(types)), radix_groups_min=1 << 40)


@pytest.mark.parametrize("name", KEYS)
def test_q2_a_key_met_twice_in_one_vector_that_is_new(name: str) -> None:
    """One vector has the first rows of groups and more rows of the same groups while the slots are doubled."""
    keys = np.repeat(np.arange(20_000), 2)
    np.random.default_rng(12).shuffle(keys[:4096])
    columns: list[Any] = []
    for type in KEYS[name]:
        if pa.types.is_integer(type):
            columns.append(pa.array(keys * 1_000_003 % 2**31).cast(type))
        elif pa.types.is_floating(type):
            columns.append(pa.array(keys / 8))
        else:
            columns.append(
                pa.array([f"{key:05d}" if name.startswith("one") else f"key {key:012d}" for key in keys], type)
            )
    table = number_rows(pa.table(columns, [f"k{i}" for i in range(len(columns))]))
    check(table, len(columns), rows(len(columns)), ["single"], radix_groups_min=1 << 40)


@pytest.mark.parametrize("n_before", [0, 5, 2048, 20_000])
@pytest.mark.parametrize("name", ["one word", "two words", "one string of two words"])
def test_q2_keys_with_the_first_null_late(name: str, n_before: int, level: int) -> None:
    """The null masks of the groups are made with the first null. A null differs from the zero that stands for it."""
    types = {f"k{i}": type for i, type in enumerate(KEYS[name])}
    before = random_table(15, n_before, types, null_share=0, n_distinct=3000, extremes=True)
    after = random_table(16, 9000, types, null_share=0.2, n_distinct=3000, extremes=True)
    zeros = pa.table({column: pa.array(["" if type == pa.string() else 0], type) for column, type in types.items()})
    table = number_rows(pa.concat_tables([before, zeros, after, zeros]).combine_chunks())
    check(table, len(types), rows(len(types)), radix_groups_min=1 << 40)


@pytest.mark.parametrize("n_before", [0, 1, 2047, 2048, 2049, 9000])
@pytest.mark.parametrize("n_columns", [1, 2])
def test_q2_packed_keys_become_stored_ones_and_keep_their_numbers(n_before: int, n_columns: int) -> None:
    short = [None, *(f"{i:06d}" for i in range(n_before))][:n_before]
    words = [*short, "longer than any that packs", *reversed(short), "ab", None]
    table = pa.table({"k": words, "j": pa.array([i % 3 for i in range(len(words))], pa.int8())})
    table = number_rows(table if n_columns == 2 else table.drop(["j"]))
    check(table, n_columns, rows(n_columns), ["single"], radix_groups_min=1 << 40)


@pytest.mark.parametrize("name", KEYS)
def test_q2_a_table_that_was_emptied_starts_anew(name: str) -> None:
    """The partial step returns its groups when the table is full. Later rows with the same keys begin new groups."""
    types = {f"k{i}": type for i, type in enumerate(KEYS[name])}
    table = number_rows(random_table(13, 40_000, types, n_distinct={"k0": 4000} | {n: 2 for n in types if n != "k0"}))
    check(table, len(types), rows(len(types)), ["both"], partial_groups_max=4096, radix_groups_min=1 << 40)


def test_ascending_keys_with_gaps_keep_the_slots_small() -> None:
    """The array of codes spans no gap: the groups before it go to slots, and each time the table is full it is emptied.

    The slots were doubled each time. TPC-H Q18 at scale 10 took gigabytes when one driver fell behind.
    """
    keys = np.repeat(np.arange(40)[:, None] * 1_000_000 + np.arange(3000)[None, :], 4, axis=1).ravel()
    memory = Account()
    schema = Schema(pa.schema([("k", pa.int64()), ("n", pa.int64())]))
    operator = HashAggregation("agg", memory, None, 1, [("count", -1, -1, False)], "partial", schema, 4096)
    got = pa.Table.from_batches(run_chain([operator], pa.table({"k": keys})))
    assert got.group_by("k").aggregate([("n", "sum")]).sort_by("k")["n_sum"].to_pylist() == [4] * 120_000
    assert operator.stats_snapshot()["groups"]["table"] > 0
    assert memory.peak_bytes < 1 << 24
