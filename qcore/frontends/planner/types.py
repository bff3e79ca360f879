"""Types that the planner cannot write into Substrait, or compare, as those it can.

The plan reads the table's own types; the planner only has to know what can be done with a column.
"""

from __future__ import annotations

import re

import pyarrow as pa

_DECIMAL = re.compile(r"\b(?:decimal|numeric|dec|decimal128)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.IGNORECASE)
# Digits of a DECIMAL that says none.
_DIGITS, _SCALE = 38, 10
_MOST_DIGITS = 38


def asked_decimals(text: str) -> frozenset[pa.DataType]:
    """The decimal types that a query's text names, as it may to cast to them."""
    found = set()
    for digits, scale in _DECIMAL.findall(text):
        size = (int(digits), int(scale or 0)) if digits else (_DIGITS, _SCALE)
        if 0 < size[0] <= _MOST_DIGITS and size[1] <= size[0]:
            found.add(pa.decimal128(*size))
    return frozenset(found)


_NAMES = {
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.uint8(): "TINYINT UNSIGNED", pa.uint16(): "SMALLINT UNSIGNED", pa.uint32(): "INTEGER UNSIGNED",
    pa.uint64(): "BIGINT UNSIGNED", pa.float32(): "REAL", pa.float64(): "DOUBLE", pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN", pa.date32(): "DATE", pa.timestamp("s"): "TIMESTAMP(0)", pa.timestamp("ms"): "TIMESTAMP(3)",
    pa.timestamp("us"): "TIMESTAMP(6)", pa.timestamp("ns"): "TIMESTAMP(9)",
}  # fmt: skip


def sql_name(type_: pa.DataType) -> str | None:
    """What the planner's SQL calls a type; None where it has no name there."""
    if pa.types.is_decimal128(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return _NAMES.get(type_)


def planner_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with lists of every layout as lists, bytes of every layout as binary, which alone it has functions of,
    and times of day in nanoseconds, as its literals of them are. Every column may be null: a subquery without rows
    gives null, whatever its column is declared as.
    """
    return pa.schema([field.with_type(planner_type(field.type)).with_nullable(True) for field in schema])


_BYTES = (pa.types.is_binary_view, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def planner_type(type_: pa.DataType) -> pa.DataType:
    """The same of one type."""
    if pa.types.is_time(type_):
        return pa.time64("ns")
    if any(is_of(type_) for is_of in _BYTES):
        return pa.binary()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(planner_type(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(planner_type(type_.key_type), planner_type(type_.item_type))
    if pa.types.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(planner_type(type_.value_type)))
    is_list = pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_)
    if is_list or pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_):
        return pa.list_(type_.value_field.with_type(planner_type(type_.value_type)))
    return type_
