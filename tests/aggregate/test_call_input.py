"""The rows that an aggregate call counts: filters, null arguments, and DISTINCT. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, hashable, present

from random_tables import SIZES, random_table

COUNT = pa.int64()


def n_present(values: list[Any]) -> int:
    return len(present(values))


def n_null(values: list[Any]) -> int:
    return len(values) - len(present(values))


def n_pairs(pairs: list[Any]) -> int:
    return sum(None not in pair for pair in pairs)


def n_distinct(values: list[Any]) -> int:
    return len({hashable(value) for value in present(values)})


def n_distinct_pairs(pairs: list[Any]) -> int:
    return len({pair for pair in pairs if None not in pair})


def sum_distinct(values: list[Any]) -> Any:
    return sum(set(present(values))) if present(values) else None


def median(pairs: list[Any]) -> float | None:
    values = present([value for value, _ in pairs])
    return float(np.median(values)) if values else None


def total(values: list[Any]) -> Any:
    return sum(present(values)) if present(values) else None


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [*SIZES, 63, 64, 65, 5000])
@pytest.mark.parametrize("null_share", [0.0, 0.4])
@pytest.mark.parametrize("n_keys", [0, 1])
def test_q2_rows_that_take_part(n_rows: int, null_share: float, n_keys: int) -> None:
    """Sizes within one 64-bit word of the mask and beyond."""
    types = {"k": pa.int8(), "x": pa.int32(), "y": pa.string(), "p": pa.bool_()}
    table = random_table(9, n_rows, types, null_share=null_share, n_distinct={"k": 4, "x": 20})
    table = table if n_keys else table.drop(["k"])
    x, y, p = n_keys, n_keys + 1, n_keys + 2
    calls = [
        call
        for filter in (-1, p)
        for call in (
            Call("count", -1, COUNT, len, filter),
            Call("count", x, COUNT, n_present, filter),
            Call("count_null", x, COUNT, n_null, filter),
            Call("count_null", y, COUNT, n_null, filter),
            Call("count", (x, y), COUNT, n_pairs, filter),
        )
    ]
    check(table, n_keys, calls)
    distinct = [
        call
        for filter in (-1, p)
        for call in (
            Call("count", x, COUNT, n_distinct, filter, True),
            Call("count", y, COUNT, n_distinct, filter, True),
            Call("count", (x, y), COUNT, n_distinct_pairs, filter, True),
            Call("sum", x, pa.decimal128(38, 0), sum_distinct, filter, True),
        )
    ]
    check(table, n_keys, distinct, ["single"])


@pytest.mark.parametrize(
    "type", [pa.bool_(), pa.uint8(), pa.int16(), pa.float32(), pa.float64(), pa.decimal128(30, 2), pa.binary()], ids=str
)
def test_q2_each_value_once_of_every_width(type: pa.DataType) -> None:
    table = random_table(10, 7000, {"k": pa.int8(), "x": type}, null_share=0.2, n_distinct={"k": 9, "x": 300})
    check(table, 1, [Call("count", 1, COUNT, n_distinct, distinct=True)], ["single"])


def test_q2_values_met_in_one_group_are_new_in_another() -> None:
    table = pa.table({"k": [1, 1, 2, 2, 1, 3], "x": [5, 5, 5, 5, 5, None]})
    check(table, 1, [Call("count", 1, COUNT, n_distinct, distinct=True)], ["single"])


@pytest.mark.parametrize("n_rows", [2048, 5003])
@pytest.mark.parametrize("taken", [0, 1, 511, 512, 513, 2048])
@pytest.mark.parametrize("n_groups", [64, 65, 700])
def test_q2_few_rows_that_take_part(n_rows: int, taken: int, n_groups: int) -> None:
    """Of each 2,048 rows `taken` have an argument; up to a quarter of them is gathered, above 64 groups."""
    rng = np.random.default_rng(taken)
    keys = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n_rows)])
    n = len(keys)
    places = np.arange(n) % 2048
    absent = rng.permutation(2048)[places] >= taken
    numbers = rng.integers(-(10**9), 10**9, n)
    table = pa.table({
        "k": keys,
        "x": pa.array(numbers, mask=absent),
        "f": pa.array(numbers / 8, mask=absent),
        "s": pa.array([f"text {number % 97}" for number in numbers], pa.string(), mask=absent),
        "y": pa.array(rng.integers(0, 50, n), mask=rng.random(n) < 0.1),
        "p": pa.array(~absent),
    })
    x, f, s, y, p = range(1, 6)
    wide = pa.decimal128(38, 0)
    check(table, 1, [
        Call("sum", x, wide, total),
        Call("sum", f, pa.float64(), total),
        Call("min", x, COUNT, lambda values: min(present(values), default=None)),
        Call("max", s, pa.string(), lambda values: max(present(values), default=None)),
        Call("first", s, pa.string(), lambda values: next(iter(present(values)), None)),
        Call("count", x, COUNT, n_present),
        Call("count_null", x, COUNT, n_null),
        Call("count", (x, y), COUNT, n_pairs),
        Call("count", -1, COUNT, len, p),
        Call("sum", y, wide, total, p),
    ])
    check(table, 1, [
        Call("count", y, COUNT, n_distinct, p, True),
        Call("quantile_cont", (f, f), pa.float64(), median, more=(((False, False),), 0.5)),
        Call("sum", x, wide, total),
    ], steps=("single",))
