"""Rule: a left join becomes an anti join if a filter keeps only rows without a match."""

from __future__ import annotations

from qcore.expression.tree import Call, Column, Expr, Literal, col, conjuncts
from qcore.optimizer.nodes import transform_plan
from qcore.plan.joins import conjunction
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Filter, HashJoin, PlanNode, Project


def make_anti_joins(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """Return the plan with LEFT JOIN … WHERE key IS NULL as anti joins. The key of a matched row is never null."""
    return transform_plan(plan, lambda node: _as_anti_join(node, ids), ids)


def _as_anti_join(node: PlanNode, ids: NodeIds) -> PlanNode:
    if not isinstance(node, Filter) or not isinstance(node.child, HashJoin) or node.child.kind != "left":
        return node
    join = node.child
    parts = conjuncts(node.predicate)
    rest = [part for part in parts if not _is_null_key(part, join)]
    if len(rest) == len(parts):
        return node
    left, right = join.left, join.right
    kept = HashJoin(join.id, left.schema, left, right, "left_anti", join.left_keys, join.right_keys, join.condition)
    nulls: list[Expr] = [Literal(None, type_) for type_ in right.schema.types]
    made = Project(ids.new(), join.schema, kept, (*map(col, left.schema.names), *nulls))
    predicate = conjunction(rest)
    return made if predicate is None else node.with_fields(child=made, predicate=predicate)


def _is_null_key(part: Expr, join: HashJoin) -> bool:
    if not isinstance(part, Call) or part.function != "is_null":
        return False
    (value,) = part.arguments
    return isinstance(value, Column) and value.name in join.right_keys
