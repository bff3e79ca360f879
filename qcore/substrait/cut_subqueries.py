"""Subqueries that a frontend has cut out of a query, and the calls that stand for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Column, Expr, OuterColumn
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import DependentJoin, EnforceSingleRow, PlanNode
from qcore.plan.projections import add_columns
from qcore.plan.schema import join_schema
from qcore.plan.single_rows import gives_one_row

Maker = Callable[[NodeIds, ColumnNames], PlanNode]


@dataclass
class CutSubqueries:
    """By the name of the function that stands for it: the type of an outer column; the outer columns of a subquery and
    a function that makes its plan, which has one column.
    """

    outer_types: dict[str, pa.DataType] = field(default_factory=dict)
    scalars: dict[str, tuple[Sequence[str], Maker]] = field(default_factory=dict)

    def value(
        self, name: str, arguments: Sequence[Expr], node: PlanNode, ids: NodeIds, names: ColumnNames
    ) -> tuple[PlanNode, Expr]:
        """The value of such a call over `node`, and the node whose column it is."""
        if name in self.outer_types:
            return node, OuterColumn(name, self.outer_types[name])
        if name not in self.scalars:
            raise PlanError(f"the function {name} is not supported yet")
        outer, make = self.scalars[name]
        node, columns = _compute_columns(node, arguments, ids, names)
        for function, column in zip(outer, columns, strict=True):
            self.outer_types[function] = node.schema.field(column).type
        subquery = make(ids, names)
        if not gives_one_row(subquery):
            subquery = EnforceSingleRow(ids.new(), subquery.schema, subquery)
        schema = join_schema("inner", node.schema, subquery.schema)
        joined = DependentJoin(ids.new(), schema, node, subquery, tuple(zip(outer, columns, strict=True)))
        return joined, Column(subquery.schema.names[0])


def _compute_columns(
    node: PlanNode, values: Sequence[Expr], ids: NodeIds, names: ColumnNames
) -> tuple[PlanNode, list[str]]:
    """The node with the values as columns, and their names."""
    computed = {names.new("outer"): value for value in values if not isinstance(value, Column)}
    new = iter(computed)
    columns = [value.name if isinstance(value, Column) else next(new) for value in values]
    return add_columns(ids.new(), node, computed) if computed else node, columns
