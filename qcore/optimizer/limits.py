"""Rule: limits go down, and a limit over an order becomes a top-n."""

from __future__ import annotations

from dataclasses import replace

from qcore.optimizer.nodes import transformed
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Limit, OrderBy, PlanNode, Project, TopN

# A top-n keeps its rows in memory sorted as they come; past this a full sort is the better plan.
TOP_N_ROWS_MAX = 100_000


def push_limits(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """The plan with limits as far down as they go."""
    return transformed(plan, lambda node: _push(node, ids) if isinstance(node, Limit) else node)


def _push(node: Limit, ids: NodeIds) -> PlanNode:
    child = node.child
    if node.count is None and node.offset == 0:
        return child
    if isinstance(child, Project):
        below = _push(replace(node, child=child.child, schema=child.child.schema), ids)
        return replace(child, child=below)
    if isinstance(child, Limit):
        return _push(replace(child, count=_both(child.count, node), offset=child.offset + node.offset), ids)
    if isinstance(child, TopN):
        count = _both(child.count, node)
        assert count is not None
        return replace(child, count=count, offset=child.offset + node.offset)
    if isinstance(child, OrderBy) and node.count is not None and node.count + node.offset <= TOP_N_ROWS_MAX:
        return TopN(node.id, node.schema, child.child, child.keys, node.count, node.offset)
    return node


def _both(inner: int | None, outer: Limit) -> int | None:
    """Rows left when `outer` takes from `inner` rows."""
    if inner is None:
        return outer.count
    left = max(0, inner - outer.offset)
    return left if outer.count is None else min(left, outer.count)
