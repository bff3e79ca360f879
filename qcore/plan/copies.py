"""Copies of a subplan, for readers that cannot use a shared one."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import col
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import (
    Aggregate,
    DependentJoin,
    EnforceSingleRow,
    Filter,
    HashJoin,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    PlanNode,
    Project,
    Scan,
    Shared,
    SharedRead,
    UnionAll,
    Unnest,
    Values,
)

# Nodes that return the same rows each time they run.
_STEADY = (
    DependentJoin,
    EnforceSingleRow,
    Filter,
    HashJoin,
    LocalPartition,
    NestedLoopJoin,
    OrderBy,
    Project,
    UnionAll,
    Unnest,
    Values,
)
# Aggregates whose result, unless it is a float, does not depend on the order of the rows.
_ORDERLESS = frozenset({"count", "sum", "min", "max", "avg", "bool_and", "bool_or"})


def is_steady(node: PlanNode) -> bool:
    """Whether the subplan certainly returns the same rows each time it runs. Limits, row numbers, sums of floats and
    operators written in Python may return other rows.
    """
    if isinstance(node, (Shared, SharedRead)):
        return is_steady(node.child if isinstance(node, Shared) else node.like)
    if isinstance(node, Scan):
        return node.source is not None
    if isinstance(node, Aggregate):
        types = [node.schema.field(one.name).type for one in node.aggregates]
        functions = {one.function for one in node.aggregates}
        if not functions <= _ORDERLESS or any(map(pa.types.is_floating, types)):
            return False
    elif not isinstance(node, _STEADY):
        return False
    return all(map(is_steady, node.children))


def copy_plan(node: PlanNode, ids: NodeIds) -> PlanNode:
    """Return the same subplan under new ids, with separate copies of its shared subplans."""
    return _copy_node(node, ids, {})


def _copy_node(node: PlanNode, ids: NodeIds, shared: dict[str, Shared]) -> PlanNode:
    if isinstance(node, SharedRead):
        assert isinstance(node.like, Shared)
        if node.of in shared:
            return node.with_fields(id=ids.new(), of=shared[node.of].id, like=shared[node.of])
        return Project(ids.new(), node.schema, _copy_node(node.like, ids, shared), tuple(map(col, node.columns)))
    if isinstance(node, Shared):
        if node.id in shared:
            known = shared[node.id]
            return SharedRead(ids.new(), node.schema, known.id, tuple(node.schema.names), known)
        made = Shared(ids.number_word(node.id), node.schema, _copy_node(node.child, ids, shared))
        shared[node.id] = made
        return made
    children = tuple(_copy_node(child, ids, shared) for child in node.children)
    return (node.with_children(*children) if children else node).with_fields(id=ids.new())
