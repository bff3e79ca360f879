"""A stand-in for qcore.sql.types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.functions.dialect import Dialect

_TYPES = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINT": pa.uint32(), "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(),
    "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "TIMESTAMPNTZ": pa.timestamp("us"), "VARBINARY": pa.binary(),
    "TIME": pa.time64("us"), "INTERVAL": pa.month_day_nano_interval(), "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_S": pa.timestamp("s"), "TIMESTAMP_MS": pa.timestamp("ms"), "TIMESTAMP_NS": pa.timestamp("ns"),
}  # fmt: skip


def read_type(node: Any, dialect: Dialect) -> pa.DataType:
    from sqlglot import exp

    kind = node.this
    name = kind.name if hasattr(kind, "name") else str(kind)
    inner = node.expressions
    if name == "INTERVAL" or isinstance(kind, exp.Interval):
        return pa.month_day_nano_interval()
    if name == "DECIMAL":
        digits = [int(one.this.this if isinstance(one, exp.DataTypeParam) else one.this) for one in inner]
        return pa.decimal128(*(digits or [18, 3])) if len(digits) != 1 else pa.decimal128(digits[0], 0)
    if name in ("ARRAY", "LIST"):
        return pa.list_(read_type(inner[0], dialect))
    if name not in _TYPES:
        raise PlanError(f"the type {name} is not supported")
    return _TYPES[name]
