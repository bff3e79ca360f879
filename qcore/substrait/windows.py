"""Window functions inside a Substrait projection → Window nodes below it.

Calls over the same partitions and order share a node. A Project below computes arguments that are not columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Case, Cast, Column, Expr, Literal, call, col, walk
from qcore.functions.aggregates import KEEP_VALUES, PAIRS, is_aggregate
from qcore.functions.catalogue import expr_type
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, SortKey, Window, WindowCall, WindowFrame
from qcore.plan.projections import add_columns
from qcore.plan.schema import same_type
from qcore.plan.window_calls import (
    ENDS,
    FRACTIONS,
    NUMBERED,
    PLACES,
    VALUES,
    range_distance,
    window_arguments,
    window_type,
)
from qcore.substrait.expressions import ExpressionReader, window_key
from qcore.substrait.functions import aggregate_name
from qcore.substrait.lambdas import Scope
from qcore.substrait.messages import messages_within

# (descending, nulls first) by SortDirection.
DIRECTIONS = {0: (False, False), 1: (False, True), 2: (False, False), 3: (True, True), 4: (True, False)}
_DISTINCT = 2
_ROWS, _RANGE = 1, 2
# The first word of a text constant among the partitions. The second word is a number; the others are properties for
# which the message has no field.
MARKER = "$window"
_WHOLE = WindowFrame("rows", None, None)
_NEXT_IS = {"lag": -1, "lead": 1}


@dataclass
class _Group:
    """Calls of one partitioning and order."""

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    calls: list[WindowCall]


class WindowReader:
    """Reads the window functions of one projection. `values` has their values as expressions, by window_key()."""

    def __init__(self, expressions: ExpressionReader, ids: NodeIds, names: ColumnNames, scope: Scope) -> None:
        self.expressions = expressions
        self.ids = ids
        self.names = names
        self.scope = scope
        self.values: dict[bytes, Expr] = {}
        self._computed: dict[str, Expr] = {}
        self._groups: list[_Group] = []

    def read(self, message: Any, partitions: Any, sorts: Any) -> None:
        """Read a window function over these partitions and this order, and add it to `values`."""
        name = self.expressions.function_name(message.function_reference)
        order = tuple(self._sort_key(sort) for sort in sorts)
        keys = [self.expressions.read(part, self.scope) for part in partitions]
        flags = {flag for key in keys for flag in _flags(key)}
        if message.invocation == _DISTINCT:
            flags.add("distinct")
        group = self._group(tuple(self.column(key) for key in keys if not _flags(key)), order)
        arguments = self.expressions.arguments(message.arguments, self.scope)
        extras = _Extras(self, keys, flags)
        frame = self._frame(message, order)
        if "groups" in flags:
            frame = replace(frame, mode="groups")
        if extras.ends:
            type_ = self._ordered_type(order)
            frame = WindowFrame("range", *(_end(extras.ends[end], type_, end == "to") for end in ("from", "to")))
        if extras.exclude:
            frame = replace(frame, exclude=extras.exclude)
        name = extras.function or name
        if name not in PLACES | FRACTIONS | VALUES:
            if not is_aggregate(aggregate_name(name)):
                raise PlanError(f"the window function {name} is not supported yet")
            name = aggregate_name(name)
            literal = len(arguments) == 1 and isinstance(arguments[0], Literal) and arguments[0].value is not None
            if name == "count" and literal and "distinct" not in flags:
                arguments = ()
        arguments += extras.parameters
        if len(arguments) > (3 if name in _NEXT_IS else 2 if name in VALUES | PAIRS | KEEP_VALUES else 1):
            raise PlanError(f"the window function {name} with {len(arguments)} arguments is not supported yet")
        if extras.order_by and name not in KEEP_VALUES | ENDS:
            raise PlanError(f"the window function {name} with an ORDER BY among its arguments is not supported")
        parameter = None
        if name not in PLACES | FRACTIONS | VALUES:
            arguments, parameter = window_arguments(name, arguments, self.scope.schema)
        self.values[window_key(message)] = self._value(group, name, arguments, frame, flags)
        if extras.filter is not None or extras.order_by or parameter is not None:
            call = group.calls[-1]
            group.calls[-1] = replace(call, filter=extras.filter, order_by=extras.order_by, parameter=parameter)

    def node(self) -> PlanNode:
        """The input with a column for every call and every computed argument."""
        node = self.scope.node
        if self._computed:
            node = add_columns(self.ids.new(), node, self._computed)
        for group in self._groups:
            added = [pa.field(call.name, window_type(call, node.schema)) for call in group.calls]
            schema = pa.schema([*node.schema, *added])
            node = Window(self.ids.new(), schema, node, group.partition_by, group.order_by, tuple(group.calls))
        return node

    def _value(self, group: _Group, name: str, arguments: Sequence[Expr], frame: WindowFrame, flags: set[str]) -> Expr:
        ignore_nulls = "ignore_nulls" in flags
        if name == "ntile":
            number = self._number(name, arguments, 0)
            if number < 1:
                raise PlanError(f"ntile({number}): the number of tiles must be positive")
            return self._call(group, name, None, number, _WHOLE)
        if name in PLACES or name in FRACTIONS:
            return self._call(group, name, None, 1, _WHOLE)
        if name == "nth_value" and isinstance(arguments[1], Literal) and arguments[1].value is None:
            return Literal(None, expr_type(arguments[0], self.scope.schema))
        argument = self.column(arguments[0]) if arguments else None
        if name not in NUMBERED:
            second = self.column(arguments[1]) if len(arguments) > 1 else None
            return self._call(group, name, argument, 1, frame, second, "distinct" in flags, ignore_nulls)
        number = self._number(name, arguments, 1)
        value = self._call(group, name, argument, number, frame, ignore_nulls=ignore_nulls)
        if len(arguments) < 3 or (isinstance(arguments[2], Literal) and arguments[2].value is None):
            return value
        position = call("add", self._call(group, "row_number", None, 1, _WHOLE), number * _NEXT_IS[name])
        rows = self._call(group, "partition_rows", None, 1, _WHOLE)
        exists = call("and", call("greater_equal", position, 1), call("less_equal", position, rows))
        default, type_ = arguments[2], expr_type(arguments[0], self.scope.schema)
        # The type of a constant decimal has only the digits of its value. The default may need more.
        is_constant = isinstance(arguments[0], Literal) and pa.types.is_decimal(type_)
        if not is_constant and not same_type(expr_type(default, self.scope.schema), type_):
            default = Cast(default, type_)
        if ignore_nulls:
            return call("coalesce", value, default)
        return Case(((exists, value),), default)

    def _call(
        self,
        group: _Group,
        name: str,
        argument: str | None,
        number: int,
        frame: WindowFrame,
        second: str | None = None,
        distinct: bool = False,
        ignore_nulls: bool = False,
    ) -> Column:
        group.calls.append(
            WindowCall(self.names.new(name), name, argument, number, frame, second, distinct, ignore_nulls)
        )
        return Column(group.calls[-1].name)

    def _number(self, name: str, arguments: Sequence[Expr], position: int) -> int:
        if len(arguments) <= position:
            return 1
        number = arguments[position]
        if not isinstance(number, Literal) or not isinstance(number.value, int):
            raise PlanError(
                f"{name} takes a whole number, not {number!r}; for one that each row has of its own number the rows by "
                "row_number() and join them"
            )
        return number.value

    def _column(self, message: Any) -> str:
        return self.column(self.expressions.read(message, self.scope))

    def column(self, expr: Expr) -> str:
        """The name of a column that holds the expression."""
        if isinstance(expr, Column):
            return expr.name
        name = self.names.new("window")
        self._computed[name] = expr
        return name

    def _sort_key(self, sort: Any) -> SortKey:
        if sort.direction not in DIRECTIONS:
            raise PlanError("clustered or custom sort orders are not supported")
        return SortKey(self._column(sort.expr), *DIRECTIONS[sort.direction])

    def _group(self, partition_by: tuple[str, ...], order_by: tuple[SortKey, ...]) -> _Group:
        for group in self._groups:
            if group.partition_by == partition_by and list(map(repr, group.order_by)) == list(map(repr, order_by)):
                return group
        self._groups.append(_Group(partition_by, order_by, []))
        return self._groups[-1]

    def _ordered_type(self, order: Sequence[SortKey]) -> pa.DataType:
        """Type of the one ordering column of a RANGE frame with a distance."""
        if len(order) != 1:
            raise PlanError("a RANGE frame with a distance needs exactly one column to order by")
        return expr_type(self._computed.get(order[0].column, col(order[0].column)), self.scope.schema)

    def _frame(self, message: Any, order: Sequence[SortKey]) -> WindowFrame:
        start, end = _bound(message.lower_bound), _bound(message.upper_bound)
        if message.bounds_type == _ROWS:
            return WindowFrame("rows", start, end)
        if not start and not end:
            return WindowFrame("range", start, end)
        if message.bounds_type != _RANGE:
            raise PlanError(f"window frames of kind {message.bounds_type} are not supported")
        type_ = self._ordered_type(order)
        start, end = (at and range_distance(at, type_, is_end) for at, is_end in ((start, False), (end, True)))
        return WindowFrame("range", start, end)


def window_functions(expression: Any, is_flat: bool) -> Iterator[Any]:
    """The WindowFunction messages within an Expression message. In a flat one only the message itself can be one."""
    if expression.WhichOneof("rex_type") == "window_function":
        yield expression.window_function
    elif not is_flat:
        yield from messages_within(expression, "WindowFunction", excluded="Subquery")


class _Extras:
    """What text.windows wrote among the partitions: words, and after the comparison a filter and sort keys."""

    def __init__(self, reader: WindowReader, partitions: Sequence[Expr], flags: set[str]) -> None:
        words = dict(flag.split("=", 1) for flag in flags if "=" in flag)
        self.ends = {end: words[end] for end in ("from", "to") if end in words}
        self.exclude = words.get("exclude", "").replace("_", " ")
        self.function = words.get("function")
        self.parameters = (Literal(float(words["parameter"]), pa.float64()),) if "parameter" in words else ()
        self.filter: str | None = None
        self.order_by: tuple[SortKey, ...] = ()
        for key in partitions:
            if not _flags(key) or not isinstance(key, Call) or key.function != "row":
                continue
            values = list(key.arguments[1:])
            if "filter" in flags:
                self.filter = reader.column(values.pop(0))
            orders = [(word[0] == "d", word[1] == "f") for word in words.get("order", "").split(",") if word]
            self.order_by = tuple(
                SortKey(reader.column(value), *order) for value, order in zip(values, orders, strict=False)
            )


def _end(distance: str, type_: pa.DataType, is_end: bool) -> Any:
    """A frame's end as text.windows writes it: all, a number, or i and an interval's months, days and nanoseconds."""
    if distance in ("all", "0"):
        return None if distance == "all" else 0
    if distance.startswith("i"):
        return range_distance(pa.MonthDayNano(list(map(int, distance[1:].split(":")))), type_, is_end)
    return range_distance(Decimal(distance), type_, is_end)


def _flags(partition: Expr) -> list[str]:
    """The words of a comparison that text.windows added to the partitions; none for a real partition key."""
    for part in walk(partition):
        if isinstance(part, Literal) and isinstance(part.value, str) and part.value.startswith(f"{MARKER} "):
            return part.value.split(" ")[2:]
    return []


def _bound(message: Any) -> int | None:
    kind = message.WhichOneof("kind")
    if kind == "current_row":
        return 0
    if kind in ("preceding", "following"):
        offset = int(getattr(message, kind).offset)
        return -offset if kind == "preceding" else offset
    return None
