"""Rule: a scan gets the filter above it, so that its connector can skip files and row groups."""

from __future__ import annotations

from qcore.expression.tree import same
from qcore.optimizer.nodes import transform_plan
from qcore.plan.nodes import Filter, PlanNode, Scan


def give_filters_to_scans(plan: PlanNode) -> PlanNode:
    """Return the plan with each Filter above a Scan copied to the Scan. The Filter remains, because connectors may
    return rows that fail it.
    """
    return transform_plan(plan, _give)


def _give(node: PlanNode) -> PlanNode:
    if isinstance(node, Filter) and isinstance(node.child, Scan):
        scan = node.child
        if scan.filter is None or not same(scan.filter, node.predicate):
            return node.with_fields(child=scan.with_fields(filter=node.predicate))
    return node
