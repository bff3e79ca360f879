"""Lists, structs and maps as keys of groups, joins and orders: by way of bytes that compare as they do. Floor P3.

The engine carries nested values and does not look into them. A step in Python puts beside each nested key a binary
column whose bytes are equal where the values are, and in their order; the operators go by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from qcore.language import plan as p
from qcore.language.expression import Column, Expr, col
from qcore.language.nested_values import decoded, nested_bytes
from qcore.language.schema import aggregate_schema, join_schema, project_schema
from qcore.protocols import Context, StatelessOperator
from qcore_ext.ground.status import PlanError


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
