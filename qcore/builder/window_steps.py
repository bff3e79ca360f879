"""The step of a plan that adds window functions. Floor P3. SPEC Q2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from qcore.builder.plan_steps import Expression, PlanSteps, in_step, listed
from qcore.language.aggregate_functions import PAIRS
from qcore.language.expression import Column, Expr, Literal, col
from qcore.language.functions import expr_type
from qcore.language.naming import ColumnNames
from qcore.language.plan import PlanNode, Project, SortKey, Window, WindowCall, WindowFrame
from qcore.language.schema import check_column, check_unique, project_schema
from qcore.language.window_plan import (
    FRACTIONS,
    NUMBERED,
    PLACES,
    VALUES,
    check_window_function,
    range_unit,
    window_type,
)
from qcore_ext.ground.status import PlanError

MODES = ("rows", "range", "groups")


@dataclass(frozen=True)
class WindowSpec:
    """A window function of PlanBuilder.window(); made by window()."""

    function: str
    arguments: tuple[Any, ...] = ()
    frame: tuple[str, int | None, int | None] | None = None
    distinct: bool = False
    ignore_nulls: bool = False


def window(
    function: str,
    *arguments: Any,
    frame: tuple[str, int | None, int | None] | None = None,
    distinct: bool = False,
    ignore_nulls: bool = False,
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
        ("rows", -2, 0) is this row and the two before. By default from the partition's start to the row's last peer.
    distinct : bool
        Of an aggregate: each value once a frame.
    ignore_nulls : bool
        Of lag, lead, first_value, last_value and nth_value: pass over nulls.

    Examples
    --------
    >>> window("sum", "x", frame=("rows", -2, 0)).function
    'sum'
    """
    return WindowSpec(function, arguments, frame, distinct, ignore_nulls)


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
        columns = [self._argument(argument, schema, where, computed, names) for argument in arguments]
        columns += [None] * (2 - len(columns))
        if spec.function in VALUES and columns[0] is None:
            raise PlanError(f"{where}: {spec.function} needs a column")
        frame = _frame(spec.frame, schema, order, where)
        return WindowCall(name, spec.function, columns[0], number, frame, columns[1], spec.distinct, spec.ignore_nulls)

    def _argument(
        self, value: Expression, schema: pa.Schema, where: str, computed: dict[str, Expr], names: ColumnNames
    ) -> str | None:
        expr = self._expression(value, schema, where)
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
    return 2 if function in PAIRS else 1


def _frame(
    given: tuple[str, int | None, int | None] | None, schema: pa.Schema, order: tuple[SortKey, ...], where: str
) -> WindowFrame:
    if given is None:
        return WindowFrame()
    if not isinstance(given, tuple) or len(given) != 3 or given[0] not in MODES:
        raise PlanError(f"{where}: a frame is (mode, start, end) with a mode of {', '.join(MODES)}, not {given!r}")
    mode, start, end = given
    for distance in (start, end):
        if distance is not None and (not isinstance(distance, int) or isinstance(distance, bool)):
            raise PlanError(f"{where}: a frame's ends are whole numbers or None, not {distance!r}")
    if start is not None and end is not None and start > end:
        raise PlanError(f"{where}: the frame ends before it starts: {given!r}")
    if mode != "range" or not (start or end):
        return WindowFrame(mode, start, end)
    if len(order) != 1:
        raise PlanError(f"{where}: a range frame with a distance needs exactly one column to order by")
    unit = in_step(where, lambda: range_unit(expr_type(col(order[0].column), schema)))
    return WindowFrame(mode, start and start * unit, end and end * unit)
