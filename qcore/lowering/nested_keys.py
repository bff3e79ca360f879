"""Lists, structs and maps as keys of groups, joins and orders: by way of bytes that compare as they do. Floor P3.

The engine carries nested values and does not look into them. A step in Python puts beside each nested key a binary
column whose bytes are equal where the values are, and in their order; the operators go by that. Rare enough for a
value at a time.

Within a value, null is equal to null and comes last; a list is before a longer one that begins like it.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.language import plan as p
from qcore.language.expression import Column, Expr, col
from qcore.language.schema import aggregate_schema, join_schema, project_schema
from qcore.protocols import Context, StatelessOperator
from qcore_ext.ground.status import PlanError

# Ahead of each part of a value; the end of a list is below both.
_END, _VALUE, _NULL = b"\x00", b"\x01", b"\x02"
_WHOLE_BYTES = 17
_SIGN = 1 << (8 * _WHOLE_BYTES - 1)
_EPOCH = datetime.datetime(1970, 1, 1)


def encoded(value: Any, type_: pa.DataType) -> bytes:
    """Bytes of a value (not None) of a type, as pyarrow gives it to Python."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return b"".join(_part(item, type_.value_type) for item in value) + _END
    if pa.types.is_struct(type_):
        return b"".join(_part(value[field.name], field.type) for field in type_)
    if pa.types.is_map(type_):
        return b"".join(_part(key, type_.key_type) + _part(item, type_.item_type) for key, item in value) + _END
    if pa.types.is_floating(type_):
        return _float(float(value))
    if isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        return raw.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
    return (_whole(value, type_) + _SIGN).to_bytes(_WHOLE_BYTES, "big")


def _part(value: Any, type_: pa.DataType) -> bytes:
    return _NULL if value is None else _VALUE + encoded(value, type_)


def _float(value: float) -> bytes:
    if math.isnan(value):
        return b"\xff" * 8
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # -0.0 + 0.0 is 0.0
    return int((bits ^ 0xFFFFFFFFFFFFFFFF) if bits >> 63 else (bits | 1 << 63)).to_bytes(8, "big")


def _whole(value: Any, type_: pa.DataType) -> int:
    if isinstance(value, Decimal):
        return int(value.scaleb(type_.scale))
    if isinstance(value, (int, bool)):
        return int(value)
    if isinstance(value, datetime.datetime):
        since = value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta()) - _EPOCH
        return since // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return value.toordinal()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    raise PlanError(f"a nested key holds values of type {type_}, which have no order here; compare their parts")


