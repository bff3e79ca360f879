"""Least, greatest, first and last values by group, against Python's min and max. SPEC Q2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, present

from random_tables import KEY_TYPES, SIZES, random_table


def order(value: Any) -> Any:
    """A sort key: NaN is greater than every other float."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def least(values: list[Any]) -> Any:
    return min(present(values), key=order, default=None)


def greatest(values: list[Any]) -> Any:
    return max(present(values), key=order, default=None)


def first(values: list[Any]) -> Any:
    return next(iter(present(values)), None)


def last(values: list[Any]) -> Any:
    return next(reversed(present(values)), None)


ORACLES = {"min": least, "max": greatest, "first": first, "last": last, "any_value": first}


def calls(x: int, type: pa.DataType, filter: int) -> list[Call]:
    return [Call(name, x, type, oracle, at) for name, oracle in ORACLES.items() for at in (-1, filter)]


@pytest.mark.each_value
@pytest.mark.parametrize("type", KEY_TYPES, ids=str)
@pytest.mark.parametrize("n_rows", SIZES)
def test_q2_every_type(type: pa.DataType, n_rows: int) -> None:
    types = {"k": pa.int16(), "x": type, "p": pa.bool_()}
    table = random_table(5, n_rows, types, null_share=0.3, n_distinct={"k": 60}, extremes=True)
    check(table, 1, calls(1, type, 2))
    check(table.drop(["k"]), 0, calls(0, type, 1))


@pytest.mark.parametrize("values", [
    [-(2**63), 2**63 - 1], [2**63 - 1], [-(2**63)], [0.0, math.nan], [math.nan], [math.inf, -math.inf],
    [-math.inf], [math.inf], [math.inf, math.nan],
], ids=str)  # fmt: skip
def test_q2_the_ends_of_a_type_are_values(values: list[Any]) -> None:
    """The values equal the initial values of states."""
    x = pa.array([*values, None])
    for turned in (x, x.take(pa.array(range(len(x) - 1, -1, -1)))):
        check(pa.table({"k": [1] * len(x), "x": turned, "p": [True] * len(x)}), 1, calls(1, x.type, 2))


def test_q2_strings_that_grow_and_shrink() -> None:
    """A new string reuses the bytes of the old one only if it fits. Strings of other groups do not change."""
    rng = np.random.default_rng(6)
    lengths = [0, 3, 11, 12, 13, 14, 40, 41, 200]
    words = ["abz"[i] + "mno"[j] * length for i, j, length in zip(
        rng.integers(0, 3, 6000), rng.integers(0, 3, 6000), rng.choice(lengths, 6000), strict=True
    )]  # fmt: skip
    for type in (pa.string(), pa.binary()):
        x = pa.array(words).cast(type)
        table = pa.table({"k": pa.array(np.arange(6000) % 7), "x": x, "p": pa.array(rng.random(6000) < 0.5)})
        check(table, 1, calls(1, type, 2))
    prefixes = pa.table({"k": [0] * 4, "x": ["ab", "a", "abc", "ab\0"], "p": [True] * 4})
    check(prefixes, 1, calls(1, pa.string(), 2))
