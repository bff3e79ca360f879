"""The step of a plan that adds window functions. SPEC Q2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from qcore.builder.plan_steps import Expression, PlanSteps, check_boolean, in_step, listed
from qcore.errors import PlanError
from qcore.expression.tree import Case, Column, Expr, Literal, col, lit
from qcore.functions.aggregates import KEEP_VALUES, PAIRS, is_aggregate
from qcore.functions.catalogue import expr_type
from qcore.plan.naming import ColumnNames
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

MODES = ("rows", "range", "groups")
GivenFrame = tuple[str, WindowDistance, WindowDistance]
# Aggregates whose rows may have an order of their own.
_ORDERED = ENDS | {"array_agg", "string_agg", "mode", "quantile_cont", "quantile_disc", "median", "first", "last"}


@dataclass(frozen=True)
class WindowSpec:
    """A window function of PlanBuilder.window(); made by window()."""

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
    """A window function with everything it can have.

    Parameters
    ----------
    function : str
        row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value, last_value, nth_value, or
        an aggregate.
    arguments : Expr, str or int
        Columns or expressions; then of lag and lead how many rows away (1), of nth_value which, of ntile how many.
    frame : (mode, start, end), optional
        Mode is 'rows', 'range' or 'groups'; start and end count from the current row on, None is the partition's end:
        ("rows", -2, 0) is this row and the two before. A range of floats takes floats, one of dates, times or
        timestamps a pyarrow.MonthDayNano. By default from the partition's start to the row's last peer.
    distinct : bool
        Of an aggregate: each value once a frame.
    ignore_nulls : bool
        Of lag, lead, first_value, last_value and nth_value: pass over nulls.
    exclude : {'no others', 'current row', 'group', 'ties'}
        Rows of the frame that do not count: the current row, it and its peers, its peers alone.
    filter : Expr or str, optional
        Of an aggregate: only rows for which this is true.
    order_by : list of str, optional
        Of first_value, last_value, string_agg, array_agg, mode and quantiles: what orders a frame's rows instead.

    Examples
    --------
    >>> window("sum", "x", frame=("rows", -2, 0)).function
    'sum'
    """
    return WindowSpec(function, arguments, frame, distinct, ignore_nulls, exclude, filter, tuple(listed(order_by)))  # type: ignore[arg-type]


class WindowSteps(PlanSteps):
    """The part of PlanBuilder for window functions."""

    def window(
        self,
        calls: Mapping[str, WindowSpec | str | tuple[Any, ...]],
        partition_by: Sequence[str] | str = (),
        order_by: Sequence[str | SortKey] | str | SortKey = (),
        id: str | None = None,
    ) -> Self:
        """Add columns that functions compute over the rows around each row.

        Parameters
        ----------
        calls : dict
            Output name → "row_number", ("sum", "x"), ("lag", "x", 2), or window(…).
        partition_by : list of str
            Columns; rows of different values do not see each other.
        order_by : list of str
            Order within a partition: ["day", "x desc nulls first"].

        Examples
        --------
        >>> import pyarrow as pa, qcore
        >>> rows = pa.table({"k": ["a", "a", "b"], "x": [1, 2, 3]})
        >>> ranked = qcore.PlanBuilder().values(rows).window({"n": "row_number"}, partition_by="k", order_by="x desc")
        >>> sorted(qcore.Session(threads=1).execute(ranked.build()).to_arrow().to_pydict()["n"])
        [1, 1, 2]
        """
        child = self._input("window")
        if not calls:
            raise PlanError("window() needs a call")
        partitions = tuple(str(name) for name in listed(partition_by))
        for name in partitions:
            check_column(name, child.schema, "window(), partition_by")
        order = self._sort_keys(order_by, child.schema, "window(), order_by") if order_by else ()
        check_unique([*child.schema.names, *calls], "window()")
        computed: dict[str, Expr] = {}
        names = ColumnNames([*child.schema.names, *calls])
        made = tuple(
            self._window_call(name, spec, child.schema, order, computed, names) for name, spec in calls.items()
        )
        node: PlanNode = child
        if computed:
            wide = [*child.schema.names, *computed]
            expressions = (*map(col, child.schema.names), *computed.values())
            node = Project(self._new_id(), project_schema(wide, expressions, child.schema), child, expressions)
        fields = [pa.field(call.name, _type_in_step(call, node.schema)) for call in made]
        below = self._continued(node) if computed else self
        result = Window(id or below._new_id(), pa.schema([*node.schema, *fields]), node, partitions, order, made)
        above = below._continued(result)
        if not computed:
            return above
        kept = [*child.schema.names, *calls]
        schema = pa.schema([result.schema.field(name) for name in kept])
        return above._continued(Project(above._new_id(), schema, result, tuple(map(col, kept))))

    def _window_call(
        self,
        name: str,
        spec: Any,
        schema: pa.Schema,
        order: tuple[SortKey, ...],
        computed: dict[str, Expr],
        names: ColumnNames,
    ) -> WindowCall:
        where = f"window(), {name!r}"
        if isinstance(spec, str):
            spec = WindowSpec(spec)
        elif isinstance(spec, tuple) and spec and isinstance(spec[0], str):
            spec = WindowSpec(spec[0], tuple(spec[1:]))
        if not isinstance(spec, WindowSpec):
            raise PlanError(f'{where}: give "row_number", ("sum", "x") or window("sum", "x"), not {spec!r}')
        in_step(where, lambda: check_window_function(spec.function))
        arguments, number = _split_number(spec, where)
        if len(arguments) > _most_arguments(spec.function):
            raise PlanError(f"{where}: {spec.function} does not take {len(spec.arguments)} arguments")
        values: tuple[Expr, ...] = tuple(self._expression(argument, schema, where) for argument in arguments)
        if spec.function in VALUES and not values:
            raise PlanError(f"{where}: {spec.function} needs a column")
        parameter = None
        if spec.function not in PLACES | FRACTIONS | VALUES:
            values, parameter = in_step(where, lambda: window_arguments(spec.function, values, schema))
        own_order, kept = self._own_order(spec, schema, where), None
        if spec.filter is not None:
            values, kept = self._filtered(spec, values, schema, where)
        columns: list[str | None] = [self._argument(value, computed, names) for value in values]
        filter = None if kept is None else self._argument(kept, computed, names)
        columns += [None] * (2 - len(columns))
        frame = _frame(spec, schema, order, where)
        return WindowCall(
            name, spec.function, columns[0], number, frame, columns[1], spec.distinct, spec.ignore_nulls, filter,
            own_order, parameter,
        )  # fmt: skip

    def _own_order(self, spec: WindowSpec, schema: pa.Schema, where: str) -> tuple[SortKey, ...]:
        if spec.order_by and spec.function not in _ORDERED:
            raise PlanError(f"{where}: {spec.function} has no order of its own; there is window(), order_by")
        return self._sort_keys(spec.order_by, schema, where) if spec.order_by else ()

    def _filtered(
        self, spec: WindowSpec, values: tuple[Expr, ...], schema: pa.Schema, where: str
    ) -> tuple[tuple[Expr, ...], Expr | None]:
        """The arguments with nulls where the filter is not true; the filter itself where a null is a value."""
        if not is_aggregate(spec.function) and not (spec.function in ENDS and spec.order_by):
            raise PlanError(f"{where}: {spec.function} takes no filter; aggregates do")
        assert spec.filter is not None
        kept = self._expression(spec.filter, schema, f"{where}, filter")
        check_boolean(kept, schema, f"{where}, filter")
        if spec.function == "array_agg" or spec.order_by:
            return values, kept
        first = Case(((kept, values[0] if values else lit(1)),))
        return (first, *values[1:]), None

    def _argument(self, expr: Expr, computed: dict[str, Expr], names: ColumnNames) -> str:
        """A column that holds the expression."""
        if isinstance(expr, Column):
            return expr.name
        name = names.new("window")
        computed[name] = expr
        return name


def _type_in_step(call: WindowCall, schema: pa.Schema) -> pa.DataType:
    return in_step(f"window(), {call.name!r}", lambda: window_type(call, schema))


def _split_number(spec: WindowSpec, where: str) -> tuple[list[Any], int]:
    """The arguments that are values, and the number that says how far, which or how many."""
    arguments = list(spec.arguments)
    if spec.function not in NUMBERED and spec.function != "ntile":
        return arguments, 1
    place = 0 if spec.function == "ntile" else 1
    if len(arguments) <= place:
        if spec.function in ("ntile", "nth_value"):
            raise PlanError(f"{where}: {spec.function} needs a number")
        return arguments, 1
    number = arguments.pop(place)
    if isinstance(number, Literal):
        number = number.value
    if not isinstance(number, int) or isinstance(number, bool):
        raise PlanError(f"{where}: {spec.function} takes a whole number, not {number!r}")
    if number < 1 and spec.function in ("ntile", "nth_value"):
        raise PlanError(f"{where}: {spec.function} takes a number of 1 or more, not {number}")
    return arguments, number


def _most_arguments(function: str) -> int:
    if function in PLACES | FRACTIONS:
        return 0
    return 2 if function in PAIRS | KEEP_VALUES else 1


def _frame(spec: WindowSpec, schema: pa.Schema, order: tuple[SortKey, ...], where: str) -> WindowFrame:
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
            may = ", or of a range distances" if mode == "range" else ""
            raise PlanError(f"{where}: a frame's ends are whole numbers{may} or None, not {distance!r}")
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
