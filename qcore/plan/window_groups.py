"""Window functions of a query's expressions, as Window nodes for each partitioning and order.

Calls over the same partitions and order share a node. A Project below computes arguments that are not columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Case, Cast, Column, Expr, Literal, call, column_names, same
from qcore.functions.aggregate_names import bind_aggregate, is_aggregate_name
from qcore.functions.aggregates import KEEP_VALUES, PAIRS, aggregate_type
from qcore.functions.dialect import Dialect
from qcore.functions.typed import cast
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import ColumnDistance, PlanNode, SortKey, Window, WindowCall, WindowFrame
from qcore.plan.projections import add_columns
from qcore.plan.schema import same_type
from qcore.plan.window_calls import ENDS, FRACTIONS, PLACES, VALUES, window_arguments, window_type
from qcore.record import record

_QUANTILES = frozenset({"quantile_cont", "quantile_disc"})

#: A value to order by, descending, nulls first.
SortValue = tuple[Bound, bool, bool]
#: Turns expressions into ones over the node below the windows.
Rewrite = Callable[[Expr], Expr]


@record(frozen=True)
class WindowFunction:
    """A window function as it was written: `name` in any case, `order` among its arguments."""

    name: str
    arguments: Sequence[Bound]
    distinct: bool = False
    ignore_nulls: bool = False
    within_group: bool = False
    filter: Bound | None = None
    order: Sequence[SortValue] = ()


@record
class Frame:
    """A frame, and the distances of its ends that are values of the rows: the frame's have no column names yet."""

    frame: WindowFrame
    start: Bound | None = None
    end: Bound | None = None


ALL_ROWS = Frame(WindowFrame("rows", None, None))


@record
class _Call:
    """A call of the Window operator. Its `call` has no column names yet; the other fields have the values. `number` is
    None for a constant.
    """

    call: WindowCall
    argument: Bound | None
    second: Bound | None
    filter: Bound | None
    order_by: list[SortValue]
    number: Bound | None
    frame: Frame

    @property
    def values(self) -> list[Bound]:
        """The values that the call reads of each row."""
        parts = (self.argument, self.second, self.filter, self.number, self.frame.start, self.frame.end)
        return [part for part in parts if part is not None]


@record
class _Group:
    """Calls of one partitioning and order."""

    partition_by: list[Bound]
    order_by: list[SortValue]
    calls: list[_Call]


