"""Making Project nodes, and the names of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from qcore.expression.tree import Alias, Call, Cast, Column, Expr, OuterColumn, col
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Limit, OrderBy, PlanNode, Project, TopN
from qcore.plan.schema import project_schema


def project(id: str, node: PlanNode, names: Sequence[str], expressions: Sequence[Expr]) -> Project:
    """These expressions over the node, under these names."""
    return Project(id, project_schema(names, expressions, node.schema), node, tuple(expressions))


def select_columns(id: str, node: PlanNode, names: Sequence[str]) -> Project:
    """These columns of the node, in this order."""
    return project(id, node, names, list(map(col, names)))


def rename_columns(id: str, node: PlanNode, names: Sequence[str]) -> Project:
    """All columns of the node, under these names."""
    return project(id, node, names, list(map(col, node.schema.names)))


def add_columns(id: str, node: PlanNode, columns: Mapping[str, Expr]) -> Project:
    """All columns of the node, then these."""
    kept = node.schema.names
    return project(id, node, [*kept, *columns], [*map(col, kept), *columns.values()])


def exact_columns(ids: NodeIds, names: ColumnNames, node: PlanNode, columns: Sequence[str]) -> PlanNode:
    """A node with exactly these columns of the node. A repeated column gets a new name."""
    if node.schema.names == list(columns):
        return node
    seen: set[str] = set()
    new = []
    for name in columns:
        new.append(names.new(name) if name in seen else name)
        seen.add(name)
    return project(ids.new(), node, new, list(map(col, columns)))


def rename_result(ids: NodeIds, node: PlanNode, names: Sequence[str]) -> PlanNode:
    """Return the node with the query's column names if these are unique. A sort remains the top node."""
    if len(set(names)) != len(names) or len(names) != len(node.schema) or list(names) == node.schema.names:
        return node
    schema = pa.schema([field.with_name(name) for field, name in zip(node.schema, names, strict=True)])
    if isinstance(node, Project):
        return node.with_fields(schema=schema)
    if isinstance(node, Limit):
        return node.with_fields(schema=schema, child=rename_result(ids, node.child, names))
    if isinstance(node, (OrderBy, TopN)):
        new = dict(zip(node.schema.names, names, strict=True))
        keys = tuple(replace(key, column=new[key.column]) for key in node.keys)
        return node.with_fields(schema=schema, child=rename_result(ids, node.child, names), keys=keys)
    return Project(ids.new(), schema, node, tuple(map(col, node.schema.names)))


def readable_name(expr: Expr) -> str:
    """A name for a computed column."""
    while isinstance(expr, (Cast, Alias)):
        expr = expr.argument
    if isinstance(expr, (Column, OuterColumn)):
        return expr.name
    return expr.function if isinstance(expr, Call) else type(expr).__name__.lower()
