"""Lists, structs, maps and intervals as keys, in windows and in aggregates that keep values.

The engine passes nested values on but does not read them. It does not compare intervals either, because equal ones have
several spellings. An operator in Python adds a binary column for each such key, whose bytes are equal and ordered as
the values are. The engine's operators use these columns. Another operator in Python decodes bytes in their output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from qcore.errors import PlanError, SchemaChangeError
from qcore.expression.tree import Expr, call
from qcore.expression.types import compares_by_bytes
from qcore.functions.arrow.nested_blocks import blocks, values_of_blocks
from qcore.functions.arrow.nested_encoding import nested_bytes
from qcore.functions.arrow.nested_values import nested_values
from qcore.functions.catalogue import expr_type
from qcore.plan import nodes as p
from qcore.plan.projections import select_columns
from qcore.plan.schema import aggregate_schema, join_schema
from qcore.plan.window_calls import window_type
from qcore.protocols import Context, StatelessOperator
from qcore.record import record

# Aggregates that return one or all of a group's values, of any type.
_KEEP_A_VALUE = frozenset({"min", "max", "any_value", "first", "last", "array_agg"})


@record(frozen=True)
class NestedKeys(StatelessOperator):
    """Adds a binary column for each nested column: bytes that are compared as its values are. A null has none."""

    columns: tuple[tuple[str, str], ...]
    declared: pa.Schema

    def output_schema(self, input_schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns, then the keys.

        SchemaChangeError if a column has another type than in the plan: equal values of two types may have different
        bytes, and decoding gives the planned type.
        """
        if input_schema is None:
            return None
        for name, _ in self.columns:
            planned, given = self.declared.field(name).type, input_schema.field(name).type
            if planned != given:
                raise SchemaChangeError(
                    f"column {name!r} changed from {planned} to {given}: its values are compared or carried as bytes "
                    "of the first type; declare the wider type at the source"
                )
        return pa.schema([*input_schema, *(pa.field(key, pa.binary()) for _, key in self.columns)])

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, then the keys."""
        for name, key in self.columns:
            batch = batch.append_column(pa.field(key, pa.binary()), nested_bytes(batch.column(name)))
        return batch


@record(frozen=True)
class CarriedValues(NestedKeys):
    """Adds a binary column for each nested column: blocks that keep its exact values. A null has none."""

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, then the blocks."""
        for name, key in self.columns:
            batch = batch.append_column(pa.field(key, pa.binary()), blocks(batch.column(name)))
        return batch


def replace_nested_keys(node: p.PlanNode) -> p.PlanNode | None:
    """The node as nodes without nested keys. None if the node has none."""
    if isinstance(node, (p.OrderBy, p.TopN)):
        return _replace_sort_keys(node)
    if isinstance(node, p.HashJoin):
        return _replace_join_keys(node)
    if isinstance(node, p.Aggregate) and node.grouping_sets is None:
        return _replace_group_keys(node)
    if isinstance(node, p.Window):
        return _replace_window_keys(node)
    return None


def _compares_by_bytes(schema: pa.Schema, name: str) -> bool:
    return compares_by_bytes(schema.field(name).type)


def _is_nested(schema: pa.Schema, name: str) -> bool:
    return bool(pa.types.is_nested(schema.field(name).type))


def _add_keys(node: p.PlanNode, names: Sequence[str], id: str, mark: str) -> tuple[p.PlanNode, dict[str, str]]:
    """The node with a binary column for each named column that is compared by bytes, and the names of both."""
    nested = dict.fromkeys(name for name in names if _compares_by_bytes(node.schema, name))
    keys = {name: f"${mark}{i}" for i, name in enumerate(nested)}
    if not keys:
        return node, {}
    return _apply(id, node, NestedKeys(tuple(keys.items()), node.schema)), keys


def _apply(id: str, node: p.PlanNode, operator: NestedKeys | DecodedKeys) -> p.PlanNode:
    schema = operator.output_schema(node.schema)
    assert schema is not None
    return p.UserOperator(id, schema, node, operator)


def _replace_sort_keys(node: p.OrderBy | p.TopN) -> p.PlanNode | None:
    child, keys = _add_keys(node.child, [key.column for key in node.keys], node.id, "order")
    if not keys:
        return None
    by = tuple(replace(key, column=keys.get(key.column, key.column)) for key in node.keys)
    return select_columns(node.id, replace(node, child=child, schema=child.schema, keys=by), node.schema.names)


def _replace_join_keys(node: p.HashJoin) -> p.PlanNode | None:
    left, left_keys = _add_keys(node.left, node.left_keys, node.id, "left")
    right, right_keys = _add_keys(node.right, node.right_keys, node.id, "right")
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
    return select_columns(node.id, joined, node.schema.names)