class WindowGroups:
    """The window functions of one query. `outputs` has the types of their columns."""

    def __init__(self, names: ColumnNames, dialect: Dialect) -> None:
        self.outputs: dict[str, pa.DataType] = {}
        self._names = names
        self._dialect = dialect
        self._groups: list[_Group] = []

    def bind(
        self, function: WindowFunction, partition_by: list[Bound], order_by: list[SortValue], frame: Frame
    ) -> Bound:
        """The value of a window function. PlanError: it is unknown, or takes other arguments."""
        group = self._group(partition_by, order_by)
        if function.name.lower() in PLACES | FRACTIONS | VALUES:
            return self._own_function(function, group, frame)
        if not is_aggregate_name(function.name, self._dialect):
            raise PlanError(f"there is no window function {function.name!r}")
        return self._aggregate(function, group, frame)

    def reads(self, names: set[str]) -> bool:
        """Whether an argument, a partition or an order reads one of these columns."""
        values = [
            value
            for group in self._groups
            for value in (
                *group.partition_by,
                *(key[0] for key in group.order_by),
                *(part for one in group.calls for part in one.values),
            )
        ]
        return any(names & column_names(value.expr) for value in values)

    def _group(self, partition_by: list[Bound], order_by: list[SortValue]) -> _Group:
        for group in self._groups:
            if _same_values(group.partition_by, partition_by) and _same_order(group.order_by, order_by):
                return group
        self._groups.append(_Group(partition_by, order_by, []))
        return self._groups[-1]

    def _own_function(self, function: WindowFunction, group: _Group, frame: Frame) -> Bound:
        name, arguments = function.name.lower(), list(function.arguments)
        if function.distinct:
            raise PlanError(f"{name} cannot be DISTINCT")
        if function.order and name not in ENDS:
            raise PlanError(f"the window function {name} with an ORDER BY among its arguments is not supported")
        if function.filter is not None:
            raise PlanError(f"the window function {name} cannot have a FILTER")
        if name == "ntile":
            number = self._number(function, arguments, 0)
            if isinstance(number, int) and number < 1:
                raise PlanError(f"ntile({number}): the number of tiles must be positive")
            return self._add(group, WindowCall("", name), [], number=number)
        if name in PLACES | FRACTIONS:
            if arguments:
                raise PlanError(f"{name} takes no arguments")
            return self._add(group, WindowCall("", name), [])
        most = 3 if name in ("lag", "lead") else 2 if name == "nth_value" else 1
        if not 1 <= len(arguments) <= most or (name == "nth_value" and len(arguments) < 2):
            raise PlanError(f"{name} takes {'1' if most == 1 else '2' if name == 'nth_value' else '1 to 3'} arguments")
        if name in ENDS:
            one = WindowCall("", name, ignore_nulls=function.ignore_nulls)
            return self._add(group, one, arguments, None, function.order, frame)
        if len(arguments) > 1 and constant_of(arguments[1].expr) is None and isinstance(arguments[1].expr, Literal):
            return Bound(Literal(None, arguments[0].type), arguments[0].type)
        number = self._number(function, arguments, 1)
        one = WindowCall("", name, ignore_nulls=function.ignore_nulls)
        value = self._add(group, one, arguments[:1], frame=frame, number=number)
        if len(arguments) < 3 or (isinstance(arguments[2].expr, Literal) and arguments[2].expr.value is None):
            return value
        return self._or_default(name, value, arguments[2], number, function.ignore_nulls, group)

    def _or_default(
        self, name: str, value: Bound, default: Bound, distance: int | Bound, ignore_nulls: bool, group: _Group
    ) -> Bound:
        """The value of lag or lead, or the default where there is no such row. Null for a distance that is null."""
        expr = default.expr if same_type(default.type, value.type) else Cast(default.expr, value.type)
        by: Any = distance.expr if isinstance(distance, Bound) else distance
        if ignore_nulls:
            # A null is that of the row itself, at distance 0, or there is no such row.
            made = Case(((call("not_equal", by, 0), call("coalesce", value.expr, expr)),), value.expr)
        else:
            number = self._add(group, WindowCall("", "row_number"), [])
            rows = self._add(group, WindowCall("", "partition_rows"), [])
            position = call("add" if name == "lead" else "subtract", number.expr, by)
            exists = call("and", call("greater_equal", position, 1), call("less_equal", position, rows.expr))
            made = Case(((exists, value.expr),), expr)
        if isinstance(distance, Bound):
            made = Case(((call("is_not_null", by), made),))
        return Bound(made, value.type)

    def _number(self, function: WindowFunction, arguments: list[Bound], position: int) -> int | Bound:
        """A distance or position: a constant, or the value that each row has."""
        if len(arguments) <= position:
            if function.name.lower() == "ntile":
                raise PlanError("ntile takes the number of tiles")
            return 1
        given = arguments[position]
        number = constant_of(given.expr)
        if number is None and pa.types.is_integer(given.type):
            return cast(given, pa.int64())
        if not isinstance(number, int) or isinstance(number, bool):
            raise PlanError(f"{function.name} counts in whole numbers, not in {given.type}; cast the number to BIGINT")
        return number

    def _aggregate(self, written: WindowFunction, group: _Group, frame: Frame) -> Bound:
        def add(
            function: str,
            arguments: Sequence[Bound],
            distinct: bool,
            filter: Bound | None,
            order: Sequence[SortValue],
        ) -> Bound:
            given, parameter = window_arguments(function, arguments)
            if len(given) > (2 if function in PAIRS else 1):
                raise PlanError(f"{function} of {len(given)} arguments over a window is not supported")
            one = WindowCall("", function, distinct=distinct, ignore_nulls=written.ignore_nulls, parameter=parameter)
            is_ordered = function in KEEP_VALUES or function in ("first", "last", "any_value")
            return self._add(group, one, given, filter, list(order) if is_ordered else [], frame)

        return bind_aggregate(
            written.name,
            written.arguments,
            distinct=written.distinct,
            filter=written.filter,
            order=written.order,
            within_group=written.within_group,
            add=add,
            dialect=self._dialect,
        )

    def _add(
        self,
        group: _Group,
        one: WindowCall,
        arguments: Sequence[Bound],
        filter: Bound | None = None,
        order: Sequence[SortValue] = (),
        frame: Frame = ALL_ROWS,
        number: int | Bound = 1,
    ) -> Bound:
        argument = arguments[0] if arguments else None
        second = arguments[1] if len(arguments) > 1 else None
        type_ = _result_type(one, argument, second)
        of_rows = number if isinstance(number, Bound) else None
        constant = 1 if isinstance(number, Bound) else number
        one = replace(one, name=self._names.new(one.function), number=constant, frame=frame.frame)
        group.calls.append(_Call(one, argument, second, filter, list(order), of_rows, frame))
        self.outputs[one.name] = type_
        return Bound(Column(one.name), type_)

    def node(self, ids: NodeIds, node: PlanNode, rewrite: Rewrite = lambda expr: expr) -> PlanNode:
        """The rows with a column for each call. `rewrite` turns expressions into ones over the node."""
        computed: dict[str, Expr] = {}

        def column(value: Bound) -> str:
            expr = rewrite(value.expr)
            if isinstance(expr, Column):
                return expr.name
            for name, known in computed.items():
                if same(known, expr):
                    return name
            name = self._names.new("window")
            computed[name] = expr
            return name

        def keys(order: Sequence[SortValue]) -> tuple[SortKey, ...]:
            return tuple(SortKey(column(value), *direction) for value, *direction in order)

        def frame(of: Frame) -> WindowFrame:
            start, end = of.frame.start, of.frame.end
            if of.start is not None and isinstance(start, ColumnDistance):
                start = replace(start, column=column(of.start))
            if of.end is not None and isinstance(end, ColumnDistance):
                end = replace(end, column=column(of.end))
            return replace(of.frame, start=start, end=end)

        nodes = []
        for group in self._groups:
            if not group.calls:
                continue
            calls = tuple(
                replace(
                    one.call,
                    argument=None if one.argument is None else column(one.argument),
                    second=None if one.second is None else column(one.second),
                    filter=None if one.filter is None else column(one.filter),
                    order_by=keys(one.order_by),
                    number=one.call.number if one.number is None else column(one.number),
                    frame=frame(one.frame),
                )
                for one in group.calls
            )
            nodes.append((tuple(dict.fromkeys(map(column, group.partition_by))), keys(group.order_by), calls))
        if computed:
            node = add_columns(ids.new(), node, computed)
        for partition_by, order_by, calls in nodes:
            added = [pa.field(one.name, self.outputs[one.name]) for one in calls]
            schema = pa.schema([*node.schema, *added])
            node = Window(ids.new(), schema, node, partition_by, order_by, calls)
        return node


def constant_of(expr: Expr) -> Any:
    """The value of a constant, or of one in casts and under a minus sign; None for another expression."""
    while isinstance(expr, Cast):
        expr = expr.argument
    return expr.value if isinstance(expr, Literal) else None


def _same_values(a: Sequence[Bound], b: Sequence[Bound]) -> bool:
    return len(a) == len(b) and all(same(one.expr, other.expr) for one, other in zip(a, b, strict=True))


def _same_order(a: Sequence[SortValue], b: Sequence[SortValue]) -> bool:
    return _same_values([key[0] for key in a], [key[0] for key in b]) and [k[1:] for k in a] == [k[1:] for k in b]


def _result_type(one: WindowCall, argument: Bound | None, second: Bound | None) -> pa.DataType:
    if one.function in PLACES | FRACTIONS:
        return window_type(one, pa.schema([]))
    types = [value.type for value in (argument, second) if value is not None]
    if one.function in _QUANTILES:
        types.append(pa.float64())
    return types[0] if one.function in VALUES else aggregate_type(one.function, types)
