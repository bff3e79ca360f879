"""Counts and sums by group: few and many groups, masks, values near the ends of 64 and 128 bits. SPEC Q2."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from grouped import Call, check, present, run_calls

from qcore.errors import ExecutionError
from random_tables import SIZES, random_table

WIDE = pa.decimal128(38, 0)


def total(values: list[Any]) -> Any:
    with decimal.localcontext(prec=60):
        return sum(present(values)) if present(values) else None


def exact_total(values: list[Any]) -> Any:
    return math.fsum(present(values)) if present(values) else None


def calls(x: int, filter: int, exact: bool) -> list[Call]:
    oracle, type = (total, WIDE) if exact else (exact_total, pa.float64())
    return [Call("sum", x, type, oracle), Call("sum", x, type, oracle, filter), *counts(x, filter)]


def counts(x: int, filter: int) -> list[Call]:
    return [
        Call(function, argument, pa.int64(), oracle, at)
        for at in (-1, filter)
        for function, argument, oracle in (
            ("count", -1, len),
            ("count", x, lambda values: len(present(values))),
            ("count_null", x, lambda values: len(values) - len(present(values))),
        )
    ]


# One group; few groups, which have several copies of the sums; the largest such number; many groups.
@pytest.mark.each_value
@pytest.mark.parametrize("n_groups", [0, 1, 5, 64, 65, 700])
@pytest.mark.parametrize("n_rows", [*SIZES, 5003])
@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_q2_groups_few_and_many(n_groups: int, n_rows: int, null_share: float) -> None:
    rng = np.random.default_rng(3)
    types = {"i": pa.int64(), "u": pa.uint64(), "f": pa.float64(), "p": pa.bool_()}
    table = random_table(2, n_rows, types, null_share=null_share, extremes=False)
    table = table.set_column(0, "i", pa.array(rng.integers(-1000, 1000, n_rows), mask=rng.random(n_rows) < null_share))
    n_keys = int(n_groups > 0)
    if n_keys:
        table = table.add_column(0, "k", pa.array(rng.integers(0, n_groups, n_rows).astype(np.int32)))
    check(table, n_keys, [*calls(n_keys, n_keys + 3, True), *calls(n_keys + 1, n_keys + 3, True)])
    check(table, n_keys, calls(n_keys + 2, n_keys + 3, False))


ENDS = {
    pa.int64(): [2**63 - 1, -(2**63), 2**52, -(2**52), 2**52 - 1, 1],
    pa.uint64(): [2**64 - 1, 2**63, 2**52, 2**52 - 1, 1, 0],
    pa.decimal128(30, 0): [Decimal(10**29), Decimal(-(10**29)), Decimal(2**63), Decimal(-(2**63) - 1), Decimal(1)],
}


@pytest.mark.each_value
@pytest.mark.parametrize("type", ENDS, ids=str)
@pytest.mark.parametrize("n_groups", [0, 1, 3, 100])
@pytest.mark.parametrize("step", ["single", "both"])
def test_q2_values_near_the_ends(type: pa.DataType, n_groups: int, step: str) -> None:
    """A vector is summed in 64 bits only if its values are below 2**52. Larger values need up to 75 bits."""
    rng = np.random.default_rng(4)
    for given in (ENDS[type], ENDS[type][:1], ENDS[type][2:3], ENDS[type][-2:]):
        values = [given[i] for i in rng.integers(0, len(given), 4100)]
        table = pa.table({"x": pa.array(values, type), "p": pa.array(rng.random(4100) < 0.7)})
        if n_groups:
            table = table.add_column(0, "k", pa.array(np.arange(4100) * 7 % n_groups))
        n_keys = int(n_groups > 0)
        check(table, n_keys, calls(n_keys, n_keys + 1, True), [step])


@pytest.mark.each_value
@pytest.mark.parametrize("type", [pa.int64(), pa.uint64(), pa.decimal128(30, 0), pa.decimal128(12, 2)], ids=str)
@pytest.mark.parametrize("n_groups", [0, 1, 3, 100, 3000])
@pytest.mark.parametrize("bits", [39, 51, 52, 62])
@pytest.mark.parametrize("null_share", [0.0, 0.3])
def test_q2_sums_become_wide_when_they_must(type: pa.DataType, n_groups: int, bits: int, null_share: float) -> None:
    """Sums begin with 64 bits. In the second half one vector after another adds up to 2**bits a row to one group."""
    if pa.types.is_decimal(type) and type.precision == 12:
        bits = min(bits, 39)
    rng = np.random.default_rng(5)
    small, large = rng.integers(-1000, 1000, 6000), np.full(6000, 2**bits - 1) - rng.integers(0, 2, 6000)
    if pa.types.is_unsigned_integer(type):
        small = abs(small)
    values = [int(value) for value in np.concatenate([small, large])]
    made = pa.array(
        [Decimal(value).scaleb(-type.scale) if pa.types.is_decimal(type) else value for value in values], type
    )
    missing = pa.array(rng.random(12_000) < null_share)
    table = pa.table({"x": pc.if_else(missing, pa.scalar(None, type), made), "p": pa.array(rng.random(12_000) < 0.7)})
    if n_groups:
        keys = np.concatenate([rng.integers(0, n_groups, 6000), np.zeros(6000, np.int64)])
        table = table.add_column(0, "k", pa.array(keys))
    n_keys = int(n_groups > 0)
    wide = pa.decimal128(38, type.scale) if pa.types.is_decimal(type) else WIDE
    made_calls = [
        Call("sum", n_keys, wide, total),
        Call("sum", n_keys, wide, total, n_keys + 1),
        *counts(n_keys, n_keys + 1),
    ]
    check(table, n_keys, made_calls)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n_keys", [0, 1])
def test_q2_a_sum_past_38_digits_is_an_error(sign: int, n_keys: int) -> None:
    largest = sign * (10**38 - 1)
    calls = [Call("sum", n_keys, WIDE, total)]
    for values, fits in (([largest, 0], True), ([largest, sign], False), ([largest, sign, -sign], False)):
        table = pa.table({"x": pa.array([Decimal(value) for value in values], WIDE)})
        if n_keys:
            table = table.add_column(0, "k", pa.array([1] * len(values)))
        if fits:
            check(table, n_keys, calls)
        else:
            with pytest.raises(ExecutionError, match="38 digits"):
                run_calls(table, n_keys, calls)


@pytest.mark.parametrize("n_groups", range(2, 18))
def test_q2_few_groups_of_values_that_fit_32_bits_and_of_others(level: int, n_groups: int) -> None:
    """Up to 16 groups have sums in registers, of 32 bits if the values of a vector are below 2**24 in magnitude."""
    rng = np.random.default_rng(n_groups)
    most = 2**24 - 1
    for n_rows in (2048, 2047, 1, 15, 17, 63, 65, 4103):
        for values in (
            np.full(n_rows, most),                      # the largest sums
            np.full(n_rows, -most - 1),
            np.full(n_rows, 2 * most),
            np.where(np.arange(n_rows) == n_rows - 1, 2**31, 7),    # seen by the last row only
            np.where(np.arange(n_rows) % 40 == 39, -(2**24) - 1, 7),
            rng.integers(-most, most, n_rows),
        ):
            keys = rng.integers(0, n_groups, n_rows)
            if n_rows == 2048:
                keys[:] = 0                             # one group has all rows of the vector
                keys[-n_groups:] = np.arange(n_groups)
            table = pa.table({"k": keys, "v": values, "p": rng.random(n_rows) < 0.7})
            check(table, 1, [*calls(1, 2, True)[:2], *counts(1, 2)], ["single"])
