"""Rule: an inner join becomes a semi join where only one side's columns are used and repeated rows do not matter.

Repeated rows do not matter on the right side of semi, anti and mark joins, and below SELECT DISTINCT. In TPC-DS Q95 the
subquery of IN joins a table with itself: 6.6 million pairs become 0.6 million rows.
"""

from __future__ import annotations

from qcore.expression.tree import Expr, column_names
from qcore.optimizer.nodes import rebuilt, transform_plan
from qcore.plan.nodes import Aggregate, Filter, HashJoin, PlanNode, Project
from qcore.plan.schema import LEFT_ONLY, MARK_KINDS, join_schema

# Kinds whose output has each row of the left side at most once, and of the right side nothing or a mark.
_EXISTENCE_KINDS = LEFT_ONLY | MARK_KINDS
_FLIPPED_SIDE = {"left": "right", "right": "left"}


def make_existence_joins(plan: PlanNode) -> PlanNode:
    """Return the plan with semi joins in place of inner joins whose repeated rows do not matter.

    Columns that are not used must have been removed before.
    """
    return transform_plan(plan, _rewrite)


def _rewrite(node: PlanNode) -> PlanNode:
    if isinstance(node, HashJoin) and node.kind in _EXISTENCE_KINDS:
        right = _without_repeats(node.right, _columns_of_side(node, node.right, node.right_keys))
        return node if right is node.right else node.with_fields(right=right)
    if isinstance(node, Aggregate) and not node.aggregates:
        return rebuilt(node, (_without_repeats(node.child, _columns_of([expr for _, expr in node.keys])),))
    return node


def _without_repeats(node: PlanNode, wanted: set[str]) -> PlanNode:
    """A node with the same rows in the `wanted` columns, except that rows may be repeated less often."""
    if isinstance(node, Project):
        return rebuilt(node, (_without_repeats(node.child, _columns_of(node.expressions)),))
    if isinstance(node, Filter):
        return rebuilt(node, (_without_repeats(node.child, wanted | column_names(node.predicate)),))
    if not isinstance(node, HashJoin) or (node.kind != "inner" and node.kind not in _EXISTENCE_KINDS):
        return node
    left_columns = wanted & set(node.left.schema.names) | _columns_of_side(node, node.left, node.left_keys)
    left = _without_repeats(node.left, left_columns)
    if node.kind != "inner":
        return rebuilt(node, (left, node.right))
    right_columns = wanted & set(node.right.schema.names) | _columns_of_side(node, node.right, node.right_keys)
    right = _without_repeats(node.right, right_columns)
    if wanted <= set(left.schema.names):
        schema = join_schema("left_semi", left.schema, right.schema, "")
        return node.with_fields(kind="left_semi", left=left, right=right, schema=schema)
    if wanted <= set(right.schema.names):
        schema = join_schema("left_semi", right.schema, left.schema, "")
        return node.with_fields(
            kind="left_semi", left=right, right=left, left_keys=node.right_keys, right_keys=node.left_keys,
            build=_FLIPPED_SIDE[node.build], schema=schema,
        )  # fmt: skip
    return rebuilt(node, (left, right))


def _columns_of(expressions: list[Expr] | tuple[Expr, ...]) -> set[str]:
    return set().union(*map(column_names, expressions))


def _columns_of_side(node: HashJoin, side: PlanNode, keys: tuple[str, ...]) -> set[str]:
    """The columns of one side that the join itself reads."""
    condition = set() if node.condition is None else column_names(node.condition) & set(side.schema.names)
    return set(keys) | condition
