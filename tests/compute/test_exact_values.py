"""Exact conversions of probe keys whose type differs from that of the join table. SPEC D6."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_testing.operators import run_chain
from random_tables import SIZES

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**6  # microseconds


def decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


# The table's type and keys, the probe's type and keys. Times are given as their stored integers.
CASES: dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any]]] = {
    "narrow integers": (
        pa.int8(), [0, 1, -1, 127, -128], pa.int64(), [0, 1, -1, 127, -128, 128, -129, 255, 256, 257, 2**40, None],
    ),
    "unsigned to signed": (pa.int8(), [0, 1, -1], pa.uint8(), [0, 1, 127, 128, 255]),
    "signed to unsigned": (pa.uint8(), [0, 1, 255], pa.int16(), [-256, -255, -1, 0, 1, 255, 256, 257, None]),
    "the ends of uint32": (
        pa.uint32(), [0, 1, 2**32 - 1], pa.int64(), [-1, 0, 2**31, 2**32 - 1, 2**32, 2**32 + 1, -(2**32)],
    ),
    "floats to integers": (
        pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31)], pa.float64(),
        [0.0, -0.0, 1.0, 1.5, -1.0, -0.5, 2.0**31 - 1, 2.0**31, -(2.0**31), 2.0**32 + 1, 2.0**63, -(2.0**63), 1e300,
         math.nan, math.inf, -math.inf, None],
    ),
    "floats to small integers": (pa.int16(), [0, 7, -7], pa.float32(), [0.0, 7.0, 7.25, -7.0, 65_543.0, 1e30]),
    "integers to floats": (
        pa.float64(), [0.0, 1.5, 1.0, 2.0**53], pa.int32(), [0, 1, 2, 2**31 - 1, None],
    ),
    "long integers to floats": (
        pa.float64(), [2.0**53, 2.0**53 + 2, -(2.0**53)], pa.int64(),
        [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53)],
    ),
    "double to single": (
        pa.float32(), [0.5, 1.0, 2.0**24], pa.float64(), [0.5, 0.1, 1.0, 1e300, 2.0**24, 2.0**24 + 1, None],
    ),
    "more digits after the point": (
        pa.decimal128(9, 2), decimals("1.00", "0.01", "-5.25", "9999999.99"), pa.decimal128(12, 4),
        decimals("1.0000", "1.0001", "0.0100", "0.0001", "-5.2500", "-5.2501", "9999999.9900", "9999999.9999"),
    ),
    "fewer digits after the point": (
        pa.decimal128(12, 4), decimals("1.0000", "1.0001", "-5.2500"), pa.decimal128(9, 2),
        decimals("1.00", "0.01", "-5.25", "9999999.99"),
    ),
    "wide decimals": (
        pa.decimal128(9, 2), decimals("1.00", "-0.50"), pa.decimal128(30, 4),
        decimals("1.0000", "-0.5000", "42949673.9600", "10000000001.0000", "18446744073709551617.0000", "0.0001"),
    ),
    "integers to decimals": (pa.decimal128(12, 2), decimals("1.00", "2.50", "-3.00"), pa.int32(), [1, 2, 250, -3, 0]),
    "decimals to integers": (
        pa.int32(), [1, -1, 0], pa.decimal128(12, 2),
        decimals("1.00", "1.01", "-1.00", "-0.01", "0.00", "4294967297.00"),
    ),
    "timestamps to days": (
        pa.date32(), [0, 1, -1], pa.timestamp("us"), [0, 1, DAY, DAY + 1, -DAY, -1, DAY - 1, DAY << 20, None],
    ),
    "days to timestamps": (pa.timestamp("us"), [0, 1, DAY, -DAY], pa.date32(), [0, 1, -1, 2]),
    "finer timestamps": (
        pa.timestamp("s"), [0, 1, -1], pa.timestamp("ns"), [0, 1, 10**9, 10**9 + 1, -(10**9), -1, 999_999_999],
    ),
    "coarser timestamps": (pa.timestamp("us"), [0, 1, 10**6], pa.timestamp("s"), [0, 1, 2**40, -1]),
    "times of day": (pa.time32("ms"), [0, 1, 86_399_999], pa.time64("us"), [0, 1, 1000, 1001, 86_399_999_000]),
    "durations": (pa.duration("ms"), [0, 1, -1], pa.duration("us"), [0, 1, 1000, 1001, -1000, -1]),
}  # fmt: skip


def keys(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An array of keys. Times are given as stored integers."""
    if pa.types.is_temporal(type_):
        return pa.array(values, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    return pa.array(values, type_)


def exact(value: Any, type_: pa.DataType) -> Any:
    """A key as a number that Python compares exactly. None: null, infinite or NaN, which match no key."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if pa.types.is_date32(type_):
        return Fraction(value * DAY * 1000)
    if pa.types.is_temporal(type_):
        return Fraction(value * NANOS[type_.unit])
    return Fraction(float(np.float32(value)) if type_ == pa.float32() else value)


def matches(table: pa.Array, probe: pa.Array) -> list[tuple[int, int]]:
    """The pairs of rows with equal keys. The probe side is declared with the type of the table."""
    build = pa.table({"b": table, "b_row": range(len(table))})
    declared = pa.schema([("p", table.type), ("p_row", pa.int64())])
    memory = Account()
    bridge = JoinBridge("inner", 1, 1, False, build.schema, declared)
    operator = HashProbe("probe", memory, bridge, ["p"], [("probe", "p_row", "p_row"), ("build", "b_row", "b_row")])
    run_chain([HashBuild("build", memory, bridge, ["b"], ["b_row"])], build)
    batches = run_chain([operator], pa.table({"p": probe, "p_row": range(len(probe))}))
    return sorted(
        pair for batch in batches for pair in zip(batch["p_row"].to_pylist(), batch["b_row"].to_pylist(), strict=True)
    )


def expected(table: list[Any], table_type: pa.DataType, probe: list[Any], probe_type: pa.DataType) -> list[Any]:
    rows = {exact(value, table_type): row for row, value in enumerate(table)}
    found = [(row, rows.get(exact(value, probe_type))) for row, value in enumerate(probe)]
    return [(row, match) for row, match in found if match is not None and exact(probe[row], probe_type) is not None]


@pytest.mark.parametrize("name", CASES)
def test_d6_only_equal_values_match(name: str) -> None:
    table_type, table, probe_type, probe = CASES[name]
    got = matches(keys(table, table_type), keys(probe, probe_type))
    assert got == expected(table, table_type, probe, probe_type)
    assert 0 < len(got) < len(probe)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("table_type", "probe_type"), [
    (pa.int16(), pa.int64()), (pa.int32(), pa.float64()), (pa.decimal128(9, 2), pa.decimal128(12, 4)),
    (pa.timestamp("s"), pa.timestamp("us")),
], ids=str)  # fmt: skip
def test_d6_sizes_around_a_vector(table_type: pa.DataType, probe_type: pa.DataType, n: int) -> None:
    """Every third key is null. Every second of the others is not a value of the table's type."""
    table = [Decimal(row).scaleb(-2) if pa.types.is_decimal(table_type) else row for row in range(100)]
    values: list[Any]
    if pa.types.is_decimal(probe_type):
        values = [Decimal(row % 100).scaleb(-2) + Decimal(row % 2).scaleb(-4) for row in range(n)]
    elif pa.types.is_temporal(probe_type):
        values = [(row % 100) * 10**6 + row % 2 for row in range(n)]
    elif pa.types.is_floating(probe_type):
        values = [row % 100 + row % 2 / 2 for row in range(n)]
    else:
        values = [row % 100 + row % 2 * 2**16 for row in range(n)]
    probe = [None if row % 3 == 2 else value for row, value in enumerate(values)]
    got = matches(keys(table, table_type), keys(probe, probe_type))
    assert got == expected(table, table_type, probe, probe_type)
    assert len(got) == sum(row % 3 != 2 and row % 2 == 0 for row in range(n))


def test_d6_keys_of_type_null_match_nothing() -> None:
    assert matches(pa.array([1, None], pa.int32()), pa.nulls(3)) == []


def test_d6_the_table_of_a_wider_type_has_the_rows_of_a_narrower_one() -> None:
    """The table has timestamps. A midnight equals a date, another time of the day equals none."""
    day = datetime.date(2024, 2, 29)
    table = pa.array([datetime.datetime(2024, 2, 29), datetime.datetime(2024, 2, 29, 12)], pa.timestamp("ms"))
    assert matches(table, pa.array([day, None], pa.date32())) == [(0, 0)]
