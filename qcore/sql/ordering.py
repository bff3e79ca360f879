"""The elements of ORDER BY, and the order of a query's rows."""

from __future__ import annotations

from typing import Any

from qcore.expression.tree import Column
from qcore.plan.nodes import Limit, OrderBy, PlanNode, Project, SortKey
from qcore.sql.reading import NotBound, take


def read_ordered(node: Any) -> tuple[Any, bool, bool]:
    """An element of ORDER BY: the expression, whether it is descending, whether nulls come first."""
    if type(node).__name__ != "Ordered":
        return node, False, False
    value, descending, nulls_first, fill = take(node, "this", "desc", "nulls_first", "with_fill")
    if fill is not None:
        raise NotBound(node, "ORDER BY … WITH FILL", "join the rows to range(…), which has the values that are missing")
    return value, bool(descending), bool(nulls_first)


def sorted_rows(node: PlanNode) -> tuple[PlanNode, tuple[SortKey, ...]]:
    """The rows of a query with the columns that its ORDER BY sorts by, and the sort keys (empty without ORDER BY)."""
    held = node
    if isinstance(held, Project) and all(
        isinstance(expr, Column) and expr.name == name
        for expr, name in zip(held.expressions, held.schema.names, strict=True)
    ):
        # A computed LIMIT drops the row numbers by which its rows are ordered.
        held = held.child
    below = held.child if isinstance(held, Limit) else held
    return (held, below.keys) if isinstance(below, OrderBy) else (node, ())
