"""Names of types as in DuckDB, for typeof()."""

from __future__ import annotations

import re

import pyarrow as pa

from qcore.expression.types import is_list_of_any_layout, plain

_NAMES = {
    "bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT", "float": "FLOAT",
    "double": "DOUBLE", "string": "VARCHAR", "binary": "BLOB", "date32[day]": "DATE", "null": '"NULL"',
    "month_day_nano_interval": "INTERVAL", "timestamp[s]": "TIMESTAMP_S", "timestamp[ms]": "TIMESTAMP_MS",
    "timestamp[us]": "TIMESTAMP", "timestamp[ns]": "TIMESTAMP_NS", "extension<arrow.uuid>": "UUID",
}  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def type_name(type_: pa.DataType) -> str:
    """The type in SQL: BIGINT, DECIMAL(10,2), VARCHAR[], STRUCT(a INTEGER)."""
    type_ = plain(type_)
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return "TIMESTAMP WITH TIME ZONE"
    if pa.types.is_time(type_):
        return "TIME"
    if pa.types.is_map(type_):
        return f"MAP({type_name(type_.key_type)}, {type_name(type_.item_type)})"
    if is_list_of_any_layout(type_):
        return f"{type_name(type_.value_type)}[]"
    if pa.types.is_struct(type_):
        return f"STRUCT({', '.join(f'{_field(field.name)} {type_name(field.type)}' for field in type_)})"
    return _NAMES.get(str(type_), str(type_).upper())


def _field(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
