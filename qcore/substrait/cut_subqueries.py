"""Subqueries that a frontend has cut out of a query, and what the calls in their places mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Column, Expr, OuterColumn, col
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, DependentJoin, EnforceSingleRow, PlanNode, Project
from qcore.plan.schema import join_schema, project_schema

Maker = Callable[[NodeIds, ColumnNames], PlanNode]


@dataclass
class CutSubqueries:
    """By the names of the functions that stand for them: types of outer columns, and of each subquery its outer columns
    and what makes its plan, of one column.
    """

    outer_types: dict[str, pa.DataType] = field(default_factory=dict)
    scalars: dict[str, tuple[Sequence[str], Maker]] = field(default_factory=dict)

    def value(
        self, name: str, arguments: Sequence[Expr], node: PlanNode, ids: NodeIds, names: ColumnNames
    ) -> tuple[PlanNode, Expr]:
        """What a call over `node` gives, and the node that has it."""
        if name in self.outer_types:
            return node, OuterColumn(name, self.outer_types[name])
        if name not in self.scalars:
            raise PlanError(f"the function {name} is not supported yet")
        outer, make = self.scalars[name]
        node, columns = _with_columns(node, arguments, ids, names)
        for function, column in zip(outer, columns, strict=True):
            self.outer_types[function] = node.schema.field(column).type
        subquery = make(ids, names)
        if not gives_one_row(subquery):
            subquery = EnforceSingleRow(ids.new(), subquery.schema, subquery)
        schema = join_schema("inner", node.schema, subquery.schema)
        joined = DependentJoin(ids.new(), schema, node, subquery, tuple(zip(outer, columns, strict=True)))
        return joined, Column(subquery.schema.names[0])


def _with_columns(
    node: PlanNode, values: Sequence[Expr], ids: NodeIds, names: ColumnNames
) -> tuple[PlanNode, list[str]]:
    """The node with the values as columns."""
    computed = {names.new("outer"): value for value in values if not isinstance(value, Column)}
    new = iter(computed)
    columns = [value.name if isinstance(value, Column) else next(new) for value in values]
    if computed:
        kept = node.schema.names
        expressions = (*map(col, kept), *computed.values())
        node = Project(ids.new(), project_schema([*kept, *computed], expressions, node.schema), node, expressions)
    return node, columns


def gives_one_row(node: PlanNode) -> bool:
    """Whether the node is sure to give exactly one row."""
    if isinstance(node, Aggregate):
        return not node.keys and node.grouping_sets is None
    if isinstance(node, DependentJoin) and node.is_scalar:
        return gives_one_row(node.left)
    return isinstance(node, Project) and gives_one_row(node.child)
