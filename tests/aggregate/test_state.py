"""States of every kind and type: updated, returned as columns, merged and emptied. SPEC Q2, Q3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, present

from random_tables import DECIMALS, FLOATS, INTEGERS, KEY_TYPES, SIZES, random_table
from sweeps import every


def least(values: list[Any]) -> Any:
    return min(present(values), default=None)


def greatest(values: list[Any]) -> Any:
    return max(present(values), default=None)


def first(values: list[Any]) -> Any:
    return next(iter(present(values)), None)


def last(values: list[Any]) -> Any:
    return next(reversed(present(values)), None)


def n_present(values: list[Any]) -> int:
    return len(present(values))


def calls(x: int, type: pa.DataType) -> list[Call]:
    kinds = [("min", least), ("max", greatest), ("first", first), ("last", last)]
    return [Call(name, x, type, oracle) for name, oracle in kinds] + [Call("count", x, pa.int64(), n_present)]


@pytest.mark.each_value
@pytest.mark.parametrize("type", every(2, [*KEY_TYPES, pa.null()]), ids=str)
@pytest.mark.parametrize("n_rows", [*SIZES, 9000])
def test_q2_every_type_out_of_states_of_eight_or_sixteen_bytes(type: pa.DataType, n_rows: int) -> None:
    """The number of groups exceeds the first capacity. Many groups have no value."""
    table = random_table(21, n_rows, {"x": type}, null_share=0.5)
    table = table.add_column(0, "k", pa.array(np.arange(n_rows) * 3 // 4))
    check(table, 1, calls(1, type))
    check(table, 1, calls(1, type), ["both"], partial_groups_max=2048)


@pytest.mark.each_value
@pytest.mark.parametrize("type", [*INTEGERS, *FLOATS, *DECIMALS, pa.bool_(), pa.string()], ids=str)
@pytest.mark.parametrize("n_full", [0, 1, 64, 2048, 5000])
def test_q2_the_first_null_may_come_late(type: pa.DataType, n_full: int) -> None:
    """Validity of states is allocated when the first null comes. It is then right for old and new groups."""
    full = random_table(22, n_full, {"x": type}, null_share=0.0)
    rest = random_table(23, 3000, {"x": type}, null_share=0.6)
    table = pa.concat_tables([full, rest])
    table = table.add_column(0, "k", pa.array(np.arange(table.num_rows) // 2))
    check(table, 1, calls(1, type))


def test_q2_groups_that_only_a_filter_leaves_empty() -> None:
    table = pa.table({"k": np.arange(6000) // 3, "x": np.arange(6000), "p": np.arange(6000) % 6 < 3})
    check(table, 1, [
        Call("sum", 1, pa.decimal128(38, 0), lambda values: sum(values) if values else None, 2),
        Call("min", 1, pa.int64(), least, 2),
        Call("count", 1, pa.int64(), n_present, 2),
        Call("last", 1, pa.int64(), last, 2),
    ])  # fmt: skip


@pytest.mark.parametrize("value", [0, 1, -1, 2**63 - 1, -(2**63), 2**63, 2**100])
def test_q3_sums_travel_narrow_or_wide(value: int) -> None:
    """A column of sums that fit 64 bits is sent as such. The largest sums of both widths do not change."""
    from decimal import Decimal

    x = pa.array([Decimal(value), Decimal(value), None], pa.decimal128(38, 0))
    check(pa.table({"k": [1, 2, 3], "x": x}), 1, calls(1, x.type))
