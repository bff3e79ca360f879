"""Window functions of PlanBuilder: window(), and the nodes of its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from qcore.builder.arguments import (
    Expression,
    SortKeys,
    as_list,
    in_step,
    read_condition,
    read_expression,
    read_sort_keys,
)
from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Case, Column, Expr, Literal, col, lit
from qcore.functions.aggregates import KEEP_VALUES, PAIRS, is_aggregate
from qcore.functions.catalogue import expr_type
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Project, SortKey, Window, WindowCall, WindowDistance, WindowFrame
from qcore.plan.schema import check_column, check_unique, project_schema
from qcore.plan.window_calls import (
    ENDS,
    EXCLUSIONS,
    FRACTIONS,
    NUMBERED,
    PLACES,
    VALUES,
    check_window_function,
    range_distance,
    window_arguments,
    window_type,
)
from qcore.record import record

MODES = ("rows", "range", "groups")
GivenFrame = tuple[str, WindowDistance, WindowDistance]
# Functions whose call may order the rows of a frame.
_ORDERED = ENDS | {"array_agg", "string_agg", "mode", "quantile_cont", "quantile_disc", "median", "first", "last"}


@record(frozen=True)
class WindowSpec:
    """A call for PlanBuilder.window(). window() makes it."""

    function: str
    arguments: tuple[Any, ...] = ()
    frame: GivenFrame | None = None
    distinct: bool = False
    ignore_nulls: bool = False
    exclude: str = "no others"
    filter: Expression | None = None
    order_by: tuple[str, ...] = ()


def window(
    function: str,
    *arguments: Any,
    frame: GivenFrame | None = None,
    distinct: bool = False,
    ignore_nulls: bool = False,
    exclude: str = "no others",
    filter: Expression | None = None,
    order_by: Sequence[str] | str = (),
) -> WindowSpec:
    """A window function call with all options, for PlanBuilder.window().

    Parameters
    ----------
    function : str
        row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value, last_value, nth_value, or
        an aggregate.
    arguments : Expr, str or int
        Columns or expressions. A number follows them for lag and lead (distance in rows, by default 1) and nth_value
        (position in the frame). ntile takes only a number, that of the buckets.
    frame : (mode, start, end), optional
        Mode is 'rows', 'range' or 'groups'. Start and end count from the current row; None is the partition's end.
        ("rows", -2, 0) is the current row and the two before it. A range over floats takes floats; one over dates,
        times or timestamps takes pyarrow.MonthDayNano. The default frame goes from the partition's start to the
        current row's last peer.
    distinct : bool
        For aggregates: equal values of a frame count once.
    ignore_nulls : bool
        For lag, lead, first_value, last_value and nth_value: skip nulls.
    exclude : {'no others', 'current row', 'group', 'ties'}
        Rows left out of the frame: none, the current row, the current row and its peers, or only its peers.
    filter : Expr or str, optional
        For aggregates: a condition. Rows for which it is not true are left out.
    order_by : list of str, optional
        For first_value, last_value, string_agg, array_agg, mode and quantiles: an order of a frame's rows other than
        the window's.

    Examples
    --------
    >>> window("sum", "x", frame=("rows", -2, 0)).function
    'sum'
    """
    return WindowSpec(function, arguments, frame, distinct, ignore_nulls, exclude, filter, tuple(as_list(order_by)))  # type: ignore[arg-type]


def window_nodes(
    ids: NodeIds,
    id: str | None,
    child: PlanNode,
    calls: Mapping[str, WindowSpec | str | tuple[Any, ...]],
    partition_by: Sequence[str] | str,
    order_by: SortKeys,
) -> PlanNode:
    """The Window node of window(). Expressions among the arguments are computed by a Project below it and dropped by
    another above it.
    """
    if not calls:
        raise PlanError("window() needs a call")
    if id:
        ids.take(id)
    partitions = tuple(str(name) for name in as_list(partition_by))
    for name in partitions:
        check_column(name, child.schema, "window(), partition_by")
    order = read_sort_keys(order_by, child.schema, "window(), order_by") if order_by else ()
    check_unique([*child.schema.names, *calls], "window()")
    reader = _CallReader(child.schema, order, ColumnNames([*child.schema.names, *calls]))
    window_calls = tuple(reader.read(name, spec) for name, spec in calls.items())
    below = child
    if reader.computed:
        wide = [*child.schema.names, *reader.computed]
        expressions = (*map(col, child.schema.names), *reader.computed.values())
        below = Project(ids.new(), project_schema(wide, expressions, child.schema), child, expressions)
    fields = [pa.field(call.name, _call_type(call, below.schema)) for call in window_calls]
    schema = pa.schema([*below.schema, *fields])
    node = Window(id or ids.new(), schema, below, partitions, order, window_calls)
    if not reader.computed:
        return node
    names = [*child.schema.names, *calls]
    return Project(ids.new(), pa.schema([schema.field(name) for name in names]), node, tuple(map(col, names)))


class _CallReader:
    """Reads the calls of one step. `computed` collects arguments that are not columns, by their new names."""

    def __init__(self, schema: pa.Schema, order: tuple[SortKey, ...], names: ColumnNames) -> None:
        self._schema = schema
        self._order = order
        self._names = names
        self.computed: dict[str, Expr] = {}

    def read(self, name: str, spec: Any) -> WindowCall:
        where = f"window(), {name!r}"
        if isinstance(spec, str):
            spec = WindowSpec(spec)
        elif isinstance(spec, tuple) and spec and isinstance(spec[0], str):
            spec = WindowSpec(spec[0], tuple(spec[1:]))
        if not isinstance(spec, WindowSpec):
            raise PlanError(f'{where}: give "row_number", ("sum", "x") or window("sum", "x"), not {spec!r}')
        in_step(where, lambda: check_window_function(spec.function))
        arguments, number = _split_number(spec, where)
        if len(arguments) > _arguments_max(spec.function):
            raise PlanError(f"{where}: {spec.function} does not take {len(spec.arguments)} arguments")
        values: tuple[Expr, ...] = tuple(read_expression(argument, self._schema, where) for argument in arguments)
        if spec.function in VALUES and not values:
            raise PlanError(f"{where}: {spec.function} needs a column")
        parameter = None
        if spec.function not in PLACES | FRACTIONS | VALUES:
            bound = [Bound(value, expr_type(value, self._schema)) for value in values]
            bound, parameter = in_step(where, lambda: window_arguments(spec.function, bound))
            values = tuple(value.expr for value in bound)
        order = self._frame_order(spec, where)
        condition: Expr | None = None
        if spec.filter is not None:
            values, condition = self._apply_filter(spec, spec.filter, values, where)
        columns: list[str | None] = [self._column(value) for value in values]
        filter = None if condition is None else self._column(condition)
        columns += [None] * (2 - len(columns))
        frame = _read_frame(spec, self._schema, self._order, where)
        return WindowCall(
            name, spec.function, columns[0], number, frame, columns[1], spec.distinct, spec.ignore_nulls, filter,
            order, parameter,
        )  # fmt: skip

    def _frame_order(self, spec: WindowSpec, where: str) -> tuple[SortKey, ...]:
        if spec.order_by and spec.function not in _ORDERED:
            raise PlanError(f"{where}: {spec.function} takes no order_by; use order_by of the step window()")
        return read_sort_keys(spec.order_by, self._schema, where) if spec.order_by else ()

    def _apply_filter(
        self, spec: WindowSpec, filter: Expression, values: tuple[Expr, ...], where: str
    ) -> tuple[tuple[Expr, ...], Expr | None]:
        """The arguments with nulls where the filter is not true. Functions that keep nulls get the filter itself."""
        if not is_aggregate(spec.function) and not (spec.function in ENDS and spec.order_by):
            raise PlanError(f"{where}: {spec.function} takes no filter; only aggregates do")
        condition = read_condition(filter, self._schema, f"{where}, filter")
        if spec.function == "array_agg" or spec.order_by:
            return values, condition
        first = Case(((condition, values[0] if values else lit(1)),))
        return (first, *values[1:]), None

    def _column(self, expr: Expr) -> str:
        """The name of a column that holds the expression."""
        if isinstance(expr, Column):
            return expr.name
        name = self._names.new("window")
        self.computed[name] = expr
        return name


def _call_type(call: WindowCall, schema: pa.Schema) -> pa.DataType:
    return in_step(f"window(), {call.name!r}", lambda: window_type(call, schema))


def _split_number(spec: WindowSpec, where: str) -> tuple[list[Any], int]:
    """The arguments that are values, and the number: a distance, a position or a count of buckets."""
    arguments = list(spec.arguments)
    if spec.function not in NUMBERED and spec.function != "ntile":
        return arguments, 1
    position = 0 if spec.function == "ntile" else 1
    if len(arguments) <= position:
        if spec.function in ("ntile", "nth_value"):
            raise PlanError(f"{where}: {spec.function} needs a number")
        return arguments, 1
    number = arguments.pop(position)
    if isinstance(number, Literal):
        number = number.value
    if not isinstance(number, int) or isinstance(number, bool):
        raise PlanError(f"{where}: {spec.function} takes a whole number, not {number!r}")
    if number < 1 and spec.function in ("ntile", "nth_value"):
        raise PlanError(f"{where}: {spec.function} takes a number of 1 or more, not {number}")
    return arguments, number


def _arguments_max(function: str) -> int:
    if function in PLACES | FRACTIONS:
        return 0
    return 2 if function in PAIRS | KEEP_VALUES else 1


def _read_frame(spec: WindowSpec, schema: pa.Schema, order: tuple[SortKey, ...], where: str) -> WindowFrame:
    given = spec.frame
    if spec.exclude not in EXCLUSIONS:
        raise PlanError(f"{where}: a frame excludes {', '.join(EXCLUSIONS)}, not {spec.exclude!r}")
    if given is None:
        return WindowFrame(exclude=spec.exclude)
    if not isinstance(given, tuple) or len(given) != 3 or given[0] not in MODES:
        raise PlanError(f"{where}: a frame is (mode, start, end) with a mode of {', '.join(MODES)}, not {given!r}")
    mode, start, end = given
    kinds = (int, float, pa.MonthDayNano) if mode == "range" else (int,)
    for distance in (start, end):
        if distance is not None and (not isinstance(distance, kinds) or isinstance(distance, bool)):
            possible = "numbers, intervals" if mode == "range" else "whole numbers"
            raise PlanError(f"{where}: a frame's ends are {possible} or None, not {distance!r}")
    if isinstance(start, (int, float)) and isinstance(end, (int, float)) and start > end:
        raise PlanError(f"{where}: the frame ends before it starts: {given!r}")
    if mode != "range" or not (start or end):
        return WindowFrame(mode, start, end, spec.exclude)
    if len(order) != 1:
        raise PlanError(f"{where}: a range frame with a distance needs exactly one column to order by")
    type_ = expr_type(col(order[0].column), schema)
    start, end = in_step(
        where,
        lambda: (start and range_distance(start, type_, False), end and range_distance(end, type_, True)),
    )
    return WindowFrame(mode, start, end, spec.exclude)
