"""Window functions in Substrait: inside a projection, and as a relation."""

from __future__ import annotations

from typing import Any

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.functions.dialect import QCORE
from qcore.plan.naming import ColumnNames
from qcore.plan.nodes import PlanNode, WindowFrame
from qcore.plan.window_calls import range_distance
from qcore.plan.window_groups import Frame, SortValue, WindowFunction, WindowGroups
from qcore.substrait.expressions import DISTINCT, ExpressionReader
from qcore.substrait.scope import FieldScope

# (descending, nulls first) by SortDirection.
DIRECTIONS = {0: (False, False), 1: (False, True), 2: (False, False), 3: (True, True), 4: (True, False)}
_ROWS, _RANGE = 1, 2


class WindowReader:
    """Reads the window functions of one projection over the scope."""

    def __init__(self, expressions: ExpressionReader, names: ColumnNames, scope: FieldScope) -> None:
        self._expressions = expressions
        self._scope = scope
        self._groups = WindowGroups(names, QCORE)

    def read(self, message: Any, partitions: Any, sorts: Any) -> Bound:
        """The value of a window function over these partitions and this order."""
        expressions, scope = self._expressions, self._scope
        partition_by = [expressions.read(part, scope) for part in partitions]
        order = read_order(sorts, scope, expressions)
        name, arguments = expressions.aggregate(message, scope)
        function = WindowFunction(name, arguments, message.invocation == DISTINCT)
        return self._groups.bind(function, partition_by, order, Frame(_frame(message, order)))

    def node(self) -> PlanNode:
        """The scope's node with a column for every call."""
        return self._groups.node(self._expressions.ids, self._scope.node)


def read_order(sorts: Any, scope: FieldScope, expressions: ExpressionReader) -> list[SortValue]:
    """Values to order by, each with descending and nulls first."""
    for sort in sorts:
        if sort.direction not in DIRECTIONS:
            raise PlanError("clustered or custom sort orders are not supported")
    return [(expressions.read(sort.expr, scope), *DIRECTIONS[sort.direction]) for sort in sorts]


def _frame(message: Any, order: list[SortValue]) -> WindowFrame:
    start, end = _distance(message.lower_bound), _distance(message.upper_bound)
    if message.bounds_type == _ROWS:
        return WindowFrame("rows", start, end)
    if not start and not end:
        return WindowFrame("range", start, end)
    if message.bounds_type != _RANGE:
        raise PlanError(f"window frames of kind {message.bounds_type} are not supported")
    if len(order) != 1:
        raise PlanError("a RANGE frame with a distance needs exactly one column to order by")
    type_ = order[0][0].type
    start, end = (at and range_distance(at, type_, is_end) for at, is_end in ((start, False), (end, True)))
    return WindowFrame("range", start, end)


def _distance(message: Any) -> int | None:
    kind = message.WhichOneof("kind")
    if kind == "current_row":
        return 0
    if kind in ("preceding", "following"):
        offset = int(getattr(message, kind).offset)
        return -offset if kind == "preceding" else offset
    return None
