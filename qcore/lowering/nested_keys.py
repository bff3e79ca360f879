"""Lists, structs, maps and intervals as keys, in windows and as what aggregates keep: by way of bytes that compare as
they do.

The engine carries nested values and does not look into them, nor does it compare intervals, of which one has several
spellings. A step in Python puts beside each such key a binary column whose bytes are equal where the values are, and in
their order; the operators go by that. What they hand on themselves are bytes too, which another step reads back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Expr, call, col
from qcore.expression.types import compares_by_bytes
from qcore.functions.arrow.nested_blocks import blocks, values_of_blocks
from qcore.functions.arrow.nested_encoding import nested_bytes
from qcore.functions.arrow.nested_values import nested_values
from qcore.functions.catalogue import expr_type
from qcore.plan import nodes as p
from qcore.plan.schema import aggregate_schema, join_schema, project_schema
from qcore.plan.window_calls import window_type
from qcore.protocols import Context, StatelessOperator

# Aggregates that give one of a group's values, or all, of whatever type.
_KEEP_A_VALUE = frozenset({"min", "max", "any_value", "first", "last", "array_agg"})


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
            batch = batch.append_column(pa.field(key, pa.binary()), nested_bytes(batch.column(name)))
        return batch


@dataclass(frozen=True)
class CarriedValues(NestedKeys):
    """Adds the blocks of nested columns; null where the value is."""

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the blocks."""
        for name, key in self.columns:
            batch = batch.append_column(pa.field(key, pa.binary()), blocks(batch.column(name)))
        return batch


def without_nested_keys(node: p.PlanNode) -> p.PlanNode | None:
    """The node as nodes whose keys are not nested; None when none of its own is."""
    if isinstance(node, (p.OrderBy, p.TopN)):
        return _ordered(node)
    if isinstance(node, p.HashJoin):
        return _joined(node)
    if isinstance(node, p.Aggregate) and node.grouping_sets is None:
        return _grouped(node)
    if isinstance(node, p.Window):
        return _windowed(node)
    return None


def _is_flattened(schema: pa.Schema, name: str) -> bool:
    return compares_by_bytes(schema.field(name).type)


def _is_nested(schema: pa.Schema, name: str) -> bool:
    return bool(pa.types.is_nested(schema.field(name).type))


def _with_keys(node: p.PlanNode, names: Sequence[str], id: str, mark: str) -> tuple[p.PlanNode, dict[str, str]]:
    """The node with a binary column for each one named that needs it, and the columns' names."""
    nested = dict.fromkeys(name for name in names if _is_flattened(node.schema, name))
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
    """Grouped by bytes, and bytes kept, of which the values are read back."""
    keys: list[tuple[str, Expr]] = []
    calls: list[p.AggregateCall] = []
    decoded: list[tuple[str, str, pa.DataType]] = []
    for i, (name, expr) in enumerate(node.keys):
        if _is_nested(node.schema, name):
            decoded.append((name, f"$group{i}", node.schema.field(name).type))
            keys.append((f"$group{i}", call("nested_bytes", expr)))
        elif _is_flattened(node.schema, name):
            # One of the intervals that are equal, as it is written.
            keys.append((f"$group{i}", call("nested_bytes", expr)))
            calls.append(_extreme(name, expr))
        else:
            keys.append((name, expr))
    for i, one in enumerate(node.aggregates):
        if one.function in _KEEP_A_VALUE and pa.types.is_nested(expr_type(one.arguments[0], node.child.schema)):
            decoded.append((one.name, f"$kept{i}", node.schema.field(one.name).type))
            calls.append(
                replace(one, name=f"$kept{i}", arguments=(call("nested_bytes", one.arguments[0]), *one.arguments[1:]))
            )
        elif one.function in ("min", "max") and _is_flattened(node.schema, one.name):
            calls.append(_extreme(one.name, one.arguments[0], one.function == "max", one.filter))
        elif one.function == "any_value" and _is_flattened(node.schema, one.name):
            # The first that is there.
            arguments = (one.arguments[0], call("is_null", one.arguments[0]))
            calls.append(replace(one, function="first", arguments=arguments, order=((False, False),)))
        else:
            calls.append(one)
    if not decoded and calls == list(node.aggregates):
        return None
    grouped = p.Aggregate(
        node.id, aggregate_schema(keys, calls, node.child.schema), node.child, tuple(keys), tuple(calls)
    )
    return _decoded(grouped, decoded, node)


