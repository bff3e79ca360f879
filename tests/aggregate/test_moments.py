"""Count, mean and squared distances by group, against exact fractions. SPEC Q2."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, present

from random_tables import SIZES, random_table


def variance(values: list[Any], lost: int) -> float | None:
    exact = [Fraction(value) for value in present(values)]
    if len(exact) <= lost:
        return None
    mean = Fraction(sum(exact), len(exact))
    return float(sum((value - mean) ** 2 for value in exact) / (len(exact) - lost))


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def calls(x: int, filter: int) -> list[Call]:
    oracles = {
        "var_samp": lambda values: variance(values, 1),
        "var_pop": lambda values: variance(values, 0),
        "stddev_samp": lambda values: root(variance(values, 1)),
        "stddev_pop": lambda values: root(variance(values, 0)),
    }
    return [Call(name, x, pa.float64(), oracle, at) for name, oracle in oracles.items() for at in (-1, filter)]


TYPES = [pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(15, 2), pa.decimal128(30, 4)]


@pytest.mark.each_value
@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("n_rows", SIZES)
def test_q2_every_number_type(type: pa.DataType, n_rows: int) -> None:
    types = {"k": pa.int16(), "x": type, "p": pa.bool_()}
    table = random_table(7, n_rows, types, null_share=0.3, n_distinct={"k": 80})
    check(table, 1, calls(1, 2))
    check(table.drop(["k"]), 0, calls(0, 1))


def test_q2_large_means_do_not_cancel_within_a_state_nor_between_two() -> None:
    for low, high in ((1e5, 1e5), (1e5, -1e5)):
        x = np.concatenate([np.full(1000, low), np.full(1000, high)]) + np.arange(2000) % 2
        table = pa.table({"k": np.arange(2000) % 3, "x": x, "p": np.arange(2000) % 5 > 0})
        check(table, 1, calls(1, 2))


def test_q2_the_largest_unsigned_integers_are_not_negative() -> None:
    table = pa.table({"x": pa.array([2**64 - 1, 2**63, 0], pa.uint64()), "p": [True] * 3})
    check(table, 0, calls(0, 1))
