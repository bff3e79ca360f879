"""Nodes that return one row, as far as the plan alone shows."""

from __future__ import annotations

from qcore.plan.nodes import (
    Aggregate,
    DependentJoin,
    EnforceSingleRow,
    Filter,
    Limit,
    OrderBy,
    PlanNode,
    Project,
    TopN,
    Values,
    Window,
)

# Kinds of dependent joins that return one row for each row of the left input.
ONE_FOR_EACH = frozenset({"scalar", "mark", "null_aware_mark"})


def gives_one_row(node: PlanNode) -> bool:
    """Whether the node certainly returns exactly one row."""
    if isinstance(node, Aggregate):
        return not node.keys and node.grouping_sets is None
    if isinstance(node, DependentJoin) and node.kind in ONE_FOR_EACH:
        return gives_one_row(node.left)
    if isinstance(node, Values):
        return bool(node.data.num_rows == 1)
    if isinstance(node, (Project, OrderBy, Window)):
        return gives_one_row(node.child)
    return isinstance(node, EnforceSingleRow)


def gives_one_row_at_most(node: PlanNode) -> bool:
    """Whether the node certainly returns at most one row."""
    if isinstance(node, (Limit, TopN)) and node.count is not None and node.count <= 1:
        return True
    if isinstance(node, (Project, OrderBy, Window, Filter, Limit, TopN)):
        return gives_one_row_at_most(node.child)
    return gives_one_row(node)
