"""Window functions in SQL: calls with OVER, named windows and frames."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.functions.typed import cast
from qcore.plan.nodes import ColumnDistance, PlanNode, WindowFrame
from qcore.plan.window_calls import EXCLUSIONS, range_distance
from qcore.plan.window_groups import ALL_ROWS, Frame, SortValue, WindowFunction, WindowGroups, constant_of
from qcore.record import record
from qcore.sql.binder import Binder
from qcore.sql.call_parts import CallParts, read_call
from qcore.sql.ordering import read_ordered
from qcore.sql.reading import NotBound, get, identifier, take
from qcore.sql.scope import BindContext
from qcore.sql.subqueries import Rewrite, join_subqueries


@record
class _Definition:
    """The clauses of OVER; None for absent clauses."""

    partition_by: list[Any] | None
    order: Any
    spec: Any


class Windows:
    """The window functions of one SELECT. `subqueries` are those in their arguments, which are joined below."""

    def __init__(self, binder: Binder, named: Sequence[Any]) -> None:
        self.subqueries: list[Any] = []
        self._binder = binder
        self._groups = WindowGroups(binder.names, binder.dialect)
        self._named: dict[str, Any] = {}
        for window in named:
            name, _ = identifier(get(window, "this"))
            if name.lower() in self._named:
                raise PlanError(f"two windows are named {name!r}; give one another name")
            self._named[name.lower()] = window

    def bind(self, node: Any, context: BindContext) -> Bound:
        """The value of a window function."""
        function, *_ = take(node, "this", "partition_by", "order", "spec", "alias", "over", "first")
        if get(node, "first"):
            raise NotBound(node, "KEEP (DENSE_RANK …)", "arg_min and arg_max have the value of the first or last row")
        definition = self._definition(node, context, ())
        inner = BindContext(
            context.scope, "a window function", self.subqueries, context.grouping, None, context.aliases
        )
        binder = self._binder
        keys = [binder.expression(key, inner) for key in definition.partition_by or ()]
        order = [] if definition.order is None else self._order(definition.order, inner)
        frame = self._frame(definition.spec, order, inner)
        parts = read_call(function, binder)
        arguments = [binder.expression(argument, inner) for argument in parts.arguments if not _is_star(argument)]
        filter = None if parts.filter is None else binder.expression(parts.filter, inner)
        written = WindowFunction(
            parts.name, arguments, parts.distinct, parts.ignore_nulls, parts.within_group, filter,
            self._call_order(parts, inner),
        )  # fmt: skip
        return self._groups.bind(written, keys, order, frame)

    @property
    def outputs(self) -> dict[str, pa.DataType]:
        """The types of the columns that the window functions have."""
        return self._groups.outputs

    def reads(self, names: set[str]) -> bool:
        """Whether an argument, a partition or an order reads one of these columns."""
        return self._groups.reads(names)

    def node(self, node: PlanNode, rewrite: Rewrite) -> PlanNode:
        """The rows with a column for each call. `rewrite` translates expressions to expressions over the node."""
        binder = self._binder
        node = join_subqueries(binder, node, self.subqueries, rewrite)
        return self._groups.node(binder.ids, node, rewrite)

    # --- definitions ---

    def _definition(self, node: Any, context: BindContext, within: tuple[str, ...]) -> _Definition:
        own = _Definition(get(node, "partition_by") or None, get(node, "order"), get(node, "spec"))
        base = get(node, "alias")
        if base is None:
            return own
        name, _ = identifier(base)
        if name.lower() in within:
            raise PlanError(f"the definition of the window {name!r} refers to itself")
        window = self._named.get(name.lower())
        order = list(self._named)
        if window is None or (within and order.index(name.lower()) > order.index(within[-1])):
            raise PlanError(f"there is no window {name!r}; WINDOW {name} AS (…) defines one")
        take(window, "this", "partition_by", "order", "spec", "alias", "over", "first")
        known = self._definition(window, context, (*within, name.lower()))
        clauses = (("PARTITION BY", own.partition_by, known.partition_by), ("ORDER BY", own.order, known.order))
        for word, given, there in clauses:
            if given is not None and there is not None:
                raise PlanError(f"the window {name!r} already has {word}; OVER cannot add another")
        if known.spec is not None and not _is_bare(node):
            raise PlanError(f"the window {name!r} has a frame; it can only be used as it is: OVER {name}")
        return _Definition(
            known.partition_by if own.partition_by is None else own.partition_by,
            known.order if own.order is None else own.order,
            known.spec if own.spec is None else own.spec,
        )

    def _order(self, order: Any, context: BindContext) -> list[SortValue]:
        (keys,) = take(order, "expressions")
        result = []
        for key in keys:
            value, descending, nulls_first = read_ordered(key)
            result.append((self._binder.expression(value, context), descending, nulls_first))
        return result

    def _frame(self, spec: Any, order: list[SortValue], context: BindContext) -> Frame:
        if spec is None:
            return Frame(WindowFrame()) if order else ALL_ROWS
        kind, start, start_side, end, end_side, exclude = take(
            spec, "kind", "start", "start_side", "end", "end_side", "exclude"
        )
        mode = str(kind).lower()
        bounds: list[Any] = []
        own: list[Bound | None] = []
        for value, side in ((start, start_side), (end or "CURRENT ROW", end_side)):
            is_end = bool(bounds)
            distance = self._distance(value, side, mode, context)
            own.append(distance if isinstance(distance, Bound) else None)
            if isinstance(distance, Bound):
                bounds.append(ColumnDistance("", str(side).upper() == "PRECEDING"))
                continue
            if mode == "range" and distance not in (None, 0):
                if len(order) != 1:
                    raise PlanError("a RANGE frame with a distance needs exactly one column to order by")
                distance = range_distance(distance, order[0][0].type, is_end)
            elif mode != "range" and distance not in (None, 0) and not isinstance(distance, int):
                raise PlanError(f"a frame of {mode.upper()} is counted in whole numbers, not {distance}")
            bounds.append(distance)
        _check_bounds(start, start_side, end, end_side, bounds)
        excluded = "no others" if exclude is None else str(getattr(exclude, "name", exclude)).lower().replace("_", " ")
        if excluded not in EXCLUSIONS:
            raise PlanError(f"EXCLUDE {excluded.upper()} is not known; there are {', '.join(EXCLUSIONS).upper()}")
        return Frame(WindowFrame(mode, bounds[0], bounds[1], excluded), own[0], own[1])

    def _distance(self, value: Any, side: Any, mode: str, context: BindContext) -> Any:
        """The distance of a frame's end: None for the partition's end, a constant, or the value that each row has."""
        if isinstance(value, str):
            return None if value.upper() == "UNBOUNDED" else 0
        bound = self._binder.expression(value, context)
        number = constant_of(bound.expr)
        if number is None and pa.types.is_integer(bound.type) and mode != "range":
            return cast(bound, pa.int64())
        if isinstance(number, bool) or not isinstance(number, (int, float, Decimal, pa.MonthDayNano)):
            self._binder.blame(value)
            if mode != "range":
                raise PlanError(f"a frame of {mode.upper()} is counted in whole numbers, not in {bound.type}")
            raise PlanError(
                "the distances of a RANGE frame must be constants: numbers or intervals; for distances that depend on "
                "the row, join the rows with those in their range"
            )
        sign = -1 if str(side).upper() == "PRECEDING" else 1
        if isinstance(number, pa.MonthDayNano):
            return pa.MonthDayNano([part * sign for part in number])
        if number < 0:
            raise PlanError(f"the distance {number} of a frame is negative; exchange PRECEDING and FOLLOWING")
        return number * sign

    def _call_order(self, parts: CallParts, context: BindContext) -> list[SortValue]:
        result = []
        for key in parts.order:
            value, descending, nulls_first = read_ordered(key)
            result.append((self._binder.expression(value, context), descending, nulls_first))
        return result


def bind_window(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A function with OVER."""
    if context.windows is None:
        raise PlanError(f"a window function cannot be in {context.clause}")
    windows: Windows = context.windows
    return windows.bind(node, context)


