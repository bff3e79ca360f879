"""Constants made without pandas are those that pyarrow makes."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from qcore.expression.scalars import array_of, empty_batch, scalar_of, type_of, without_uuids

UTC = datetime.UTC
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 127, 128, -(1 << 63), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64,
    0.0, -0.0, 1.5, float("inf"), float("nan"), 1e300, "", "a", "grüße", "\U0001f600", "\ud800", b"", b"\x00\xff",
    Decimal("0"), Decimal("-0.00"), Decimal("1.50"), Decimal("-123.456"), Decimal("1E+3"), Decimal("1E-7"),
    Decimal("NaN"),
    Decimal("99999999999999999999999999999999999999"), datetime.date(1, 1, 1), datetime.date(9999, 12, 31),
    datetime.date(1969, 12, 31), datetime.datetime(1970, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(2024, 2, 29, 12, tzinfo=UTC),
    datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=45))),
    datetime.time(1, 2, 3), datetime.timedelta(days=-1), pa.MonthDayNano((-1, 2, -(1 << 63))),
    [1, None], {"a": 1},
]  # fmt: skip
TYPES = [
    None, pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(),
    pa.date32(), pa.date64(),
    *(pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "Asia/Tokyo")),
    pa.decimal128(38, 0), pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal256(50, 2), pa.time64("us"),
    pa.duration("us"), pa.month_day_nano_interval(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]),
]  # fmt: skip


def outcome(make: Any, *arguments: Any) -> Any:
    """What a call returns, or the error that it raises."""
    try:
        made = make(*arguments)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)
    if pa.types.is_floating(made.type) and made.is_valid:
        number = made.as_py()
        return made.type, "nan" if math.isnan(number) else (number, math.copysign(1, number))
    return made.type, made if made.is_valid else None


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_every_value_of_every_type(type: pa.DataType | None) -> None:
    for value in VALUES:
        assert outcome(scalar_of, value, type) == outcome(pa.scalar, value, type), (value, type)


def test_types() -> None:
    for value in VALUES:
        expected = outcome(pa.scalar, value)
        if isinstance(expected[0], pa.DataType):
            assert type_of(value) == expected[0]


def test_classes_below_the_plain_ones() -> None:
    """Timestamps of pandas have nanoseconds, and numbers of NumPy are not numbers of Python."""
    import numpy as np
    import pandas as pd

    stamp = pd.Timestamp("2024-02-29 12:00:00.000001")
    for value in (stamp, np.float64(1.5), np.int64(3), np.str_("a")):
        for type in (None, pa.timestamp("us"), pa.timestamp("ns"), pa.float64(), pa.int64(), pa.string()):
            assert outcome(scalar_of, value, type) == outcome(pa.scalar, value, type)


UUIDS = [uuid.UUID(int=7), None]
MAPS = [pa.map_(pa.string(), pa.field("x", pa.int8(), nullable=False)), pa.map_(pa.int8(), pa.int8(), keys_sorted=True)]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (UUIDS, pa.uuid()),
        ([UUIDS, None, []], pa.list_(pa.uuid())),
        ([UUIDS], pa.large_list(pa.uuid())),
        ([{"a": UUIDS[0], "b": 1}, None, {"a": None, "b": 2}], pa.struct([("a", pa.uuid()), ("b", pa.int8())])),
        ([[(UUIDS[0], UUIDS)], None], pa.map_(pa.uuid(), pa.list_(pa.uuid()))),
        ([], pa.list_(pa.uuid())),
    ],
)
def test_arrays_of_uuids(values: list[Any], type_: pa.DataType) -> None:
    made = array_of(values, type_)
    assert (made.type, made.to_pylist()) == (type_, values)
    stored = made.cast(without_uuids(type_))
    assert "uuid" not in str(stored.type) and stored.cast(type_).equals(made)


@pytest.mark.parametrize("type_", [*TYPES[1:], *MAPS, pa.list_(MAPS[0]), pa.struct([("a", MAPS[1])])], ids=str)
def test_other_types_have_no_uuids(type_: pa.DataType) -> None:
    assert without_uuids(type_) == type_


def test_a_batch_without_rows() -> None:
    types = {"a": pa.list_(pa.uuid()), "b": pa.map_(pa.int8(), pa.uuid())}
    schema = pa.schema(types).append(pa.field("c", pa.int8(), nullable=False))
    made = empty_batch(schema)
    assert (made.schema, made.num_rows) == (schema, 0)
