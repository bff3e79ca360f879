"""Functions that rebuild nodes over other inputs and renumber them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import pyarrow as pa

from qcore.expression.tree import Expr, col
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import (
    Aggregate,
    AggregateStep,
    Binary,
    HashJoin,
    NestedLoopJoin,
    PlanNode,
    Project,
    RecursiveUnion,
    Scan,
    Shared,
    Sink,
    TableWrite,
    Unary,
    UnionAll,
    Unnest,
    UserOperator,
    Window,
)
from qcore.plan.planning_time import check_planning
from qcore.plan.schema import MARK_KINDS, join_schema, project_schema, unnest_schema


def rebuilt(node: PlanNode, children: Sequence[PlanNode], ids: NodeIds | None = None) -> PlanNode:
    """Return `node` over inputs that have the same columns, possibly in another order and with additional columns.

    Nodes that read columns by position (unions, callbacks, operators in Python) get a projection that restores the
    order, which needs `ids`.
    """
    old = node.children
    if all(map(operator.is_, old, children)):
        return node
    if isinstance(node, (UnionAll, RecursiveUnion, UserOperator, TableWrite, Sink)):
        ordered = [keep_columns(new, was.schema.names, ids) for was, new in zip(old, children, strict=True)]
        return node.with_children(*ordered)
    if isinstance(node, (HashJoin, NestedLoopJoin)):
        left, right = children
        return node.with_fields(left=left, right=right, schema=schema_of_join(node, left.schema, right.schema))
    if isinstance(node, (Project, Aggregate, AggregateStep, Shared)):
        return node.with_children(*children)
    if isinstance(node, Window):
        return window_over(node, children[0])
    if isinstance(node, Unnest):
        schema = unnest_schema(children[0].schema, node.lists, node.ordinality)
        return node.with_fields(child=children[0], schema=schema)
    if isinstance(node, Unary):
        return node.with_fields(child=children[0], schema=children[0].schema)
    assert not isinstance(node, Binary)
    return node.with_children(*children)


def window_over(node: Window, child: PlanNode) -> Window:
    """Return the same window calls over another input."""
    added = [node.schema.field(call.name) for call in node.calls]
    return node.with_fields(child=child, schema=pa.schema([*child.schema, *added]))


def schema_of_join(node: HashJoin | NestedLoopJoin, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The schema of a join over other inputs. A mark column keeps its name."""
    if left is node.left.schema and right is node.right.schema:
        return node.schema
    return join_schema(node.kind, left, right, node.schema.names[-1] if node.kind in MARK_KINDS else "")


def keep_columns(node: PlanNode, names: Sequence[str], ids: NodeIds | None) -> PlanNode:
    """Return a node with exactly these columns of `node`, in this order."""
    names = list(names)
    if node.schema.names == names:
        return node
    if isinstance(node, Project):
        by_name = dict(zip(node.schema.names, node.expressions, strict=True))
        schema = pa.schema([node.schema.field(name) for name in names])
        return node.with_fields(schema=schema, expressions=tuple(by_name[name] for name in names))
    assert ids is not None, "restoring the order of columns needs new node ids"
    expressions = [col(name) for name in names]
    return Project(ids.new(), project_schema(names, expressions, node.schema), node, tuple(expressions))


def transform_plan(node: PlanNode, rule: Callable[[PlanNode], PlanNode], ids: NodeIds | None = None) -> PlanNode:
    """Apply a rule to every node, inputs first."""
    if isinstance(node, Unary):
        child = transform_plan(node.child, rule, ids)
        return rule(node if child is node.child else rebuilt(node, (child,), ids))
    old = node.children
    if not old:
        check_planning()
        return rule(node)
    children = [transform_plan(child, rule, ids) for child in old]
    return rule(node if all(map(operator.is_, old, children)) else rebuilt(node, children, ids))


def renames(node: Project) -> dict[str, Expr]:
    """The expressions of a Project by name."""
    return dict(zip(node.schema.names, node.expressions, strict=True))


def renumber_nodes(plan: PlanNode) -> PlanNode:
    """Number the nodes from the root down. Scans, and nodes whose id is not a number, keep their ids."""
    kept = {node.id for node in plan.walk() if isinstance(node, Scan) or not node.id.isdigit()}
    ids = NodeIds(kept)

    def number(node: PlanNode) -> PlanNode:
        new_id = node.id if node.id in kept else ids.new()
        if isinstance(node, Unary):
            child = number(node.child)
            is_same = child is node.child and new_id == node.id
            return node if is_same else node.with_fields(id=new_id, child=child)
        old = node.children
        children = tuple([number(child) for child in old])
        if new_id == node.id and all(map(operator.is_, children, old)):
            return node
        if isinstance(node, Binary):
            left, right = children
            return node.with_fields(id=new_id, left=left, right=right)
        node = node.with_children(*children) if children else node
        return node.with_fields(id=new_id)

    return number(plan)
