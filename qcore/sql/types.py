"""Arrow types of the type names in SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import DECIMAL_DIGITS_MAX, INTERVAL, UUID
from qcore.functions.dialect import QCORE, Dialect

_LOCAL, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
# By sqlglot's names.
_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINT": pa.uint32(), "UBIGINT": pa.uint64(),
    "INT128": pa.decimal128(DECIMAL_DIGITS_MAX, 0), "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR", "BPCHAR", "NAME"), pa.string()),
    **dict.fromkeys(("VARBINARY", "BINARY", "BLOB"), pa.binary()),
    "DATE": pa.date32(), "DATE32": pa.date32(), "TIME": pa.time64("us"), "INTERVAL": INTERVAL,
    "TIMESTAMP_S": pa.timestamp("s"), "TIMESTAMP_MS": pa.timestamp("ms"), "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ": _INSTANT, "TIMESTAMPLTZ": _INSTANT, "NULL": pa.null(),
    "UUID": UUID,
}  # fmt: skip
# By the names in the text, for types that sqlglot does not know.
_OTHER_NAMES: dict[str, pa.DataType] = {
    "oid": pa.int64(), "unsigned": pa.uint32(), "float64": pa.float64(), "float32": pa.float32(), "int64": pa.int64(),
    "int32": pa.int32(), "int16": pa.int16(), "int8": pa.int64(), "string": pa.string(), "timestamp_us": _LOCAL,
}  # fmt: skip
_UNITS = ("s", "ms", "us", "ns")
_INSTEAD = {
    "JSON": "; VARCHAR holds its text", "TIMETZ": "; use TIME",
    "UINT128": "; use DECIMAL(38, 0)", "INT256": "; use DECIMAL(38, 0)", "ENUM": "; use VARCHAR",
}  # fmt: skip
_DEFAULT_DIGITS = (18, 3)
_SPARK_DIGITS = (10, 0)


def read_type(node: Any, dialect: Dialect = QCORE) -> pa.DataType:
    """The Arrow type of sqlglot's DataType node.

    Raises
    ------
    PlanError
        The engine has no such type, or not of that size; the message names it.
    """
    kind = node.this
    if type(kind).__name__ == "Interval":
        return INTERVAL
    name, parts = str(getattr(kind, "name", kind)), list(node.expressions)
    if name in ("DECIMAL", "DECIMAL32", "DECIMAL64", "DECIMAL128", "UDECIMAL", "BIGDECIMAL", "MONEY"):
        return _decimal(parts, dialect)
    if name in ("ARRAY", "LIST"):
        return _list(node, parts, dialect)
    if name in ("STRUCT", "OBJECT"):
        return _struct(parts, dialect)
    if name == "MAP" and len(parts) == 2:
        return pa.map_(*(read_type(part, dialect) for part in parts))
    if name in ("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME", "DATETIME2"):
        return _timestamp(parts, dialect)
    if name == "TIMESTAMPTZ" and dialect.syntax == "spark":
        # This is sqlglot's name of Spark's TIMESTAMP.
        return _INSTANT if dialect.timestamp == "instant" else _LOCAL
    if name == "USERDEFINED":
        return _user_defined(node)
    if name not in _TYPES:
        raise PlanError(f"the type {name} is not supported{_INSTEAD.get(name, '')}")
    return _TYPES[name]


def _sizes(parts: list[Any]) -> list[int]:
    """The numbers in brackets after a type's name."""
    sizes = []
    for part in parts:
        inner = part.this if type(part).__name__ == "DataTypeParam" else part
        text = str(getattr(inner, "this", inner))
        if not text.isdigit():
            raise PlanError(f"the size of a type is a number, not {text}")
        sizes.append(int(text))
    return sizes


def _decimal(parts: list[Any], dialect: Dialect) -> pa.DataType:
    sizes = _sizes(parts)
    if not sizes:
        sizes = list(_SPARK_DIGITS if dialect.syntax == "spark" else _DEFAULT_DIGITS)
    digits, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    if not 1 <= digits <= DECIMAL_DIGITS_MAX or scale > digits or len(sizes) > 2:
        shown = ", ".join(map(str, sizes))
        raise PlanError(
            f"DECIMAL({shown}) is not supported: a decimal has 1 to {DECIMAL_DIGITS_MAX} digits, and no more after the "
            "point"
        )
    return pa.decimal128(digits, scale)


def _list(node: Any, parts: list[Any], dialect: Dialect) -> pa.DataType:
    if len(parts) != 1:
        raise PlanError("a list type names its elements' type: INTEGER[]")
    # An array of fixed size becomes a list.
    return pa.list_(read_type(parts[0], dialect))


def _struct(parts: list[Any], dialect: Dialect) -> pa.DataType:
    fields = []
    for part in parts:
        kind = part.args.get("kind") if type(part).__name__ == "ColumnDef" else None
        if kind is None:
            raise PlanError("a struct type names its fields and their types: STRUCT(a INTEGER, b VARCHAR)")
        fields.append((part.this.name, read_type(kind, dialect)))
    if len({name.lower() for name, _ in fields}) < len(fields):
        raise PlanError("a struct type has each field once")
    if not fields:
        raise PlanError("a struct type has at least one field")
    return pa.struct(fields)


def _timestamp(parts: list[Any], dialect: Dialect) -> pa.DataType:
    sizes = _sizes(parts)
    if not sizes:
        # This is sqlglot's name of Spark's TIMESTAMP_NTZ and of DuckDB's TIMESTAMP.
        return _INSTANT if dialect.timestamp == "instant" and dialect.syntax != "spark" else _LOCAL
    if len(sizes) > 1 or sizes[0] > 9:
        raise PlanError("TIMESTAMP(n) has at most nine digits after the second")
    return pa.timestamp(_UNITS[-(-sizes[0] // 3)])


def _user_defined(node: Any) -> pa.DataType:
    written = str(node.args.get("kind") or "")
    found = _OTHER_NAMES.get(written.lower())
    if found is None:
        raise PlanError(f"there is no type {written!r}")
    return found