def _extreme(name: str, interval: Expr, descending: bool = False, filter: Expr | None = None) -> p.AggregateCall:
    """The shortest of intervals, or the longest; null where there is none."""
    return p.AggregateCall(
        name, "first", (interval, call("nested_bytes", interval)), filter=filter, order=((descending, False),)
    )


def _windowed(node: p.Window) -> p.PlanNode | None:
    """Windows over bytes: of keys those that are equal where the values are, of what is carried along exact ones."""
    names = node.child.schema.names
    nested = [name for name in names if _is_nested(node.child.schema, name)]
    keyed = [*node.partition_by, *(key.column for key in node.order_by)]
    if not nested and not any(_is_flattened(node.child.schema, name) for name in keyed):
        return None
    child, keys = _with_keys(node.child, keyed, node.id, "by")
    carried = {name: f"$carried{i}" for i, name in enumerate(nested)}
    operator = CarriedValues(tuple(carried.items()))
    schema = operator.output_schema(child.schema)
    assert schema is not None
    flat = [carried.get(name, name) for name in names] + list(keys.values())
    child = p.UserOperator(node.id, schema, child, operator)
    child = p.Project(node.id, project_schema(flat, list(map(col, flat)), schema), child, tuple(map(col, flat)))
    decoded = [(name, carried[name], node.schema.field(name).type) for name in nested]
    calls = []
    for i, one in enumerate(node.calls):
        made = replace(one, argument=carried.get(one.argument or "", one.argument))
        if any(name in carried for name in one.columns if name != one.argument):
            raise PlanError(f"{one.function} of node {node.id} cannot be ordered by a list, struct or map in a window")
        if _is_nested(node.schema, one.name) and one.function != "array_agg":
            decoded.append((one.name, f"$result{i}", node.schema.field(one.name).type))
            made = replace(made, name=f"$result{i}")
        calls.append(made)
    windowed = p.Window(
        node.id,
        pa.schema([*child.schema, *(pa.field(one.name, window_type(one, child.schema)) for one in calls)]),
        child,
        tuple(keys.get(name, name) for name in node.partition_by),
        tuple(replace(key, column=keys.get(key.column, key.column)) for key in node.order_by),
        tuple(calls),
    )
    return _decoded(windowed, decoded, node, UncarriedValues(tuple(decoded)))


def _decoded(
    node: p.PlanNode,
    columns: Sequence[tuple[str, str, pa.DataType]],
    wanted: p.PlanNode,
    decoder: DecodedKeys | None = None,
) -> p.PlanNode:
    """The columns of `wanted`, some read back from bytes."""
    decoder = decoder or DecodedKeys(tuple(columns))
    schema = decoder.output_schema(node.schema)
    assert schema is not None
    return _picked(p.UserOperator(wanted.id, schema, node, decoder), wanted)


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
            batch = batch.append_column(pa.field(name, type_), self.read(batch.column(key), type_))
        return batch

    def read(self, raw: pa.Array, type_: pa.DataType) -> pa.Array:
        """The values of which an array holds the bytes."""
        return nested_values(raw, type_)


@dataclass(frozen=True)
class UncarriedValues(DecodedKeys):
    """Adds the values of which CarriedValues gave the blocks."""

    def read(self, raw: pa.Array, type_: pa.DataType) -> pa.Array:
        """The values of which an array holds the blocks."""
        return values_of_blocks(raw, type_)