def _replace_group_keys(node: p.Aggregate) -> p.PlanNode | None:
    """An aggregation by bytes. The output's nested values are decoded from bytes."""
    keys: list[tuple[str, Expr]] = []
    calls: list[p.AggregateCall] = []
    decoded: list[tuple[str, str, pa.DataType]] = []
    for i, (name, expr) in enumerate(node.keys):
        if _is_nested(node.schema, name):
            decoded.append((name, f"$group{i}", node.schema.field(name).type))
            keys.append((f"$group{i}", call("nested_bytes", expr)))
        elif _compares_by_bytes(node.schema, name):
            # Equal intervals have several spellings. The output has one of the group's.
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
        elif one.function in ("min", "max") and _compares_by_bytes(node.schema, one.name):
            calls.append(_extreme(one.name, one.arguments[0], one.function == "max", one.filter))
        elif one.function == "any_value" and _compares_by_bytes(node.schema, one.name):
            # The first value that is not null.
            arguments = (one.arguments[0], call("is_null", one.arguments[0]))
            calls.append(replace(one, function="first", arguments=arguments, order=((False, False),)))
        else:
            calls.append(one)
    if not decoded and calls == list(node.aggregates):
        return None
    grouped = p.Aggregate(
        node.id, aggregate_schema(keys, calls, node.child.schema), node.child, tuple(keys), tuple(calls)
    )
    return _decode(grouped, decoded, node)


def _extreme(name: str, interval: Expr, descending: bool = False, filter: Expr | None = None) -> p.AggregateCall:
    """The shortest interval of a group, or the longest; null if there is none."""
    return p.AggregateCall(
        name, "first", (interval, call("nested_bytes", interval)), filter=filter, order=((descending, False),)
    )


def _replace_window_keys(node: p.Window) -> p.PlanNode | None:
    """Windows over bytes. Keys become bytes that are equal if the values are; other nested columns become blocks, which
    keep the exact value.
    """
    names = node.child.schema.names
    nested = [name for name in names if _is_nested(node.child.schema, name)]
    keyed = [*node.partition_by, *(key.column for key in node.order_by)]
    if not nested and not any(_compares_by_bytes(node.child.schema, name) for name in keyed):
        return None
    child, keys = _add_keys(node.child, keyed, node.id, "by")
    carried = {name: f"$carried{i}" for i, name in enumerate(nested)}
    flat = [carried.get(name, name) for name in names] + list(keys.values())
    child = _apply(node.id, child, CarriedValues(tuple(carried.items()), child.schema))
    child = select_columns(node.id, child, flat)
    decoded = [(name, carried[name], node.schema.field(name).type) for name in nested]
    calls = []
    for i, one in enumerate(node.calls):
        windowed = replace(one, argument=carried.get(one.argument or "", one.argument))
        if any(name in carried for name in one.columns if name != one.argument):
            raise PlanError(f"{one.function} of node {node.id} cannot be ordered by a list, struct or map in a window")
        if _is_nested(node.schema, one.name) and one.function != "array_agg":
            decoded.append((one.name, f"$result{i}", node.schema.field(one.name).type))
            windowed = replace(windowed, name=f"$result{i}")
        calls.append(windowed)
    window = p.Window(
        node.id,
        pa.schema([*child.schema, *(pa.field(one.name, window_type(one, child.schema)) for one in calls)]),
        child,
        tuple(keys.get(name, name) for name in node.partition_by),
        tuple(replace(key, column=keys.get(key.column, key.column)) for key in node.order_by),
        tuple(calls),
    )
    return _decode(window, decoded, node, UncarriedValues(tuple(decoded)))


def _decode(
    node: p.PlanNode,
    columns: Sequence[tuple[str, str, pa.DataType]],
    wanted: p.PlanNode,
    decoder: DecodedKeys | None = None,
) -> p.PlanNode:
    """The columns of `wanted`, some of them decoded from bytes."""
    return select_columns(
        wanted.id, _apply(wanted.id, node, decoder or DecodedKeys(tuple(columns))), wanted.schema.names
    )


@record(frozen=True)
class DecodedKeys(StatelessOperator):
    """Adds the values whose bytes are in columns of the input."""

    columns: tuple[tuple[str, str, pa.DataType], ...]

    def output_schema(self, input_schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns, then the values."""
        if input_schema is None:
            return None
        return pa.schema([*input_schema, *(pa.field(name, type_) for name, _, type_ in self.columns)])

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, then the values."""
        for name, key, type_ in self.columns:
            batch = batch.append_column(pa.field(name, type_), self.read(batch.column(key), type_))
        return batch

    def read(self, raw: pa.Array, type_: pa.DataType) -> pa.Array:
        """The values of an array of their bytes."""
        return nested_values(raw, type_)


@record(frozen=True)
class UncarriedValues(DecodedKeys):
    """Adds the values of blocks that CarriedValues made."""

    def read(self, raw: pa.Array, type_: pa.DataType) -> pa.Array:
        """The values of an array of their blocks."""
        return values_of_blocks(raw, type_)
