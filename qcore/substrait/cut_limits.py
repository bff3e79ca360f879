"""LIMIT by numbers that a plan gives: the rows are numbered in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from qcore.expression.tree import Cast, Expr, call, col, lit
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import Filter, NestedLoopJoin, OrderBy, PlanNode, Project, SortKey, Window, WindowCall
from qcore.plan.schema import join_schema, project_schema

# What makes the plan of such numbers stands in a reader's parts under these names and the LIMIT written instead; of the
# second the first number is a percentage of all rows.
COUNT_PART, SHARE_PART = "$limit", "$share"


def limited(
    ids: NodeIds,
    names: ColumnNames,
    node: PlanNode,
    parts: Mapping[str, Callable[[NodeIds, ColumnNames], PlanNode]],
    limit: int | None,
) -> PlanNode | None:
    """The rows of the node, in their order, that the LIMIT leaves which a number stands for; None where the number is a
    LIMIT itself. The part is a plan of one row: how many rows to give (null: all), and to pass over (null: none).
    """
    is_share = f"{SHARE_PART}{limit}" in parts
    make = parts.get(f"{SHARE_PART if is_share else COUNT_PART}{limit}")
    if make is None:
        return None
    numbers = make(ids, names)
    place, total = names.new("place"), names.new("total")
    numbered = _numbered(ids, node, place, total)
    joined = join_schema("inner", numbered.schema, numbers.schema)
    count, passed_over = (col(name) for name in numbers.schema.names)
    # Places go from 1 on, and passed over are fewer than all, or no row is left: nothing overflows.
    behind = call("subtract", col(place), call("coalesce", passed_over, lit(0)))
    wanted: Expr = count
    if is_share:
        rows = call("multiply", call("divide", count, lit(100.0)), Cast(col(total), pa.float64()))
        wanted = Cast(call("floor", rows), pa.int64())
    within = call("or", call("is_null", count), call("less_equal", behind, wanted))
    kept = call("and", call("greater", behind, lit(0)), within)
    rest: PlanNode = NestedLoopJoin(ids.new(), joined, numbered, numbers, "inner")
    rest = Filter(ids.new(), joined, rest, kept)
    rest = OrderBy(ids.new(), joined, rest, (SortKey(place),))
    columns = tuple(map(col, node.schema.names))
    return Project(ids.new(), project_schema(node.schema.names, columns, joined), rest, columns)


def _numbered(ids: NodeIds, node: PlanNode, place: str, total: str) -> PlanNode:
    """The rows with their places in the node's order, and their number, in two columns behind the others."""
    if isinstance(node, Project):
        child = _numbered(ids, node.child, place, total)
        expressions = (*node.expressions, col(place), col(total))
        schema = project_schema([*node.schema.names, place, total], expressions, child.schema)
        return Project(node.id, schema, child, expressions)
    keys: tuple[SortKey, ...] = ()
    if isinstance(node, OrderBy):
        keys, node = node.keys, node.child
    calls = WindowCall(place, "row_number"), WindowCall(total, "partition_rows")
    schema = pa.schema([*node.schema, *(pa.field(made.name, pa.int64()) for made in calls)])
    return Window(ids.new(), schema, node, (), keys, calls)
