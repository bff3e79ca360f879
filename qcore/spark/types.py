"""Spark's data types as Arrow's."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError

SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    # Spark's timestamps are instants in UTC. The session's zone matters only when they are shown or parsed.
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
LENGTH_LIMITED = re.compile(r"(char|varchar)\(\d+\)")
COLLATED = re.compile(r"string\s+collate\s+(\w+)", re.IGNORECASE)
# The key in a field's metadata with the collations of its strings. In the JSON their type is "string".
COLLATIONS = "__COLLATIONS"
BINARY = "UTF8_BINARY"
DAY_TIME_INTERVAL = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


def arrow_type(json: Any, where: str) -> pa.DataType:
    """Return the Arrow type of a Spark type in its JSON form. PlanError that names the column if there is none."""
    if isinstance(json, str):
        if json in SIMPLE:
            return SIMPLE[json]
        decimal = DECIMAL.fullmatch(json)
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if LENGTH_LIMITED.fullmatch(json):
            return pa.string()
        if DAY_TIME_INTERVAL.fullmatch(json):
            return pa.duration("us")
        collated = COLLATED.fullmatch(json)
        if collated:
            refuse_collation(where, collated[1])
            return pa.string()
    elif json.get("type") == "array":
        element = arrow_type(json["elementType"], where)
        return pa.list_(pa.field("element", element, json.get("containsNull", True)))
    elif json.get("type") == "struct":
        return pa.struct([arrow_field(item, f"{where}.{item['name']}") for item in json["fields"]])
    elif json.get("type") == "map":
        value = pa.field("value", arrow_type(json["valueType"], where), json.get("valueContainsNull", True))
        return pa.map_(arrow_type(json["keyType"], where), value)
    shown = json if isinstance(json, str) else json.get("type", json)
    raise PlanError(f"column {where!r} has the Spark type {shown}, which has no Arrow type: cast or drop it in Spark")


def arrow_field(json: dict[str, Any], where: str) -> pa.Field:
    """Return the Arrow field of a Spark StructField in its JSON form. PlanError for strings not compared by bytes."""
    for collation in (json.get("metadata") or {}).get(COLLATIONS, {}).values():
        refuse_collation(where, collation.rpartition(".")[2])
    return pa.field(json["name"], arrow_type(json["type"], where), json.get("nullable", True))


def refuse_collation(where: str, collation: str) -> None:
    """Raise PlanError unless the collation compares strings by their bytes."""
    if collation.upper() != BINARY:
        raise PlanError(
            f"column {where!r} has the Spark collation {collation}, but qcore compares strings by their bytes: select "
            f"`{where} collate {BINARY}` in Spark, or lower({where}) to compare them without regard to case"
        )


def arrow_schema(json: dict[str, Any]) -> pa.Schema:
    """Return the Arrow schema of a Spark StructType in its JSON form (StructType.jsonValue())."""
    names = [item["name"] for item in json["fields"]]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanError(f"the Spark DataFrame has two columns named {twice!r}: rename one with toDF() or alias()")
    return pa.schema([arrow_field(item, item["name"]) for item in json["fields"]])
