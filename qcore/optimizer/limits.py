"""Rule: limits are pushed below projections, unions, left joins and mark joins. Limits over an order become top-ns."""

from __future__ import annotations

from dataclasses import replace

from qcore.optimizer.nodes import transform_plan
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import HashJoin, Limit, NestedLoopJoin, OrderBy, PlanNode, Project, TopN, UnionAll, Values
from qcore.plan.schema import MARK_KINDS
from qcore.plan.single_rows import gives_one_row_at_most

# A top-n keeps its rows sorted in memory. For more rows than this a full sort is faster.
TOP_N_ROWS_MAX = 100_000


def push_limits(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """Return the plan with limits as far down as possible."""
    return transform_plan(plan, lambda node: _push(node, ids) if isinstance(node, Limit) else node)


def _push(node: Limit, ids: NodeIds) -> PlanNode:
    child = node.child
    if node.count is None and node.offset == 0:
        return child
    if isinstance(child, Project):
        below = _push(node.with_fields(child=child.child, schema=child.child.schema), ids)
        return replace(child, child=below)
    if isinstance(child, Limit):
        return _push(replace(child, count=_both(child.count, node), offset=child.offset + node.offset), ids)
    if isinstance(child, TopN):
        count = _both(child.count, node)
        assert count is not None
        return replace(child, count=count, offset=child.offset + node.offset)
    if isinstance(child, OrderBy) and node.count is not None and node.count + node.offset <= TOP_N_ROWS_MAX:
        return TopN(node.id, node.schema, child.child, child.keys, node.count, node.offset)
    if isinstance(child, UnionAll) and node.count is not None:
        inputs = tuple(_first_rows(below, node.count + node.offset, ids) for below in child.inputs)
        return node if _same(inputs, child.inputs) else node.with_fields(child=child.with_children(*inputs))
    if isinstance(child, (HashJoin, NestedLoopJoin)) and node.count is not None:
        return _push_below_join(node, child, ids)
    return node


def _push_below_join(node: Limit, join: HashJoin | NestedLoopJoin, ids: NodeIds) -> PlanNode:
    """Push a limit to the left input of a left join or a mark join.

    A left join returns at least one row for each left row, so it needs at most as many left rows as the limit. A mark
    join returns exactly one row for each left row.
    """
    if join.kind in MARK_KINDS:
        left = _push(node.with_fields(child=join.left, schema=join.left.schema), ids)
        return join.with_fields(left=left)
    if join.kind != "left" or node.count is None:
        return node
    left = _first_rows(join.left, node.count + node.offset, ids)
    return node if left is join.left else node.with_fields(child=join.with_fields(left=left))


def _first_rows(node: PlanNode, count: int, ids: NodeIds) -> PlanNode:
    """Limit a node to `count` rows. A node that returns at most so many rows is returned unchanged."""
    if isinstance(node, (Limit, TopN)) and node.count is not None and node.count <= count:
        return node
    if isinstance(node, (Project, Values)) and gives_one_row_at_most(node):
        return node
    return _push(Limit(ids.new(), node.schema, node, count), ids)


def _same(new: tuple[PlanNode, ...], old: tuple[PlanNode, ...]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def _both(inner: int | None, outer: Limit) -> int | None:
    """The count of both limits together: `outer` over at most `inner` rows."""
    if inner is None:
        return outer.count
    left = max(0, inner - outer.offset)
    return left if outer.count is None else min(left, outer.count)
