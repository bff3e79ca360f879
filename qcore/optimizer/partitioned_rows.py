"""Rule: if groups are small, rows are partitioned over the drivers before they are grouped.

By default each driver first groups its own rows, and groups are exchanged. That saves little if most groups have few
rows: nearly every row becomes a group and is grouped again after the exchange. With 10 million groups of 20 million
rows, partitioning the rows first needs two thirds of the processor time.
"""

from __future__ import annotations

from dataclasses import replace

from qcore.expression.tree import Column
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.nodes import transform_plan
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Aggregate, Filter, PlanNode, Project, Scan

# With fewer groups than this, each driver's table stays in its caches. With more rows a group than this, grouping in
# each driver reduces the rows.
GROUPS_MIN = 1 << 18
ROWS_PER_GROUP_MAX = 32.0
# A key with at most so many possible values for each group, and in total, is looked up in an array
# (aggregate/group_table).
CODES_PER_GROUP, CODES_MAX = 32, 1 << 24


def partition_rows_first(plan: PlanNode, estimator: Estimator, ids: NodeIds) -> PlanNode:
    """Return the plan with Aggregates marked whose only key is known to have nearly as many values as rows."""
    return transform_plan(plan, lambda node: _choose(node, estimator), ids)


def _choose(node: PlanNode, estimator: Estimator) -> PlanNode:
    if not isinstance(node, Aggregate) or len(node.keys) != 1 or node.grouping_sets is not None:
        return node
    key = node.keys[0][1]
    if not isinstance(key, Column):
        return node
    if all(estimator.rows(leaf) < GROUPS_MIN for leaf in node.walk() if not leaf.children):
        # The inputs are too small for so many values, and samples would cost more than the rest of planning.
        return node
    rows = estimator.rows(node.child)
    column = estimator.column(node.child, key.name)
    groups = min(rows, column.distinct)
    # The number of combinations of several keys is not known well enough.
    if not column.known or groups < GROUPS_MIN or rows > ROWS_PER_GROUP_MAX * groups:
        return node
    if column.is_clustered and column.origin is _scan_below(node.child):
        # The rows of a group come to one driver soon after each other: a small table there has all of them.
        return node
    if column.low is not None and column.high is not None:
        codes = column.high - column.low + 1
        if codes <= min(CODES_PER_GROUP * groups, CODES_MAX):
            return node
    return replace(node, rows_first=True)


def _scan_below(node: PlanNode) -> Scan | None:
    """The Scan whose rows reach a node in their order, if there is one."""
    while isinstance(node, (Filter, Project)):
        node = node.child
    return node if isinstance(node, Scan) else None
