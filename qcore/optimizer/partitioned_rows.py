"""Rule: if there are many groups, rows are partitioned over the drivers before they are grouped.

By default each driver first groups its own rows, and groups are exchanged. That saves little if most groups have few
rows: nearly every row becomes a group and is grouped again after the exchange. With 10 million groups of 20 million
rows, partitioning the rows first needs two thirds of the processor time.

Rows of fixed width are exchanged in pages of parts (exchange/part_pages), so that no driver partitions them again. Then
it also needs less time where each driver would partition its rows because there are more groups than its caches hold:
0.8 of the time with 300,000 groups.

How many combinations of several keys there are is not known well. But if one of the keys has nearly as many values as
there are rows, so have the groups. The rows are then partitioned by that key alone, and the other keys are not hashed
for it. TPC-H Q10, which groups by seven columns of customers, needs 0.86 of the processor time.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from qcore.expression.tree import Column, column_names
from qcore.optimizer.cardinality import ColumnEstimate, Estimator
from qcore.optimizer.nodes import transform_plan
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Aggregate, Filter, PlanNode, Project, Scan

# With fewer groups than this, each driver's table stays in its caches. With more rows a group than this, grouping in
# each driver reduces the rows.
GROUPS_MIN = 1 << 18
ROWS_PER_GROUP_MAX = 32.0
# The same for rows of fixed width of which no key has more than this share, as its rows go to one driver.
PAGED_GROUPS_MIN = 1 << 17
PAGED_KEY_SHARE_MAX = 1 / 32
# One of several keys has nearly as many values as there are rows, if each has at most this number of rows: then there
# are more than half as many groups as rows.
ROWS_PER_VALUE_MAX = 1.5
VALUES_MIN = 1 << 13
# A key with at most so many possible values for each group, and in total, is looked up in an array
# (aggregate/group_table).
CODES_PER_GROUP, CODES_MAX = 32, 1 << 24


def partition_rows_first(plan: PlanNode, estimator: Estimator, ids: NodeIds) -> PlanNode:
    """Return the plan with `partition_keys` of Aggregates that are known to have many groups."""
    return transform_plan(plan, lambda node: _choose(node, estimator), ids)


def _choose(node: PlanNode, estimator: Estimator) -> PlanNode:
    if not isinstance(node, Aggregate) or not node.keys or node.grouping_sets is not None or node.ordered_by:
        return node
    if all(estimator.rows(leaf) < PAGED_GROUPS_MIN for leaf in node.walk() if not leaf.children):
        # The inputs are too small for so many values, and samples would cost more than the rest of planning.
        return node
    if len(node.keys) > 1:
        at = _distinct_key(node, estimator)
        return node if at is None else replace(node, partition_keys=(at,))
    key = node.keys[0][1]
    if not isinstance(key, Column):
        return node
    rows = estimator.rows(node.child)
    column = estimator.column(node.child, key.name)
    groups = min(rows, column.distinct)
    if not column.known or groups < PAGED_GROUPS_MIN:
        return node
    if (groups < GROUPS_MIN or rows > ROWS_PER_GROUP_MAX * groups) and not _goes_into_pages(node, column):
        return node
    if column.is_clustered and column.origin is _scan_below(node.child):
        # The rows of a group come to one driver soon after each other: a small table there has all of them.
        return node
    if column.low is not None and column.high is not None:
        codes = column.high - column.low + 1
        if codes <= min(CODES_PER_GROUP * groups, CODES_MAX):
            return node
    return replace(node, partition_keys=(0,))


def _distinct_key(node: Aggregate, estimator: Estimator) -> int | None:
    """The position of a key that has nearly as many values as there are rows. One of fixed width is preferred."""
    rows = estimator.rows(node.child)
    found = None
    if rows < VALUES_MIN:
        return None
    for at, (_, key) in enumerate(node.keys):
        if not isinstance(key, Column):
            continue
        column = estimator.column(node.child, key.name)
        if not column.known or column.distinct * ROWS_PER_VALUE_MAX < rows:
            continue
        if max(column.most_common_share or 0.0, column.null_fraction) > PAGED_KEY_SHARE_MAX:
            continue
        if _is_fixed(node.child.schema.field(key.name).type):
            return at
        found = at if found is None else found
    return found


def _goes_into_pages(node: Aggregate, key: ColumnEstimate) -> bool:
    """Whether the exchange makes pages of the rows, and spreads them evenly."""
    if key.most_common_share is None or max(key.most_common_share, key.null_fraction) > PAGED_KEY_SHARE_MAX:
        return False
    read = [argument for call in node.aggregates for argument in (*call.arguments, call.filter) if argument is not None]
    names = set(column_names(node.keys[0][1])).union(*map(column_names, read))
    types = [node.child.schema.field(name).type for name in names]
    return all(map(_is_fixed, types))


def _is_fixed(type_: pa.DataType) -> bool:
    """Whether the values of a type have one width."""
    return pa.types.is_primitive(type_) or pa.types.is_decimal(type_)


def _scan_below(node: PlanNode) -> Scan | None:
    """The Scan whose rows reach a node in their order, if there is one."""
    while isinstance(node, (Filter, Project)):
        node = node.child
    return node if isinstance(node, Scan) else None
