"""Rule: left and anti joins are moved above inner joins that reduce their left rows.

(A ⟕ B) ⋈ C equals (A ⋈ C) ⟕ B if the inner join reads no column of B. The same holds for the anti join A ▷ B. The inner
joins below can then be ordered together.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Column, col, column_names
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.nodes import rebuilt, renames, transform_plan
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import HashJoin, NestedLoopJoin, PlanNode, Project

# An inner join that keeps every row is also passed, because a join that drops rows may be above it.
GROWTH_MAX = 1.05


def lift_outer_joins(plan: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    """Return the plan with such joins moved up. TPC-DS 80 is an example: it joins the sales of several years with their
    returns, and then selects a month.
    """
    return transform_plan(plan, lambda node: _lift_projection(node, ids, estimator), ids)


def _lift_projection(node: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    if not isinstance(node, HashJoin) or node.kind != "inner":
        return node
    needed = {*node.left_keys, *node.right_keys}
    if node.condition is not None:
        needed |= column_names(node.condition)
    for side, child in enumerate(node.children):
        projected = child if isinstance(child, Project) and _passes(child, needed) else None
        join = child if projected is None else projected.child
        if not isinstance(join, (HashJoin, NestedLoopJoin)) or join.kind not in ("left", "left_anti"):
            continue
        children = list(node.children)
        other = children[1 - side].schema.names
        if not set(other).isdisjoint(join.schema.names) or not needed <= {*other, *join.left.schema.names}:
            continue
        children[side] = join.left
        inner = _lift_projection(rebuilt(node, children, ids), ids, estimator)
        growth = GROWTH_MAX if join.kind == "left" else 1.0
        if estimator.rows(inner) <= growth * estimator.rows(join):
            lifted = rebuilt(join, [inner, join.right], ids)
            return lifted if projected is None else _extend_projection(projected, node.schema, lifted)
    return node


def _passes(node: Project, names: set[str]) -> bool:
    """Whether a projection passes these columns on unchanged and under their names."""
    given = renames(node)
    return all(isinstance(expr := given[name], Column) and expr.name == name for name in names & given.keys())


def _extend_projection(above: Project, schema: pa.Schema, child: PlanNode) -> Project:
    """Return the projection with additional columns, which it passes on unchanged."""
    given = renames(above)
    expressions = tuple(given.get(name, col(name)) for name in schema.names)
    return above.with_fields(schema=schema, child=child, expressions=expressions)
