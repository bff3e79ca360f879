"""The acceptance cases shared beside the project: each answers as its file says (SPEC Q2, Q3)."""

from __future__ import annotations

import datetime
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import qcore

CASES = Path(__file__).resolve().parents[2] / "shared" / "acceptance" / "sql_cases.jsonl"
TYPES = {
    "date32": pa.date32(), "string": pa.string(), "binary": pa.binary(), "bool": pa.bool_(), "float": pa.float32(),
    "double": pa.float64(), "float64": pa.float64(), "float32": pa.float32(), "int8": pa.int8(), "int16": pa.int16(),
    "int32": pa.int32(), "int64": pa.int64(), "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(),
    "uint64": pa.uint64(), "time64": pa.time64("us"), "timestamp": pa.timestamp("us"),
}  # fmt: skip
Row = tuple[Any, ...]


def cases() -> list[Any]:
    """One parameter for each case, or one that says that the folder is missing."""
    if not CASES.exists():
        reason = f"{CASES} is absent: the cases are shared beside the project, not part of it"
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=reason))]
    read = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [pytest.param(case, id=case["id"]) for case in read]


def arrow_type(name: str) -> pa.DataType:
    """The type that a case's file names. It may be nested."""
    if name.startswith("list<"):
        return pa.list_(arrow_type(name[5:-1].removeprefix("item: ").removeprefix("element: ")))
    if name.startswith("struct<"):
        fields = re.findall(r"(\w+): (\w+)", name)
        return pa.struct([(field, arrow_type(type_)) for field, type_ in fields])
    if name.startswith("decimal"):
        return pa.decimal128(*map(int, re.findall(r"\((\d+), ?(\d+)\)", name)[0]))
    return TYPES[name.partition("[")[0]]


def value_of(value: Any, type_: pa.DataType) -> Any:
    """A JSON value as a Python value of the type."""
    if value is None:
        return None
    if pa.types.is_list(type_):
        return [value_of(part, type_.value_type) for part in value]
    if pa.types.is_struct(type_):
        return {field.name: value_of(value[field.name], field.type) for field in type_}
    if pa.types.is_binary(type_):
        return bytes.fromhex(value)
    if pa.types.is_decimal(type_):
        return Decimal(value)
    if pa.types.is_date(type_):
        return datetime.date.fromisoformat(value)
    if pa.types.is_timestamp(type_):
        return datetime.datetime.fromisoformat(value)
    return float(value) if pa.types.is_floating(type_) else value


def table_of(described: dict[str, Any]) -> pa.Table:
    """A table of a case."""
    schema = pa.schema([(field["name"], arrow_type(field["type"])) for field in described["schema"]])
    columns = [
        pa.array([value_of(row[i], field.type) for row in described["rows"]], field.type)
        for i, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def comparable(value: Any) -> Any:
    """Numbers as floats or exact integers, times as ISO text."""
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return tuple(map(comparable, value))
    return value


def convert_expected(value: Any, type_: str) -> Any:
    """An expected value as `comparable` gives it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, list):
        return tuple(convert_expected(part, "") for part in value)
    if type_.startswith("decimal"):
        return Decimal(value)
    if isinstance(value, str) and type_.startswith(("float", "double", "half")):
        return float(value)
    return value.replace(" ", "T", 1) if type_.startswith("timestamp") else value


def is_same(a: Any, b: Any, rel_tol: float, abs_tol: float) -> bool:
    """Whether two values are equal. A boolean does not equal a number."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        if not isinstance(a, (int, float, Decimal)) or not isinstance(b, (int, float, Decimal)):
            return False
        a, b = float(a), float(b)
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def sort_key(row: Row) -> Any:
    """A sort key that keeps nearly equal numbers next to each other."""
    return [
        (0, 0.0, "") if value is None
        else (1, round(float(value), 6), "") if isinstance(value, (int, float, Decimal)) and value == value
        else (2, 0.0, str(value))
        for value in row
    ]  # fmt: skip


def assert_expected(got: list[Row], names: list[str], expect: dict[str, Any]) -> None:
    """Compare rows, in order if the case has an order. With `order_cols` only those columns are in order."""
    rows = [tuple(map(convert_expected, row, expect["types"])) for row in expect["rows"]]
    tolerances = expect.get("rel_tol") or 1e-9, expect.get("abs_tol") or 1e-12

    def check(actual: list[Row], expected: list[Row]) -> None:
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            assert len(a) == len(b)
            assert all(is_same(x, y, *tolerances) for x, y in zip(a, b, strict=True)), f"{a} instead of {b}"

    if "order_cols" in expect:
        places = [p if isinstance(p, int) else expect["names"].index(p) for p in expect["order_cols"]]
        check([tuple(row[i] for i in places) for row in got], [tuple(row[i] for i in places) for row in rows])
    if "order_cols" in expect or expect["sort"] == "rowsort":
        got, rows = sorted(got, key=sort_key), sorted(rows, key=sort_key)
    check(got, rows)


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any]) -> None:
    tables = {name: table_of(described) for name, described in case["tables"].items()}
    result = qcore.sql(case["query"], tables, threads=2).to_arrow()
    columns = [list(map(comparable, column.to_pylist())) for column in result.columns]
    assert_expected(list(zip(*columns, strict=True)), result.column_names, case["expect"])
