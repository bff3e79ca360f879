"""Names of types in SQL."""

from __future__ import annotations

import pyarrow as pa
import pytest

import qcore
from qcore.functions.dialect import Dialect
from qcore.sql.types import read_type

sqlglot = pytest.importorskip("sqlglot")


def type_of(text: str, syntax: str = "duckdb", dialect: Dialect | None = None) -> pa.DataType:
    cast = sqlglot.parse_one(f"select cast(x as {text})", read=syntax).expressions[0]
    return read_type(cast.args["to"], dialect or Dialect.named("spark" if syntax == "spark" else "qcore"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", pa.int32()),
        ("int2", pa.int16()),
        ("bigint unsigned", pa.uint64()),
        ("oid", pa.int64()),
        ("hugeint", pa.decimal128(38, 0)),
        ("decimal", pa.decimal128(18, 3)),
        ("numeric(5)", pa.decimal128(5, 0)),
        ("decimal(5, 2)", pa.decimal128(5, 2)),
        ("float4", pa.float32()),
        ("double precision", pa.float64()),
        ("varchar(3)", pa.string()),
        ("bytea", pa.binary()),
        ("datetime", pa.timestamp("us")),
        ("timestamp(0)", pa.timestamp("s")),
        ("timestamp(3)", pa.timestamp("ms")),
        ("timestamp(7)", pa.timestamp("ns")),
        ("timestamp_ns", pa.timestamp("ns")),
        ("timestamp with time zone", pa.timestamp("us", "UTC")),
        ("interval", pa.month_day_nano_interval()),
        ("time", pa.time64("us")),
        ("int[][]", pa.list_(pa.list_(pa.int32()))),
        ("int[3]", pa.list_(pa.int32())),
        ("map(int, text)", pa.map_(pa.int32(), pa.string())),
        (
            "struct(a int, b decimal(4, 1)[])",
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.decimal128(4, 1)))]),
        ),
    ],
)
def test_types_by_name(text: str, expected: pa.DataType) -> None:
    assert type_of(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uuid", "the type UUID is not supported; UUIDs are texts here"),
        ("json", "the type JSON is not supported"),
        ("decimal(40)", r"DECIMAL\(40\) is not supported: a decimal has 1 to 38 digits"),
        ("decimal(3, 5)", r"DECIMAL\(3, 5\) is not supported"),
        ("bananas", "there is no type 'bananas'"),
        ("timestamp(12)", "at most nine digits"),
        ("struct(a int, A int)", "has each field once"),
        ("bit", "the type BIT is not supported"),
    ],
)
def test_types_that_there_are_not(text: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        type_of(text)


def test_timestamps_of_spark() -> None:
    local, instant = pa.timestamp("us"), pa.timestamp("us", "UTC")
    zoned = Dialect(syntax="spark", timestamp="instant")
    assert [type_of(f"timestamp{end}", "spark") for end in ("", "_ltz", "_ntz")] == [local, instant, local]
    assert [type_of(f"timestamp{end}", "spark", zoned) for end in ("", "_ltz", "_ntz")] == [instant, instant, local]
    assert type_of("timestamp", "duckdb", Dialect(timestamp="instant")) == instant
    assert type_of("decimal", "spark") == pa.decimal128(10, 0)
    assert type_of("array<struct<a:int>>", "spark") == pa.list_(pa.struct([("a", pa.int32())]))