def _is_bare(node: Any) -> bool:
    """Whether OVER only names a window."""
    return not any(get(node, name) for name in ("partition_by", "order", "spec"))


def _is_star(node: Any) -> bool:
    return type(node).__name__ == "Star"


def _check_bounds(start: Any, start_side: Any, end: Any, end_side: Any, bounds: Sequence[Any]) -> None:
    if isinstance(start, str) and start.upper() == "UNBOUNDED" and str(start_side).upper() == "FOLLOWING":
        raise PlanError("a frame cannot begin at UNBOUNDED FOLLOWING")
    if isinstance(end, str) and end.upper() == "UNBOUNDED" and str(end_side).upper() == "PRECEDING":
        raise PlanError("a frame cannot end at UNBOUNDED PRECEDING")
    sides = []
    for value, side in ((start, start_side), (end or "CURRENT ROW", end_side)):
        is_current = isinstance(value, str) and value.upper() == "CURRENT ROW"
        is_unbounded = isinstance(value, str) and not is_current
        sides.append(0 if is_current or is_unbounded else -1 if str(side).upper() == "PRECEDING" else 1)
    has_ends = not any(isinstance(v, str) and v.upper() == "UNBOUNDED" for v in (start, end))
    if has_ends and sides[0] > sides[1]:
        raise PlanError("a frame cannot end before it begins; exchange its ends")
