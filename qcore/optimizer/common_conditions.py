"""Rule: a condition that every branch of an OR has stands once, beside the OR.

(k = l and x) or (k = l and y) becomes k = l and (x or y): an equality of the two sides of a join becomes a key, and a
condition on one table can be pushed to its scan. In SQL's three-valued logic both are the same, of nulls too.
"""

from __future__ import annotations

from qcore.optimizer.nodes import transformed
from qcore.plan.disjunctions import factored
from qcore.plan.nodes import Filter, HashJoin, NestedLoopJoin, PlanNode


def factor_conditions(plan: PlanNode) -> PlanNode:
    """The plan with what is common to the branches of an OR taken out of it, in filters and conditions of joins."""
    return transformed(plan, _factor_node)


def _factor_node(node: PlanNode) -> PlanNode:
    if isinstance(node, Filter):
        predicate = factored(node.predicate)
        return node if predicate is node.predicate else node.with_fields(predicate=predicate)
    if isinstance(node, (HashJoin, NestedLoopJoin)) and node.condition is not None:
        condition = factored(node.condition)
        return node if condition is node.condition else node.with_fields(condition=condition)
    return node
