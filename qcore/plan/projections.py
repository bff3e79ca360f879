"""Making Project nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qcore.expression.tree import Expr, col
from qcore.plan.nodes import PlanNode, Project
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
