"""Nested values as bytes, which are equal for equal values of all types that widen into each other. SPEC D6."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import SchemaChangeError
from qcore.functions.arrow.nested_encoding import nested_bytes
from qcore.functions.arrow.widening_bytes import values_of_widening_bytes, widening_bytes

WHOLES = [0, 1, -1, 7, -128, 127, None]
LARGE = [0, 2**31, -(2**31), 2**53, -(2**53)]
DAYS = [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), None]
# Values, and types that hold them all, each widening into the next.
CHAINS: dict[str, tuple[list[Any], list[pa.DataType]]] = {
    "integers": (WHOLES, [pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
    "unsigned": ([0, 1, 255], [pa.uint8(), pa.uint16(), pa.int32(), pa.uint64(), pa.decimal128(20, 0)]),
    "past 64 bits": ([0, 2**64 - 1, 2**63], [pa.uint64(), pa.decimal128(20, 0), pa.decimal128(38, 10)]),
    "decimals": (
        [Decimal(text) for text in ("0", "1.5", "-1.5", "-0.01", "0.01", "-1.25", "99.99", "2", "-2")],
        [pa.decimal128(4, 2), pa.decimal128(18, 2), pa.decimal128(19, 6), pa.decimal128(38, 20)],
    ),
    "integers to decimals": (WHOLES, [pa.int8(), pa.decimal128(3, 0), pa.decimal128(12, 2), pa.decimal128(38, 30)]),
    "integers to floats": (WHOLES, [pa.int16(), pa.float32(), pa.float64()]),
    "large integers to floats": (LARGE, [pa.int64(), pa.decimal128(19, 0), pa.float64()]),
    "floats": ([0.0, 0.5, -2.25, math.inf, -math.inf, 3.0, None], [pa.float32(), pa.float64()]),
    "dates": (DAYS, [pa.date32(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us")]),
    "times": ([dt.time(0), dt.time(23, 59, 59), None], [pa.time32("s"), pa.time32("ms"), pa.time64("ns")]),
    "durations": ([dt.timedelta(-1), dt.timedelta(0, 5)], [pa.duration("s"), pa.duration("ms"), pa.duration("ns")]),
    "nulls": ([None], [pa.null(), pa.int32(), pa.string()]),
    "text": (["", "a", "a longer text, than twelve"], [pa.string(), pa.large_string(), pa.string_view()]),
}


def of_type(values: list[Any], type_: pa.DataType) -> list[Any]:
    """The values for the type: dates become midnights for timestamps."""
    if not pa.types.is_timestamp(type_):
        return values
    return [None if day is None else dt.datetime.combine(day, dt.time()) for day in values]


@pytest.mark.parametrize("name", CHAINS)
def test_equal_values_of_all_types_have_equal_bytes(name: str) -> None:
    values, types = CHAINS[name]
    rows = [None, [], *([value] for value in values), values, *map(list, itertools.combinations(values, 2))]
    made = []
    for type_ in types:
        given = [None if row is None else of_type(row, type_) for row in rows]
        made.append(widening_bytes(pa.array(given, pa.list_(type_))))
        for narrow in made:
            # Bytes of values of each narrower type are decoded as the wider type.
            assert values_of_widening_bytes(narrow, pa.list_(type_), "c").to_pylist() == given
    assert all(one.equals(made[0]) for one in made[1:])
    assert len(set(made[0].to_pylist())) == len({repr(row) for row in rows})


@pytest.mark.parametrize("name", [name for name in CHAINS if name not in ("nulls", "text")])
def test_the_order_is_that_of_one_type(name: str) -> None:
    """An independent check with nested_bytes of the values in the widest type."""
    values, types = CHAINS[name]
    numbers = [value for value in values if value is not None]
    expected = nested_bytes(pa.array([[one] for one in of_type(numbers, types[-1])], pa.list_(types[-1]))).to_pylist()
    for type_ in types:
        made = widening_bytes(pa.array([[one] for one in of_type(numbers, type_)], pa.list_(type_))).to_pylist()
        order = sorted(range(len(numbers)), key=made.__getitem__)
        assert order == sorted(range(len(numbers)), key=expected.__getitem__), type_


def test_floats_and_nan() -> None:
    values = [[math.nan], [-0.0], [1e300], [-1e-300], [-2e-300], [5e-324], [2.0**70], [0.0]]
    raw = widening_bytes(pa.array(values, pa.list_(pa.float64())))
    again = values_of_widening_bytes(raw, pa.list_(pa.float64()), "c").to_pylist()
    assert math.isnan(again[0][0])
    assert again[1:] == values[1:]
    assert raw[1] == raw[7]
    in_order = [-1e-300, -0.0, 5e-324, 1e300, math.nan]
    by_bytes = sorted(in_order, key=lambda x: widening_bytes(pa.array([[x]], pa.list_(pa.float64())))[0].as_py())
    assert repr(by_bytes) == repr(in_order)


@pytest.mark.parametrize(
    ("value", "narrow", "wide"),
    [
        (2**53 + 1, pa.int64(), pa.float64()),
        (10**37, pa.decimal128(38, 0), pa.decimal128(38, 10)),
        (10**30 + 1, pa.decimal128(38, 0), pa.float64()),
    ],
)
def test_values_that_the_wider_type_lacks(value: int, narrow: pa.DataType, wide: pa.DataType) -> None:
    """D6: an error, and not another value."""
    given = Decimal(value) if pa.types.is_decimal(narrow) else value
    raw = widening_bytes(pa.array([[given]], pa.list_(narrow)))
    with pytest.raises(SchemaChangeError, match=r"column 'c' changed to list<.*cast it"):
        values_of_widening_bytes(raw, pa.list_(wide), "c")


def test_structs_and_maps() -> None:
    type_ = pa.struct([("a", pa.int32()), ("m", pa.map_(pa.string(), pa.list_(pa.date32())))])
    rows = [None, {"a": None, "m": None}, {"a": 1, "m": [("x", [dt.date(2020, 1, 1), None]), ("y", None)]}]
    raw = widening_bytes(pa.array(rows, type_))
    assert values_of_widening_bytes(raw, type_, "c").to_pylist() == rows
