"""Scopes of the expressions of a Substrait plan, and the relations that were read."""

from __future__ import annotations

from dataclasses import field

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Literal, OuterColumn, conjuncts
from qcore.plan.joins import conjunction
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Filter, PlanNode
from qcore.record import record


@record
class FieldScope:
    """The meaning of an expression's field references: `columns` has the column of `node` for each position, and
    `parameters` the values of the enclosing lambdas' parameters, the outermost lambda first.

    Reading a subquery joins it to `node`. It adds no position.
    """

    node: PlanNode
    columns: list[str]
    parameters: list[list[Bound]] = field(default_factory=list)

    def column(self, position: int) -> Bound:
        """The column at a position. PlanError if there is none."""
        if not 0 <= position < len(self.columns):
            raise PlanError(f"field {position} is referred to, but the input has {len(self.columns)} columns")
        name = self.columns[position]
        return Bound(Column(name), self.node.schema.field(name).type)

    def parameter(self, steps_out: int, position: int) -> Bound:
        """A parameter of the lambda that is so many steps out. PlanError if there is none."""
        found = self.parameters[-1 - steps_out] if 0 <= steps_out < len(self.parameters) else []
        if not 0 <= position < len(found):
            raise PlanError(
                f"parameter {position} of the lambda {steps_out} steps out is referred to, but does not exist"
            )
        return found[position]


@record
class OpenSubquery:
    """A subquery that is being read, in an expression at `scope`. `captured` has its outer columns by their columns of
    the scope.
    """

    scope: FieldScope
    captured: dict[str, str] = field(default_factory=dict)

    def outer(self, position: int, names: ColumnNames) -> Bound:
        """The outer column at a position of the scope."""
        value = self.scope.column(position)
        assert isinstance(value.expr, Column)
        column = value.expr.name
        if column not in self.captured:
            self.captured[column] = names.new(column)
        return Bound(OuterColumn(self.captured[column], value.type), value.type)


@record
class ReadRelation:
    """A relation that was read. `columns` are the names of its columns in `node`, which may have others too."""

    node: PlanNode
    columns: list[str]

    def scope(self) -> FieldScope:
        """The scope of expressions over this relation."""
        return FieldScope(self.node, self.columns)


def filter_rows(ids: NodeIds, node: PlanNode, predicate: Bound) -> PlanNode:
    """The rows for which the predicate is true: the node itself if that is a constant. PlanError unless boolean."""
    parts = [part for part in conjuncts(predicate.expr) if not (isinstance(part, Literal) and part.value is True)]
    if not pa.types.is_boolean(predicate.type) and not pa.types.is_null(predicate.type):
        raise PlanError(f"the condition {predicate.expr!r} is of type {predicate.type}, not boolean")
    condition = conjunction(parts)
    return node if condition is None else Filter(ids.new(), node.schema, node, condition)
