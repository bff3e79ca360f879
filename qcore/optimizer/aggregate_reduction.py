"""Rule: an aggregate whose groups are joined with few keys computes only those groups.

A correlated subquery (TPC-H Q2, Q17, Q20) becomes an aggregate over all of a large table, joined with few rows of
another. Those rows come from a filtered scan. The rule adds a semi join with a copy of that scan below the aggregate,
so that only rows with these keys are grouped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from qcore.expression.tree import Column, col
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.nodes import rebuilt, renames, transform_plan
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Aggregate, Filter, HashJoin, PlanNode, Project, Scan
from qcore.plan.schema import MARK_KINDS, same_type

# The rule applies if at most this fraction of the groups remains, and if the copied scan reads at most this fraction of
# the rows of the aggregate's largest input.
GROUPS_MAX = 0.2
SCAN_COST_MAX = 0.25

# Join kinds without output rows for unmatched right (left) rows.
_DROPS_RIGHT = frozenset({"inner", "left", "left_semi", "left_anti", "mark"})
_DROPS_LEFT = frozenset({"inner", "right", "right_semi", "right_anti"})

Source = tuple[PlanNode, str]


def reduce_aggregates(plan: PlanNode, ids: NodeIds, estimator: Estimator) -> PlanNode:
    """Return the plan with semi joins below aggregates of which few groups are used."""
    return transform_plan(plan, lambda node: _reduce(node, ids, estimator) if isinstance(node, HashJoin) else node, ids)


def _reduce(node: HashJoin, ids: NodeIds, estimator: Estimator) -> PlanNode:
    left, right = node.left, node.right
    if node.kind in _DROPS_RIGHT:
        right = _reduce_side(right, list(zip(node.right_keys, node.left_keys, strict=True)), left, ids, estimator)
    if node.kind in _DROPS_LEFT:
        left = _reduce_side(left, list(zip(node.left_keys, node.right_keys, strict=True)), node.right, ids, estimator)
    return rebuilt(node, [left, right])


def _reduce_side(
    side: PlanNode, keys: list[tuple[str, str]], other: PlanNode, ids: NodeIds, estimator: Estimator
) -> PlanNode:
    """Return `side`, whose keys are compared with those of `other`, with its aggregate reduced if that saves work."""
    if isinstance(side, Filter):
        return rebuilt(side, [_reduce_side(side.child, keys, other, ids, estimator)])
    if isinstance(side, Project):
        of = renames(side)
        below = [(expr.name, b) for a, b in keys if isinstance(expr := of[a], Column)]
        return rebuilt(side, [_reduce_side(side.child, below, other, ids, estimator)])
    if not isinstance(side, Aggregate) or side.grouping_sets is not None:
        return side
    grouped = dict(side.keys)
    for group, other_key in keys:
        column = grouped.get(group)
        if not isinstance(column, Column) or _is_reduced(side.child, column.name):
            continue
        found = _best_source(other, other_key, side.child, column.name, estimator)
        if found is not None:
            return replace(side, child=_semi_join(side.child, column.name, found, ids))
    return side


def _is_reduced(node: PlanNode, column: str) -> bool:
    """Whether there is already a semi join on the column below."""
    return any(
        isinstance(below, HashJoin) and below.kind == "left_semi" and below.left_keys == (column,)
        for below in node.walk()
    )


def _best_source(other: PlanNode, other_key: str, child: PlanNode, column: str, estimator: Estimator) -> Source | None:
    """The smallest filtered scan with all values of `other_key`, if copying it saves work."""
    groups = estimator.column(child, column).distinct
    rows = max(estimator.rows(below) for below in child.walk())
    best: Source | None = None
    for source in _sources(other, other_key):
        node, name = source
        if not same_type(node.schema.field(name).type, child.schema.field(column).type):
            continue
        scan_rows = max(estimator.rows(below) for below in node.walk())
        if estimator.rows(node) > GROUPS_MAX * groups or scan_rows > SCAN_COST_MAX * rows:
            continue
        if best is None or estimator.rows(node) < estimator.rows(best[0]):
            best = source
    return best


def _sources(node: PlanNode, name: str) -> Iterator[Source]:
    """Filtered scans in `node` with a column that contains every value of the column `name` of `node`."""
    if _is_filtered_scan(node):
        yield node, name
    elif isinstance(node, Filter):
        yield from _sources(node.child, name)
    elif isinstance(node, Project):
        expr = renames(node)[name]
        if isinstance(expr, Column):
            yield from _sources(node.child, expr.name)
    elif isinstance(node, Aggregate):
        key = dict(node.keys).get(name)
        if isinstance(key, Column):
            yield from _sources(node.child, key.name)
    elif isinstance(node, HashJoin):
        yield from _sources_of_join(node, name)


def _sources_of_join(node: HashJoin, name: str) -> Iterator[Source]:
    in_left = name in node.left.schema.names
    if in_left and node.kind in ("inner", "left", "left_semi", "left_anti", "null_aware_anti", *MARK_KINDS):
        yield from _sources(node.left, name)
    if not in_left and node.kind in ("inner", "right", "right_semi", "right_anti"):
        yield from _sources(node.right, name)
    if node.kind not in ("inner", "left_semi", "right_semi"):
        return
    # An output row has the same key value on both sides.
    for a, b in zip(node.left_keys, node.right_keys, strict=True):
        if in_left and a == name:
            yield from _sources(node.right, b)
        elif not in_left and b == name:
            yield from _sources(node.left, a)


def _is_filtered_scan(node: PlanNode) -> bool:
    """A Filter on a Scan that can be read twice."""
    return isinstance(node, Filter) and isinstance(node.child, Scan) and node.child.source is not None


def _semi_join(child: PlanNode, column: str, source: Source, ids: NodeIds) -> PlanNode:
    node, name = source
    key = ColumnNames(child.schema.names).new(name)
    schema = pa.schema([pa.field(key, node.schema.field(name).type)])
    keys = Project(ids.new(), schema, _copy_node(node, ids), (col(name),))
    return HashJoin(ids.new(), child.schema, child, keys, "left_semi", (column,), (key,))


def _copy_node(node: PlanNode, ids: NodeIds) -> PlanNode:
    children = tuple(_copy_node(child, ids) for child in node.children)
    return replace(node.with_children(*children) if children else node, id=ids.new())
