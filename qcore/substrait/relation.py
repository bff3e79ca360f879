"""The result of reading a Substrait relation."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Expr, Literal, conjuncts
from qcore.functions.catalogue import expr_type
from qcore.plan.joins import conjunction
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Filter, PlanNode
from qcore.substrait.lambdas import Scope


@dataclass
class Relation:
    """A relation that was read. `columns` are the names of its columns in `node`, which may have others too."""

    node: PlanNode
    columns: list[str]

    def scope(self) -> Scope:
        """The scope of expressions over this relation."""
        return Scope(self.node, self.columns)


def filter_rows(ids: NodeIds, node: PlanNode, predicate: Expr) -> PlanNode:
    """The rows for which the predicate is true: the node itself if that is a constant. PlanError unless boolean."""
    parts = [part for part in conjuncts(predicate) if not (isinstance(part, Literal) and part.value is True)]
    condition = conjunction(parts)
    if condition is None:
        return node
    type_ = expr_type(condition, node.schema)
    if not pa.types.is_boolean(type_) and not pa.types.is_null(type_):
        raise PlanError(f"the condition {condition!r} is of type {type_}, not boolean")
    return Filter(ids.new(), node.schema, node, condition)
