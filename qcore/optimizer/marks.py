"""Rule: a mark join of which a filter wants one value of the mark is a semi or an anti join."""

from __future__ import annotations

from qcore.optimizer.nodes import transformed
from qcore.plan.marks import without_mark
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Filter, PlanNode


def replace_marks(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """The plan with EXISTS and IN that are conditions of a filter as semi and anti joins."""
    return transformed(plan, lambda node: without_mark(node, ids) if isinstance(node, Filter) else node, ids)