@dataclass(frozen=True)
class NestedKeys(StatelessOperator):
    """Adds the bytes of nested columns; null where the value is."""

    columns: tuple[tuple[str, str], ...]

    def output_schema(self, input_schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns and the keys."""
        if input_schema is None:
            return None
        return pa.schema([*input_schema, *(pa.field(key, pa.binary()) for _, key in self.columns)])

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its keys."""
        for name, key in self.columns:
            column = batch.column(name)
            values = [None if value is None else encoded(value, column.type) for value in column.to_pylist()]
            batch = batch.append_column(pa.field(key, pa.binary()), pa.array(values, pa.binary()))
        return batch


def without_nested_keys(node: p.PlanNode) -> p.PlanNode | None:
    """The node as nodes whose keys are not nested; None when none of its own is."""
    if isinstance(node, (p.OrderBy, p.TopN)):
        return _ordered(node)
    if isinstance(node, p.HashJoin):
        return _joined(node)
    if isinstance(node, p.Aggregate) and node.grouping_sets is None:
        return _grouped(node)
    return None


def _is_nested(schema: pa.Schema, name: str) -> bool:
    return bool(pa.types.is_nested(schema.field(name).type))


def _with_keys(node: p.PlanNode, names: Sequence[str], id: str, mark: str) -> tuple[p.PlanNode, dict[str, str]]:
    """The node with a binary column for each nested one named, and the columns' names."""
    nested = dict.fromkeys(name for name in names if _is_nested(node.schema, name))
    keys = {name: f"${mark}{i}" for i, name in enumerate(nested)}
    if not keys:
        return node, {}
    operator = NestedKeys(tuple(keys.items()))
    schema = operator.output_schema(node.schema)
    assert schema is not None
    return p.UserOperator(id, schema, node, operator), keys


def _picked(node: p.PlanNode, wanted: p.PlanNode) -> p.PlanNode:
    """The columns of `wanted` alone."""
    names = wanted.schema.names
    return p.Project(wanted.id, project_schema(names, list(map(col, names)), node.schema), node, tuple(map(col, names)))


def _ordered(node: p.OrderBy | p.TopN) -> p.PlanNode | None:
    child, keys = _with_keys(node.child, [key.column for key in node.keys], node.id, "order")
    if not keys:
        return None
    by = tuple(replace(key, column=keys.get(key.column, key.column)) for key in node.keys)
    return _picked(replace(node, child=child, schema=child.schema, keys=by), node)


def _joined(node: p.HashJoin) -> p.PlanNode | None:
    left, left_keys = _with_keys(node.left, node.left_keys, node.id, "left")
    right, right_keys = _with_keys(node.right, node.right_keys, node.id, "right")
    if not left_keys and not right_keys:
        return None
    mark = next((name for name in node.schema.names if name not in {*left.schema.names, *right.schema.names}), "")
    joined = replace(
        node,
        left=left,
        right=right,
        left_keys=tuple(left_keys.get(name, name) for name in node.left_keys),
        right_keys=tuple(right_keys.get(name, name) for name in node.right_keys),
        schema=join_schema(node.kind, left.schema, right.schema, mark),
    )
    return _picked(joined, node)


def _grouped(node: p.Aggregate) -> p.PlanNode | None:
    """Grouped by the bytes, of which the values are read back."""
    named = dict(node.keys)
    nested = [name for name in named if _is_nested(node.schema, name)]
    if not nested:
        return None
    for name in nested:
        if not isinstance(named[name], Column):
            raise PlanError(f"a group key that computes a {node.schema.field(name).type} is not supported")
    sources: dict[str, str] = {name: expr.name for name, expr in node.keys if isinstance(expr, Column)}
    child, keys = _with_keys(node.child, [sources[name] for name in nested], node.id, "group")

    def by(name: str, expr: Expr) -> tuple[str, Expr]:
        return (keys[sources[name]], col(keys[sources[name]])) if name in nested else (name, expr)

    group_keys = tuple(by(name, expr) for name, expr in node.keys)
    schema = aggregate_schema(group_keys, node.aggregates, child.schema)
    grouped = p.Aggregate(node.id, schema, child, group_keys, node.aggregates)
    decoder = DecodedKeys(tuple((name, keys[sources[name]], node.schema.field(name).type) for name in nested))
    decoded_schema = decoder.output_schema(grouped.schema)
    assert decoded_schema is not None
    return _picked(p.UserOperator(node.id, decoded_schema, grouped, decoder), node)


@dataclass(frozen=True)
class DecodedKeys(StatelessOperator):
    """Adds the values that bytes of nested keys stand for."""

    columns: tuple[tuple[str, str, pa.DataType], ...]

    def output_schema(self, input_schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns and the values."""
        if input_schema is None:
            return None
        return pa.schema([*input_schema, *(pa.field(name, type_) for name, _, type_ in self.columns)])

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the values."""
        for name, key, type_ in self.columns:
            raw = batch.column(key).to_pylist()
            values = [None if one is None else decoded(one, 0, type_)[0] for one in raw]
            batch = batch.append_column(pa.field(name, type_), pa.array(values, type_))
        return batch


def decoded(raw: bytes, at: int, type_: pa.DataType) -> tuple[Any, int]:
    """The value whose bytes begin at a place, and the place behind it."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return _items(raw, at, lambda place: _decoded_part(raw, place, type_.value_type))
    if pa.types.is_struct(type_):
        value: dict[str, Any] = {}
        for field in type_:
            value[field.name], at = _decoded_part(raw, at, field.type)
        return value, at
    if pa.types.is_map(type_):

        def pair(place: int) -> tuple[Any, int]:
            key, place = _decoded_part(raw, place, type_.key_type)
            item, place = _decoded_part(raw, place, type_.item_type)
            return (key, item), place

        return _items(raw, at, pair)
    if pa.types.is_floating(type_):
        return _decoded_float(raw[at : at + 8]), at + 8
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        data, at = _decoded_bytes(raw, at)
        return data.decode(), at
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return _decoded_bytes(raw, at)
    whole = int.from_bytes(raw[at : at + _WHOLE_BYTES], "big") - _SIGN
    return _from_whole(whole, type_), at + _WHOLE_BYTES


def _items(raw: bytes, at: int, read: Callable[[int], tuple[Any, int]]) -> tuple[list[Any], int]:
    items = []
    while raw[at : at + 1] != _END:
        item, at = read(at)
        items.append(item)
    return items, at + 1


def _decoded_part(raw: bytes, at: int, type_: pa.DataType) -> tuple[Any, int]:
    return (None, at + 1) if raw[at : at + 1] == _NULL else decoded(raw, at + 1, type_)


def _decoded_float(raw: bytes) -> float:
    bits = int.from_bytes(raw, "big")
    bits = bits ^ 1 << 63 if bits >> 63 else bits ^ 0xFFFFFFFFFFFFFFFF
    (value,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    return float(value)


def _decoded_bytes(raw: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while raw[end : end + 2] != b"\x00\x00":
        end += 2 if raw[end : end + 2] == b"\x00\xff" else 1
    return raw[at:end].replace(b"\x00\xff", b"\x00"), end + 2


def _from_whole(whole: int, type_: pa.DataType) -> Any:
    if pa.types.is_decimal(type_):
        return Decimal(whole).scaleb(-type_.scale)
    if pa.types.is_boolean(type_):
        return bool(whole)
    if pa.types.is_timestamp(type_):
        moment = _EPOCH + datetime.timedelta(microseconds=whole)
        return moment.replace(tzinfo=datetime.UTC) if type_.tz else moment
    if pa.types.is_date(type_):
        return datetime.date.fromordinal(whole)
    if pa.types.is_duration(type_):
        return datetime.timedelta(microseconds=whole)
    if pa.types.is_time(type_):
        return (_EPOCH + datetime.timedelta(microseconds=whole)).time()
    return whole
