"""Rule: adjacent projections are merged, and projections that change nothing are dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from qcore.expression.tree import Alias, Column, Expr, Literal, depth, substitute, walk
from qcore.optimizer.nodes import renames, transform_plan
from qcore.plan.nodes import Aggregate, PlanNode, Project

# The most levels of a merged expression, because code that visits an expression recurses once for each level.
DEPTH_MAX = 100


def merge_projections(plan: PlanNode) -> PlanNode:
    """Return the plan with fewer Projects."""
    return transform_plan(plan, _merge)


def _merge(node: PlanNode) -> PlanNode:
    if not isinstance(node, Project):
        return node
    child = node.child
    if isinstance(child, Project) and _may_merge(node, child):
        by_name = renames(child)
        expressions = tuple(substitute(expr, by_name) for expr in node.expressions)
        return _merge(node.with_fields(child=child.child, expressions=expressions))
    if node.schema.names == child.schema.names and all(
        isinstance(expr, Column) and expr.name == name
        for name, expr in zip(node.schema.names, node.expressions, strict=True)
    ):
        return child
    if isinstance(child, Aggregate) and _only_renames(node, child):
        return _rename_outputs(child, node)
    return node


def _only_renames(node: Project, child: Aggregate) -> bool:
    """Whether the Project only renames the columns of the aggregate: all of them, in order, to distinct names."""
    return (
        len(node.expressions) == len(child.schema)
        and child.grouping_id is None
        and all(
            isinstance(expr, Column) and expr.name == name
            for name, expr in zip(child.schema.names, node.expressions, strict=True)
        )
    )


def _rename_outputs(child: Aggregate, node: Project) -> Aggregate:
    names = node.schema.names
    n_keys = len(child.keys)
    keys = tuple((name, expr) for name, (_, expr) in zip(names[:n_keys], child.keys, strict=True))
    calls = tuple(replace(call, name=name) for name, call in zip(names[n_keys:], child.aggregates, strict=True))
    return replace(child, schema=node.schema, keys=keys, aggregates=calls)


def _may_merge(outer: Project, inner: Project) -> bool:
    """Whether two projections can be merged: no expression is then computed twice or becomes too deep."""
    uses = Counter(part.name for expr in outer.expressions for part in walk(expr) if isinstance(part, Column))
    if not all(uses[name] <= 1 or _is_free(expr) for name, expr in renames(inner).items()):
        return False
    levels = [max(map(depth, node.expressions), default=0) for node in (outer, inner)]
    return min(levels) == 1 or sum(levels) <= DEPTH_MAX


def _is_free(expr: Expr) -> bool:
    while isinstance(expr, Alias):
        expr = expr.argument
    return isinstance(expr, (Column, Literal))
