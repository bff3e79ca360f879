"""Rule: nodes over empty inputs are replaced by empty inputs.

A condition that is never true, and LIMIT 0, become a Values node without rows. An inner join with it also becomes
empty. A left join becomes a projection that adds nulls. An empty input of UNION ALL is dropped.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Expr, Literal, col
from qcore.optimizer.nodes import transform_plan
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

# Join kinds that are empty if the left (right) input is empty, and kinds that return all left rows if the right input
# is empty.
_EMPTY_WITHOUT_LEFT = frozenset(
    {"inner", "left", "left_semi", "left_anti", "null_aware_anti", "right_semi", *MARK_KINDS}
)
_EMPTY_WITHOUT_RIGHT = frozenset({"inner", "right", "left_semi", "right_semi", "right_anti"})
_ALL_WITHOUT_RIGHT = frozenset({"left_anti", "null_aware_anti"})
# Join kinds for which a condition that is never true has the same effect as an empty right input.
_NO_MATCH_AS_NO_RIGHT = frozenset({"inner", "left", "left_semi", "left_anti", "right_semi", "mark"})


def drop_empty_relations(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """Return the plan without nodes that certainly return no rows, or only nulls."""
    return transform_plan(plan, lambda node: _drop_empty(node, ids), ids)


def is_empty(node: PlanNode) -> bool:
    """Whether the node is a Values node without rows."""
    return isinstance(node, Values) and node.data.num_rows == 0


def _drop_empty(node: PlanNode, ids: NodeIds) -> PlanNode:
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
    return Values(node.id, node.schema, pa.Table.from_batches([], node.schema))


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
    """Return the rows with constants as additional columns."""
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
