"""Bytes of nested values: arrays are encoded like single values, and decoded again. SPEC Q3."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

import qcore
from qcore.functions.arrow import nested_blocks, nested_encoding
from qcore.functions.arrow.nested_blocks import blocks, values_of_blocks
from qcore.functions.arrow.nested_encoding import nested_bytes
from qcore.functions.arrow.nested_values import decode_value, encode_value

MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
LEAVES = [
    (pa.int8(), [0, 1, -1, 127, -128]),
    (pa.int32(), [0, 5, -(2**31), 2**31 - 1]),
    (pa.int64(), [0, 7, -7, 2**63 - 1, -(2**63)]),
    (pa.uint8(), [0, 255]),
    (pa.uint64(), [0, 2**64 - 1, 2**63]),
    (pa.bool_(), [True, False]),
    (pa.float64(), [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324]),
    (pa.float32(), [0.5, -0.0, -2.25]),
    (pa.decimal128(38, 10), [Decimal("1.5"), Decimal("-1.5"), Decimal("9999999999999999999999999999.9999999999")]),
    (pa.decimal128(5, 2), [Decimal("0.00"), Decimal("-0.01")]),
    (pa.string(), ["", "a", "ab", "naïve", "a\x00b", "\x00"]),
    (pa.binary(), [b"", b"\x00", b"\xff\x00\x01"]),
    (pa.large_string(), ["x", ""]),
    (pa.string_view(), ["x", "a text that is longer than twelve bytes"]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("us"), [MOMENT, dt.datetime(2024, 2, 29)]),
    (pa.timestamp("ms", "Europe/Berlin"), [dt.datetime(2024, 7, 1, tzinfo=dt.UTC)]),
    (pa.timestamp("s"), [dt.datetime(1960, 1, 1), dt.datetime(2024, 2, 29)]),
    (pa.time64("us"), [dt.time(23, 59, 59, 999_999), dt.time(0)]),
    (pa.time32("s"), [dt.time(1, 2, 3)]),
    (pa.duration("ms"), [dt.timedelta(milliseconds=-5), dt.timedelta(days=3)]),
    (pa.dictionary(pa.int8(), pa.string()), ["p", "q"]),
    (pa.dictionary(pa.int8(), pa.float64()), [1.5, -0.5]),
    (pa.null(), []),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([0, -1, 5])]),
]
IDS = [str(leaf) for leaf, _ in LEAVES]


def arrays(leaf: pa.DataType, values: list) -> list[pa.Array]:
    """Arrays of all nested types over these values, with nulls at every level."""
    some = [*values, None]
    lists = [None, [], *([value] for value in some), some, *map(list, itertools.combinations(some, 2))]
    structs = [None, *({"a": a, "b": b} for a, b in itertools.product(some, some))]
    of_lists = [{"l": one, "s": "x" * n} for n, one in enumerate(lists)]
    types = [pa.list_(leaf), pa.large_list(leaf), pa.list_view(leaf), pa.list_(pa.list_(leaf))]
    made = [pa.array(lists, type_) for type_ in types[:3]]
    made.append(pa.array([None, [], lists, [None], [[]]], types[3]))
    made.append(pa.array([[a, b] for a, b in itertools.product(some, some)] + [None], pa.list_(leaf, 2)))
    made.append(pa.array(structs, pa.struct([("a", leaf), ("b", leaf)])))
    made.append(pa.array([*of_lists, None], pa.struct([("l", pa.list_(leaf)), ("s", pa.string())])))
    made.append(
        pa.array([[], None, [("k", one) for one in some], [("", None), ("é", some[0])]], pa.map_(pa.string(), leaf))
    )
    made.append(pa.array([structs[1:], [None], []], pa.list_(made[-3].type)))
    return made


@pytest.mark.parametrize(("leaf", "values"), LEAVES, ids=IDS)
def test_as_each_value_by_itself(leaf: pa.DataType, values: list, monkeypatch: pytest.MonkeyPatch) -> None:
    for array in arrays(leaf, values):
        expected = [None if one is None else encode_value(one, array.type) for one in array.to_pylist()]
        for part in (slice(None), slice(1, None), slice(2, 5), slice(3, 3)):
            assert nested_bytes(array[part]).to_pylist() == expected[part], array.type
        with monkeypatch.context() as small:
            small.setattr(nested_encoding, "_VALUES_MAX", 3)
            assert nested_bytes(array).to_pylist() == expected


def test_bytes_are_read_back() -> None:
    digits = Decimal("-1234567890123456789012345678.9012345678")
    leaves = [(pa.int64(), [0, -5, 2**40]), (pa.decimal128(38, 10), [digits, -digits])]
    leaves += [(pa.dictionary(pa.int8(), kind), ["p", "q"]) for kind in (pa.string(), pa.large_string())]
    leaves += [(pa.dictionary(pa.int8(), pa.float64()), [1.5, -0.5]), (pa.binary_view(), [b"", b"x\x00", b"y" * 20])]
    for leaf, values in leaves:
        array = arrays(leaf, values)[0]
        for raw, value in zip(nested_bytes(array).to_pylist(), array.to_pylist(), strict=True):
            assert value is None or decode_value(raw, 0, array.type) == (value, len(raw))


@pytest.mark.parametrize(("leaf", "values"), LEAVES, ids=IDS)
def test_blocks_are_read_back(leaf: pa.DataType, values: list, monkeypatch: pytest.MonkeyPatch) -> None:
    for array in arrays(leaf, values):
        for part in (slice(None), slice(1, None), slice(2, 5), slice(3, 3)):
            read = values_of_blocks(blocks(array[part]), array.type)
            read.validate(full=True)
            assert read.type == array.type
            assert list(map(repr, read.to_pylist())) == list(map(repr, array[part].to_pylist()))
        with monkeypatch.context() as small:
            small.setattr(nested_blocks, "_VALUES_MAX", 3)
            small.setattr(nested_blocks, "_BYTES_MAX", 40)
            read = values_of_blocks(blocks(array), array.type)
            assert list(map(repr, read.to_pylist())) == list(map(repr, array.to_pylist()))


@pytest.mark.parametrize("made", [nested_bytes, blocks])
def test_more_bytes_than_an_array_holds(made: Callable[[pa.Array], pa.Array], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_encoding, "_BYTES_MAX", 55)
    assert len(made(pa.array([["x" * 20]]))) == 1
    with pytest.raises(qcore.ExecutionError, match=r"2 values of type list.* an array holds 55"):
        made(pa.array([["x" * 20], ["y" * 30]]))
