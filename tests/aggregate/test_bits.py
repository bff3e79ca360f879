"""Bitwise and, or and exclusive or by group, against Python's operators. SPEC Q2."""

from __future__ import annotations

import functools
import operator

import pyarrow as pa
import pytest
from grouped import Call, check, present

from random_tables import INTEGERS, SIZES, random_table

OPERATORS = {"bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor}


def calls(argument: int, filter: int, type: pa.DataType) -> list[Call]:
    def call(name: str, filter: int) -> Call:
        step = OPERATORS[name]
        return Call(
            name,
            argument,
            type,
            lambda values: functools.reduce(step, present(values)) if present(values) else None,
            filter,
        )

    return [call(name, at) for name in OPERATORS for at in (-1, filter)]


@pytest.mark.each_value
@pytest.mark.parametrize("type", INTEGERS, ids=str)
@pytest.mark.parametrize("n_rows", SIZES)
def test_q2_every_integer_type(type: pa.DataType, n_rows: int) -> None:
    types = {"k": pa.int16(), "x": type, "p": pa.bool_()}
    table = random_table(1, n_rows, types, null_share=0.3, n_distinct={"k": 90}, extremes=True)
    check(table, 1, calls(1, 2, type))
    check(table.drop(["k"]), 0, calls(0, 1, type))


def test_q2_groups_without_a_value_are_null() -> None:
    table = pa.table({"k": [1, 1, 2], "x": pa.array([None, None, 5]), "p": [True, True, False]})
    check(table, 1, calls(1, 2, pa.int64()))
