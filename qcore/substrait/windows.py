"""Window functions inside a Substrait projection → Window nodes below it.

Calls over the same partitions and order share a node. A Project below computes arguments that are not columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Column, Expr, Literal, same
from qcore.functions.aggregate_names import bind_aggregate
from qcore.functions.aggregates import PAIRS
from qcore.functions.calls import bind_call
from qcore.functions.casts import bind_cast
from qcore.functions.typed import constant
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, SortKey, Window, WindowCall, WindowFrame
from qcore.plan.projections import add_columns
from qcore.plan.window_calls import FRACTIONS, NUMBERED, PLACES, VALUES, range_distance, window_arguments, window_type
from qcore.substrait.expressions import DISTINCT, ExpressionReader
from qcore.substrait.scope import Scope

# (descending, nulls first) by SortDirection.
DIRECTIONS = {0: (False, False), 1: (False, True), 2: (False, False), 3: (True, True), 4: (True, False)}
_ROWS, _RANGE = 1, 2
_WHOLE = WindowFrame("rows", None, None)
_NEXT_IS = {"lag": -1, "lead": 1}


@dataclass
class _Group:
    """Calls of one partitioning and order."""

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: list[WindowCall]


class WindowReader:
    """Reads the window functions of one projection over the scope."""

    def __init__(self, expressions: ExpressionReader, ids: NodeIds, names: ColumnNames, scope: Scope) -> None:
        self._expressions = expressions
        self._ids = ids
        self._names = names
        self._scope = scope
        self._computed: list[tuple[str, Bound]] = []
        self._groups: list[_Group] = []

    def read(self, message: Any, partitions: Any, sorts: Any) -> Bound:
        """The value of a window function over these partitions and this order."""
        expressions, scope = self._expressions, self._scope
        partition_by = tuple(self._column(expressions.read(part, scope)) for part in partitions)
        order = tuple(self._sort_key(sort) for sort in sorts)
        group = self._group(partition_by, order)
        frame = self._frame(message, order)
        is_distinct = message.invocation == DISTINCT
        name, arguments = expressions.aggregate(message, scope)
        if name in PLACES | FRACTIONS | VALUES:
            return self._own_function(name, arguments, group, frame)

        def add(
            function: str, arguments: Sequence[Bound], distinct: bool, filter: Bound | None, order: Sequence[Any]
        ) -> Bound:
            given, parameter = window_arguments(function, [part.expr for part in arguments], self._schema())
            if len(given) > (2 if function in PAIRS else 1):
                raise PlanError(f"the window function {name} with {len(given)} arguments is not supported yet")
            columns = [self._column(self._bound(part)) for part in given]
            call = WindowCall("", function, None, 1, frame, distinct=distinct, parameter=parameter)
            return self._add(group, call, *columns)

        return bind_aggregate(name, arguments, distinct=is_distinct, add=add)

    def node(self) -> PlanNode:
        """The scope's node with a column for every call and every computed argument."""
        node = self._scope.node
        if self._computed:
            node = add_columns(self._ids.new(), node, {name: value.expr for name, value in self._computed})
        for group in self._groups:
            added = [pa.field(call.name, window_type(call, node.schema)) for call in group.calls]
            schema = pa.schema([*node.schema, *added])
            node = Window(self._ids.new(), schema, node, group.partition_by, group.order_by, tuple(group.calls))
        return node

    def _own_function(self, name: str, arguments: Sequence[Bound], group: _Group, frame: WindowFrame) -> Bound:
        most = 3 if name in _NEXT_IS else 2 if name == "nth_value" else 1 if name in VALUES or name == "ntile" else 0
        fewest = 2 if name == "nth_value" else min(most, 1)
        if not fewest <= len(arguments) <= most:
            raise PlanError(f"the window function {name} does not take {len(arguments)} arguments")
        if name == "ntile":
            number = _number(name, arguments[0])
            if number < 1:
                raise PlanError(f"ntile({number}): the number of tiles must be positive")
            return self._add(group, WindowCall("", name, None, number, _WHOLE))
        if name in PLACES | FRACTIONS:
            return self._add(group, WindowCall("", name, None, 1, _WHOLE))
        column = self._column(arguments[0])
        if name not in NUMBERED:
            return self._add(group, WindowCall("", name, None, 1, frame), column)
        number = _number(name, arguments[1]) if len(arguments) > 1 else 1
        value = self._add(group, WindowCall("", name, None, number, frame), column)
        if len(arguments) < 3 or _is_null(arguments[2]):
            return value
        position = self._add(group, WindowCall("", "row_number", None, 1, _WHOLE))
        position = bind_call("add", [position, constant(number * _NEXT_IS[name])])
        rows = self._add(group, WindowCall("", "partition_rows", None, 1, _WHOLE))
        exists = bind_call("between", [position, constant(1), rows])
        default = bind_cast(arguments[2], value.type)
        return Bound(Case(((exists.expr, value.expr),), default.expr), value.type)

    def _add(self, group: _Group, call: WindowCall, *columns: str) -> Bound:
        argument, second = (*columns, None, None)[:2]
        call = replace(call, name=self._names.new(call.function), argument=argument, second=second)
        group.calls.append(call)
        return Bound(Column(call.name), window_type(call, self._schema()))

    def _schema(self) -> pa.Schema:
        """The schema of the scope's node with the computed arguments."""
        added = [pa.field(name, value.type) for name, value in self._computed]
        return pa.schema([*self._scope.node.schema, *added])

    def _bound(self, expr: Expr) -> Bound:
        from qcore.functions.catalogue import expr_type

        return Bound(expr, expr_type(expr, self._schema()))

    def _column(self, value: Bound) -> str:
        """The name of a column that holds the value."""
        if isinstance(value.expr, Column):
            return value.expr.name
        for name, known in self._computed:
            if same(known.expr, value.expr):
                return name
        name = self._names.new("window")
        self._computed.append((name, value))
        return name

    def _sort_key(self, sort: Any) -> SortKey:
        if sort.direction not in DIRECTIONS:
            raise PlanError("clustered or custom sort orders are not supported")
        return SortKey(self._column(self._expressions.read(sort.expr, self._scope)), *DIRECTIONS[sort.direction])

    def _group(self, partition_by: tuple[str, ...], order_by: tuple[SortKey, ...]) -> _Group:
        for group in self._groups:
            if group.partition_by == partition_by and list(map(repr, group.order_by)) == list(map(repr, order_by)):
                return group
        self._groups.append(_Group(partition_by, order_by, []))
        return self._groups[-1]

    def _frame(self, message: Any, order: Sequence[SortKey]) -> WindowFrame:
        start, end = _distance(message.lower_bound), _distance(message.upper_bound)
        if message.bounds_type == _ROWS:
            return WindowFrame("rows", start, end)
        if not start and not end:
            return WindowFrame("range", start, end)
        if message.bounds_type != _RANGE:
            raise PlanError(f"window frames of kind {message.bounds_type} are not supported")
        if len(order) != 1:
            raise PlanError("a RANGE frame with a distance needs exactly one column to order by")
        type_ = self._schema().field(order[0].column).type
        start, end = (at and range_distance(at, type_, is_end) for at, is_end in ((start, False), (end, True)))
        return WindowFrame("range", start, end)


def _is_null(value: Bound) -> bool:
    return isinstance(value.expr, Literal) and value.expr.value is None


def _number(name: str, value: Bound) -> int:
    number = value.expr
    if isinstance(number, Call) and number.function == "negate" and isinstance(number.arguments[0], Literal):
        number = Literal(-number.arguments[0].value, value.type)
    if not isinstance(number, Literal) or not isinstance(number.value, int):
        raise PlanError(
            f"{name} takes a whole number, not {value.expr!r}; for one that each row has of its own number the rows by "
            "row_number() and join them"
        )
    return number.value


def _distance(message: Any) -> int | None:
    kind = message.WhichOneof("kind")
    if kind == "current_row":
        return 0
    if kind in ("preceding", "following"):
        offset = int(getattr(message, kind).offset)
        return -offset if kind == "preceding" else offset
    return None
