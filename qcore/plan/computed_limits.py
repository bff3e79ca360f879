"""LIMIT with a computed count: the rows are numbered in their order, and a filter compares the numbers."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Cast, Expr, call, col, lit
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Filter, NestedLoopJoin, OrderBy, PlanNode, Project, SortKey, Window, WindowCall
from qcore.plan.projections import project, select_columns
from qcore.plan.schema import join_schema


def limit_by_rows(
    ids: NodeIds, names: ColumnNames, node: PlanNode, numbers: PlanNode, is_share: bool = False
) -> PlanNode:
    """The rows of the node within a computed limit, in their order.

    `numbers` is a plan of one row: the count, with `is_share` a percentage of all rows (null: all rows), and the offset
    (null: none).
    """
    position, total = names.new("position"), names.new("total")
    numbered = _number_rows(ids, node, position, total)
    joined = join_schema("inner", numbered.schema, numbers.schema)
    count, offset = (col(name) for name in numbers.schema.names)
    # Positions start at 1, so that the difference cannot overflow.
    behind = call("subtract", col(position), call("coalesce", offset, lit(0)))
    wanted: Expr = count
    if is_share:
        rows = call("multiply", call("divide", count, lit(100.0)), Cast(col(total), pa.float64()))
        wanted = Cast(call("floor", rows), pa.int64())
    within = call("or", call("is_null", count), call("less_equal", behind, wanted))
    kept = call("and", call("greater", behind, lit(0)), within)
    rest: PlanNode = NestedLoopJoin(ids.new(), joined, numbered, numbers, "inner")
    rest = Filter(ids.new(), joined, rest, kept)
    rest = OrderBy(ids.new(), joined, rest, (SortKey(position),))
    return select_columns(ids.new(), rest, node.schema.names)


def _number_rows(ids: NodeIds, node: PlanNode, position: str, total: str) -> PlanNode:
    """The rows with two more columns: their position in the node's order, and the number of all rows."""
    if isinstance(node, Project):
        child = _number_rows(ids, node.child, position, total)
        added = [position, total]
        return project(node.id, child, [*node.schema.names, *added], [*node.expressions, *map(col, added)])
    keys: tuple[SortKey, ...] = ()
    if isinstance(node, OrderBy):
        keys, node = node.keys, node.child
    calls = WindowCall(position, "row_number"), WindowCall(total, "partition_rows")
    schema = pa.schema([*node.schema, *(pa.field(one.name, pa.int64()) for one in calls)])
    return Window(ids.new(), schema, node, (), keys, calls)
