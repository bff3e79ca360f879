"""Rows partitioned by hash, and groups that move to partitions, compared with one table. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, run_calls

from oracle import assert_same_rows
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import KEY_TYPES, random_table
from sweeps import every

SUM = pa.decimal128(38, 2)


def nothing(values: list[Any]) -> None:
    """Compute no oracle: the results are compared with those of one table, which test_group_table.py tests."""


def compare(table: pa.Table, n_keys: int, calls: list[Call], radix_groups_min: int) -> None:
    wanted = run_calls(table, n_keys, calls, radix_groups_min=1 << 40)
    for step in ("single", "both"):
        assert_same_rows(run_calls(table, n_keys, calls, step, radix_groups_min=radix_groups_min), wanted)


def calls(x: int, type: pa.DataType) -> list[Call]:
    names = {"min": type, "max": type, "first": type, "last": type, "count": pa.int64(), "count_null": pa.int64()}
    return [Call("count", -1, pa.int64(), nothing), *(Call(name, x, out, nothing) for name, out in names.items())]


@pytest.mark.parametrize("type", every(3, KEY_TYPES), ids=str)
def test_q2_columns_of_every_type_are_scattered(type: pa.DataType) -> None:
    """The first vectors have no nulls. The validity of waiting rows is allocated when nulls come."""
    full = random_table(31, 6000, {"k": pa.int64(), "x": type}, null_share=0.0, n_distinct={"k": 3000}, extremes=True)
    rest = random_table(31, 9000, {"k": pa.int64(), "x": type}, null_share=0.4, n_distinct={"k": 3000}, extremes=True)
    table = pa.concat_tables([full, rest])
    compare(table, 1, calls(1, type), 1000)
    compare(table.select(["x", "k"]), 1, calls(1, pa.int64()), 1)


def test_q2_columns_of_nulls_are_scattered() -> None:
    """A column of the null type has a validity and no values."""
    k = np.arange(9000) % 3000
    table = pa.table({"k": k, "x": pa.nulls(9000), "y": pa.array(k % 5, mask=k % 7 == 0)})
    counts = [Call("count", 1, pa.int64(), nothing), Call("count", 2, pa.int64(), nothing)]
    compare(table, 1, counts, 1000)
    keys = pa.table({"x": pa.nulls(9000), "n": pa.nulls(9000)})
    compare(keys, 1, [Call("count", 1, pa.int64(), nothing), Call("count", -1, pa.int64(), nothing)], 1)


@pytest.mark.parametrize("n_rows", [2047, 2048, 2049, 300_000])
@pytest.mark.parametrize("text", ["a long text of", "t"])
def test_q2_full_parts_are_taken_in(n_rows: int, text: str) -> None:
    """Most rows have one key. The buffer of its part becomes full often, also within a vector.

    The rows of a vector with long strings are always counted, those of others only if a buffer may be full.
    """
    rng = np.random.default_rng(32)
    k = np.where(rng.random(n_rows) < 0.8, 7, rng.integers(0, 4000, n_rows) * 1_000_003)
    s = pa.array([None if v % 11 == 0 else f"{text} {v}" for v in k])
    w = pa.array(rng.integers(-(2**62), 2**62, n_rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(30, 2))
    table = pa.table({"k": k, "j": s, "x": rng.integers(0, 100, n_rows), "w": w})
    sums = [
        Call("sum", 2, pa.decimal128(38, 0), nothing),
        Call("sum", 3, SUM, nothing),
        Call("min", 1, pa.string(), nothing),
    ]
    compare(table, 2, sums, 500)


def test_q2_groups_that_move_keep_their_states() -> None:
    """Moments have three columns of state, comoments six. Each state stays with its key."""
    rng = np.random.default_rng(33)
    k = np.concatenate([np.arange(5000), rng.permutation(5000)])
    table = pa.table({"k": k, "x": rng.random(10_000), "y": rng.random(10_000), "n": pa.array(k % 7, pa.int8())})
    kinds = [Call(name, (1, 2), pa.float64(), nothing) for name in ("covar_pop", "regr_avgx", "regr_avgy")]
    kinds += [Call("var_pop", 1, pa.float64(), nothing), Call("count", -1, pa.int64(), nothing)]
    kinds += [Call("avg", 3, pa.float64(), nothing), Call("sum", 1, pa.float64(), nothing)]
    compare(table, 1, kinds, 4000)


def test_q2_several_keys_and_a_narrow_decimal_go_to_one_part_each() -> None:
    types = {"a": pa.decimal128(30, 2), "b": pa.string(), "c": pa.int32(), "x": pa.int64()}
    table = random_table(34, 20_000, types, n_distinct={"a": 20, "b": 10, "c": 20})
    compare(table, 3, calls(3, pa.int64()), 300)


def test_q2_buffers_grow_with_the_groups() -> None:
    """Each part gets more groups than a quarter of its first buffer. It then grows, with nulls in it and without."""
    rng = np.random.default_rng(35)
    n_rows = 1_300_000
    k = rng.permutation(n_rows) % 900_000 * 1_000_003
    x = pa.array(rng.integers(0, 100, n_rows), mask=(np.arange(n_rows) < 400_000) & (k % 5 == 0))
    table = pa.table({"k": k, "x": x})
    calls = [Call("count", 1, pa.int64(), nothing), Call("sum", 1, pa.int64(), nothing)]
    got = run_calls(table, 1, calls, radix_groups_min=1000)
    wanted = table.group_by("k").aggregate([("x", "count"), ("x", "sum")])
    order = [got.sort_by(got.column_names[0]), wanted.select(["k", "x_count", "x_sum"]).sort_by("k")]
    assert order[0].columns == order[1].columns


@pytest.mark.parametrize("limit", [0, 400_000_000])
def test_q2_texts_fill_the_space_of_their_part(limit: int) -> None:
    """One key takes most rows. First its rows fill the part, then its texts, then one vector has too many of them.

    Under the limit there is no space for the texts of each part, so that all parts share one store.
    """
    rng = np.random.default_rng(36)
    tables = []
    for n_rows, length in ((40_000, 20), (40_000, 90), (10_000, 150), (3000, 5000), (40_000, 3), (30_000, 40)):
        k = np.where(rng.random(n_rows) < 0.8, 7, rng.integers(0, 3000, n_rows))
        j = pa.array([None if v % 11 == 0 else f"{v:x<{length}}" for v in k], pa.large_string())
        s = pa.array([None if v == 3 else f"{v:y>13}" for v in rng.integers(0, 50, n_rows)], pa.large_string())
        tables.append(pa.table({"k": k, "j": j, "s": s}))
    table = pa.concat_tables(tables)
    sums = [Call(name, 2, pa.large_string(), nothing) for name in ("min", "max")]
    sums.append(Call("count", 2, pa.int64(), nothing))
    wanted = run_calls(table, 2, sums, radix_groups_min=1 << 40)
    for step in ("single", "both"):
        assert_same_rows(run_calls(table, 2, sums, step, limit, radix_groups_min=500), wanted)


@pytest.mark.parametrize("n_rows", [9000, pytest.param(1_000_000, marks=pytest.mark.sweep)])
def test_q2_rows_with_two_texts_keep_their_hash(n_rows: int) -> None:
    """The hashes wait with the rows in the buffers of their parts, also in buffers that grow."""
    rng = np.random.default_rng(37)
    k = rng.permutation(n_rows) % (n_rows * 7 // 10)
    first = pa.array([None if v % 13 == 0 else f"the first text of {v % 1000}" for v in k.tolist()])
    second = pa.array([f"second {v // 1000:>12}" if v % 3 else f"{v:x}" for v in k.tolist()])
    table = pa.table({"a": first, "b": second, "x": rng.integers(0, 100, n_rows)})
    counts = [Call("count", -1, pa.int64(), nothing), Call("sum", 2, pa.int64(), nothing)]
    got = run_calls(table, 2, counts, radix_groups_min=1000)
    wanted = table.group_by(["a", "b"]).aggregate([([], "count_all"), ("x", "sum")])
    assert got.num_rows == wanted.num_rows
    joined = got.rename_columns(["a", "b", "n", "s"]).sort_by([("a", "ascending"), ("b", "ascending")])
    expected = wanted.select(["a", "b", "count_all", "x_sum"]).sort_by([("a", "ascending"), ("b", "ascending")])
    assert joined.columns == expected.columns


def test_rows_that_wait_become_groups_when_their_part_is_returned() -> None:
    """The groups of all parts were made first, so that each row of a key with one row was in memory twice.

    The buffers, which have space for two million rows, are the same for both tables.
    """
    schema = Schema(pa.schema([("k", pa.string()), ("l", pa.string()), ("n", pa.int64())]))
    peaks = {}
    for n in (50_000, 300_000):
        texts = [f"a text of some forty letters or so {row:09}" for row in range(n)]
        memory = Account()
        operator = HashAggregation(
            "agg", memory, None, 2, [("count", -1, -1, False)], "single", schema, radix_groups_min=1
        )
        counted = Schema(pa.schema([("n", pa.int64())]))
        count = HashAggregation("count", Account(), None, 0, [("count", -1, -1, False)], "single", counted)
        (batch,) = run_chain([operator, count], pa.table({"k": texts, "l": texts[::-1]}))
        assert batch["n"].to_pylist() == [operator.stats_snapshot()["groups"]["radix"]] == [n]
        peaks[n] = memory.peak_bytes
    # Keys and counts of 250,000 groups take 60 MB.
    assert peaks[300_000] - peaks[50_000] < 30_000_000, peaks
