"""Restore Shared nodes that another rule dropped.

A condition that is never true, and LIMIT 0, drop the subplan below. That subplan may contain the Shared node whose rows
other parts of the plan read. The first of these readers then computes them.
"""

from __future__ import annotations

from qcore.expression.tree import col
from qcore.optimizer.nodes import rebuilt
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import PlanNode, Project, Shared, SharedRead


def keep_shares(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """Return the plan with a Shared node for every SharedRead."""
    while (orphan := _orphan(plan)) is not None:
        plan = _with_subplan(plan, orphan, ids)
    return plan


def _orphan(plan: PlanNode) -> SharedRead | None:
    """Return a SharedRead whose subplan is not in the plan."""
    nodes = list(plan.walk())
    shared = {node.id for node in nodes if isinstance(node, Shared)}
    reads = (node for node in nodes if isinstance(node, SharedRead) and isinstance(node.like, Shared))
    return next((node for node in reads if node.of not in shared and node.like.id == node.of), None)


def _with_subplan(node: PlanNode, orphan: SharedRead, ids: NodeIds) -> PlanNode:
    if node is orphan:
        return Project(orphan.id, orphan.schema, orphan.like, tuple(col(name) for name in orphan.columns))
    children = list(node.children)
    for i, child in enumerate(children):
        children[i] = _with_subplan(child, orphan, ids)
        if children[i] is not child:
            return rebuilt(node, children, ids)
    return node
