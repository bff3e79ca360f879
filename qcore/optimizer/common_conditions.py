"""Rule: a condition that all branches of an OR have in common is moved out of the OR.

(k = l and x) or (k = l and y) becomes k = l and (x or y). An equality of the two sides of a join can then become a key,
and a condition on one table can be pushed to its scan. Both forms are equal in SQL's three-valued logic.
"""

from __future__ import annotations

from qcore.optimizer.nodes import transform_plan
from qcore.plan.disjunctions import factor_condition
from qcore.plan.nodes import Filter, HashJoin, NestedLoopJoin, PlanNode


def factor_conditions(plan: PlanNode) -> PlanNode:
    """Return the plan with common conditions moved out of ORs, in filters and conditions of joins."""
    return transform_plan(plan, _factor_node)


def _factor_node(node: PlanNode) -> PlanNode:
    if isinstance(node, Filter):
        predicate = factor_condition(node.predicate)
        return node if predicate is node.predicate else node.with_fields(predicate=predicate)
    if isinstance(node, (HashJoin, NestedLoopJoin)) and node.condition is not None:
        condition = factor_condition(node.condition)
        return node if condition is node.condition else node.with_fields(condition=condition)
    return node
