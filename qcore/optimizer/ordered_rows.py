"""Rule: rows that a table has in the order of their only key are grouped without a table of groups.

Each run of equal keys is a group (aggregate/key_runs). All its rows are in one batch of a table in memory, or in one
row group of a file, except for the runs at the ends. So the groups need not be looked up, and not be merged after the
exchange. Whether the rows of a row group are in order is seen when they are read.
"""

from __future__ import annotations

from dataclasses import replace

from qcore.connectors.base import table_row_order
from qcore.expression.tree import Alias, Column
from qcore.optimizer.cardinality import Estimator
from qcore.optimizer.nodes import transform_plan
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Aggregate, Filter, PlanNode, Project, Scan

# Smaller tables are grouped fast enough. To know the order takes a pass over the column.
ROWS_MIN = 1 << 16
# Fewer groups are computed under a mask, or in registers.
GROUPS_MIN = 256


def mark_ordered_rows(plan: PlanNode, estimator: Estimator, ids: NodeIds) -> PlanNode:
    """Return the plan with `ordered_by` of Aggregates whose rows come in the order of their only key."""
    return transform_plan(plan, lambda node: _mark(node, estimator), ids)


def _mark(node: PlanNode, estimator: Estimator) -> PlanNode:
    if not isinstance(node, Aggregate) or len(node.keys) != 1 or node.grouping_sets is not None:
        return node
    found = _scanned_column(node)
    if found is None:
        return node
    scan, column = found
    if not hasattr(scan.source, "row_order") or estimator.rows(scan) < ROWS_MIN:
        return node
    estimate = estimator.column(scan, scan.schema.names[scan.columns.index(column)])
    if estimate.known and estimate.distinct < GROUPS_MIN:
        return node
    if table_row_order(scan.source, column) is None:
        return node
    return replace(node, ordered_by=column, partition_keys=())


def _scanned_column(node: Aggregate) -> tuple[Scan, str] | None:
    """The Scan whose rows reach the node in their order, and its table's column that is the key."""
    key = node.keys[0][1]
    child = node.child
    while isinstance(child, (Filter, Project)) and isinstance(key, Column):
        if isinstance(child, Project):
            key = child.expressions[child.schema.names.index(key.name)]
            while isinstance(key, Alias):
                key = key.argument
        child = child.child
    if not isinstance(child, Scan) or not isinstance(key, Column):
        return None
    return child, child.columns[child.schema.names.index(key.name)]
