"""Rule: a mark join below a filter on its mark becomes a semi join or an anti join."""

from __future__ import annotations

from qcore.optimizer.nodes import transform_plan
from qcore.plan.marks import without_mark
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Filter, PlanNode


def replace_marks(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """Return the plan with EXISTS and IN in filters as semi joins and anti joins."""
    return transform_plan(plan, lambda node: without_mark(node, ids) if isinstance(node, Filter) else node, ids)
