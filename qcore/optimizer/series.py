"""Rule: range() of constants in FROM is scanned as a table, and not computed as one list.

A series of any length is then streamed: it needs the memory of a batch, drivers share it, and its number of rows is
known.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.connectors.series import NUMBER, VALUE, SeriesTable
from qcore.expression.tree import Call, Expr, Literal, col
from qcore.optimizer.nodes import renames, transform_plan
from qcore.plan.nodes import PlanNode, Project, Scan, Unnest, Values

# For each function, whether the end is one of the values.
_SERIES = {"range": False, "generate_series": True}
_INT64 = range(-(1 << 63), 1 << 63)


def scan_series(plan: PlanNode) -> PlanNode:
    """Return the plan with scans of series in place of the elements of such lists."""
    return transform_plan(plan, _scan_series)


def _scan_series(node: PlanNode) -> PlanNode:
    if not isinstance(node, Unnest) or len(node.lists) != 1 or not isinstance(node.child, Project):
        return node
    made = node.child
    if not isinstance(made.child, Values) or made.child.data.num_rows != 1:
        return node
    by_name = renames(made)
    ((held, element),) = node.lists
    values = _series(by_name.pop(held))
    if values is None or (node.outer and not values) or node.schema.field(element).type != pa.int64():
        return node
    if not all(isinstance(expr, Literal) for expr in by_name.values()):
        return node
    own = [element] if node.ordinality is None else [element, node.ordinality]
    schema = pa.schema([node.schema.field(name) for name in own])
    table = f"range({values.start}, {values.stop}, {values.step})"
    id = node.id if not by_name else f"{node.id}.series"
    scan = Scan(id, schema, table, SeriesTable(values), (VALUE, NUMBER)[: len(own)])
    if not by_name:
        return scan
    return Project(node.id, node.schema, scan, tuple(by_name.get(name, col(name)) for name in node.schema.names))


def _series(expr: Expr) -> range | None:
    """The integers of a call whose arguments are integer constants; None for another call."""
    if not isinstance(expr, Call) or expr.function not in _SERIES:
        return None
    bounds = [argument.value for argument in expr.arguments if isinstance(argument, Literal)]
    if len(bounds) < len(expr.arguments) or not all(type(bound) is int and bound in _INT64 for bound in bounds):
        return None
    start, stop, *step = bounds if len(bounds) > 1 else (0, *bounds)
    by = step[0] if step else 1
    if by == 0:
        return None
    values = range(start, stop + (0 if not _SERIES[expr.function] else 1 if by > 0 else -1), by)
    # range cannot count more.
    return values if (stop - start) // by in _INT64 else None
