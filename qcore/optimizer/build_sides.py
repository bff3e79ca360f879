"""Rule: the smaller input is the build side."""

from __future__ import annotations

from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.nodes import schema_of_join, transform_plan
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import HashJoin, NestedLoopJoin, PlanNode

# If a semi, anti or outer join builds on the side whose rows it keeps, it must mark the matched build rows. The other
# side must therefore be larger by this factor.
KEPT_SIDE_RATIO = 4.0
_KEEPS_LEFT = frozenset({"left_semi", "left_anti", "left"})


def choose_build_sides(plan: PlanNode, estimator: Estimator, ids: NodeIds) -> PlanNode:
    """Return the plan with the smaller input of each join as its build side.

    The inputs of inner joins are swapped; other joins get their attribute `build`.
    """
    return transform_plan(plan, lambda node: _choose(node, estimator), ids)


def _choose(node: PlanNode, estimator: Estimator) -> PlanNode:
    if not isinstance(node, (HashJoin, NestedLoopJoin)):
        return node
    left, right = estimator.rows(node.left), estimator.rows(node.right)
    if node.kind == "inner" and left < right:
        schema = schema_of_join(node, node.right.schema, node.left.schema)
        keys = {"left_keys": node.right_keys, "right_keys": node.left_keys} if isinstance(node, HashJoin) else {}
        return node.with_fields(left=node.right, right=node.left, schema=schema, **keys)
    if isinstance(node, HashJoin) and node.kind in _KEEPS_LEFT:
        build = "left" if left * KEPT_SIDE_RATIO < right else "right"
        return node if build == node.build else node.with_fields(build=build)
    return node
