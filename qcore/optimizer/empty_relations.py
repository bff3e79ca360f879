"""Rule: what is computed of no rows gives no rows.

A condition that never holds, or LIMIT 0, makes a Values node of no rows. Joins with it, and what stands above them, go
too: an inner join has no rows, a left join gives nulls, an input of UNION ALL goes.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Expr, Literal, col
from qcore.optimizer.nodes import transformed
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import (
    Aggregate,
    Filter,
    HashJoin,
    Limit,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    TopN,
    UnionAll,
    Unnest,
    Values,
    Window,
)
from qcore.plan.schema import MARK_KINDS

# Kinds without rows if the left, or the right input has none, and those that give the left rows if the right has none.
_EMPTY_WITHOUT_LEFT = frozenset(
    {"inner", "left", "left_semi", "left_anti", "null_aware_anti", "right_semi", *MARK_KINDS}
)
_EMPTY_WITHOUT_RIGHT = frozenset({"inner", "right", "left_semi", "right_semi", "right_anti"})
_ALL_WITHOUT_RIGHT = frozenset({"left_anti", "null_aware_anti"})
# Kinds for which a condition that never holds is as a right input of no rows.
_NO_MATCH_AS_NO_RIGHT = frozenset({"inner", "left", "left_semi", "left_anti", "right_semi", "mark"})


def drop_empty_relations(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """The plan without nodes that certainly give no rows, or only nulls."""
    return transformed(plan, lambda node: _dropped(node, ids), ids)


def is_empty(node: PlanNode) -> bool:
    """Whether it is a constant of no rows."""
    return isinstance(node, Values) and node.data.num_rows == 0


def _dropped(node: PlanNode, ids: NodeIds) -> PlanNode:
    if isinstance(node, (HashJoin, NestedLoopJoin)):
        return _join(node, ids)
    if isinstance(node, UnionAll):
        return _union(node, ids)
    if isinstance(node, Limit) and node.count == 0:
        return _empty(node)
    if isinstance(node, TopN) and node.count == 0:
        return _empty(node)
    if isinstance(node, Aggregate):
        has_total = not node.keys if node.grouping_sets is None else not all(node.grouping_sets)
        return _empty(node) if is_empty(node.child) and not has_total else node
    if isinstance(node, (Filter, Limit, LocalPartition, OrderBy, Project, TopN, Unnest, Window)):
        return _empty(node) if is_empty(node.child) else node
    return node


def _empty(node: PlanNode) -> Values:
    return Values(node.id, node.schema, node.schema.empty_table())


def _join(node: HashJoin | NestedLoopJoin, ids: NodeIds) -> PlanNode:
    no_left, no_right = is_empty(node.left), is_empty(node.right)
    if _is_false(node.condition) and node.kind in _NO_MATCH_AS_NO_RIGHT:
        no_right = True
    if not no_left and not no_right:
        return node
    kind = node.kind
    if (no_left and kind in _EMPTY_WITHOUT_LEFT) or (no_right and kind in _EMPTY_WITHOUT_RIGHT):
        return _empty(node)
    if no_left and no_right:
        return _empty(node)
    if no_right:
        if kind in _ALL_WITHOUT_RIGHT:
            return node.left
        if kind in MARK_KINDS:
            return _beside(node, node.left, [Literal(False, pa.bool_())], ids)
        return _beside(node, node.left, _nulls(node.right), ids)  # left, full
    if kind == "right_anti":
        return node.right
    nulls = _nulls(node.left)  # right, full
    return Project(ids.new(), node.schema, node.right, (*nulls, *map(col, node.right.schema.names)))


def _is_false(condition: Expr | None) -> bool:
    return isinstance(condition, Literal) and condition.value is not True


def _beside(node: PlanNode, rows: PlanNode, values: list[Expr], ids: NodeIds) -> PlanNode:
    """The rows with constants as further columns."""
    return Project(ids.new(), node.schema, rows, (*map(col, rows.schema.names), *values))


def _nulls(node: PlanNode) -> list[Expr]:
    return [Literal(None, field.type) for field in node.schema]


def _union(node: UnionAll, ids: NodeIds) -> PlanNode:
    inputs = tuple(child for child in node.inputs if not is_empty(child))
    if len(inputs) == len(node.inputs):
        return node
    if not inputs:
        return _empty(node)
    names = inputs[0].schema.names
    if len(inputs) > 1 and names == node.schema.names:
        return node.with_fields(inputs=inputs)
    renamed = Project(ids.new(), node.schema, inputs[0], tuple(map(col, names)))
    return renamed if len(inputs) == 1 else node.with_fields(inputs=(renamed, *inputs[1:]))
