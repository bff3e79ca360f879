"""Rule: left and anti joins go above inner joins that leave fewer rows for them.

A ⟕ B ⋈ C is (A ⋈ C) ⟕ B where the inner join reads nothing of B; so is A ▷ B. The inner joins below can then be ordered
together.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Column, col, column_names
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.nodes import rebuilt, renames, transformed
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import HashJoin, NestedLoopJoin, PlanNode, Project

# A join with a table of which every row has one match is lifted over too: another that filters may stand above it.
GROWTH_MAX = 1.05


def lift_outer_joins(plan: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    """The plan with such joins late. TPC-DS 80 is the reason: it joins the sales of years with their returns, and then
    takes those of a month.
    """
    return transformed(plan, lambda node: _lifted(node, ids, estimator), ids)


def _lifted(node: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    if not isinstance(node, HashJoin) or node.kind != "inner":
        return node
    needed = {*node.left_keys, *node.right_keys}
    if node.condition is not None:
        needed |= column_names(node.condition)
    for place, child in enumerate(node.children):
        projected = child if isinstance(child, Project) and _passes(child, needed) else None
        join = child if projected is None else projected.child
        if not isinstance(join, (HashJoin, NestedLoopJoin)) or join.kind not in ("left", "left_anti"):
            continue
        children = list(node.children)
        other = children[1 - place].schema.names
        if not set(other).isdisjoint(join.schema.names) or not needed <= {*other, *join.left.schema.names}:
            continue
        children[place] = join.left
        inner = _lifted(rebuilt(node, children, ids), ids, estimator)
        growth = GROWTH_MAX if join.kind == "left" else 1.0
        if estimator.rows(inner) <= growth * estimator.rows(join):
            lifted = rebuilt(join, [inner, join.right], ids)
            return lifted if projected is None else _projected(projected, node.schema, lifted)
    return node


def _passes(node: Project, names: set[str]) -> bool:
    """Whether a projection passes on what it gives of these columns, under their names."""
    given = renames(node)
    return all(isinstance(expr := given[name], Column) and expr.name == name for name in names & given.keys())


def _projected(above: Project, schema: pa.Schema, child: PlanNode) -> Project:
    """The projection over more columns, which it passes on."""
    given = renames(above)
    expressions = tuple(given.get(name, col(name)) for name in schema.names)
    return above.with_fields(schema=schema, child=child, expressions=expressions)
