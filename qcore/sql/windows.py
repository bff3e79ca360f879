"""Window functions: calls, OVER, named windows and frames → Window nodes.

Calls over the same partitions and order share a node. A Project below computes arguments that are not columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Case, Cast, Column, Expr, Literal, call, column_names, same
from qcore.expression.types import is_text
from qcore.functions.aggregate_names import bind_aggregate, is_aggregate_name
from qcore.functions.aggregates import KEEP_VALUES, PAIRS, aggregate_type
from qcore.plan.aggregate_calls import fraction, separator
from qcore.plan.nodes import ColumnDistance, PlanNode, SortKey, Window, WindowCall, WindowFrame
from qcore.plan.projections import add_columns
from qcore.plan.schema import same_type
from qcore.plan.window_calls import ENDS, EXCLUSIONS, FRACTIONS, PLACES, VALUES, range_distance, window_type
from qcore.sql.binder import Binder
from qcore.sql.call_parts import CallParts, read_call
from qcore.sql.ordering import read_ordered
from qcore.sql.reading import NotBound, get, identifier, take
from qcore.sql.scope import Place
from qcore.sql.subqueries import Rewrite, join_subqueries

_WHOLE = WindowFrame("rows", None, None)
_QUANTILES = frozenset({"quantile_cont", "quantile_disc"})

# A value to order by, descending, nulls first.
SortValue = tuple[Bound, bool, bool]


@dataclass
class _Definition:
    """What OVER has: None for clauses that are not there."""

    partition_by: list[Any] | None
    order: Any
    spec: Any


@dataclass
class _Frame:
    """A frame, and the distances of its ends that are values of the rows: the frame's have no column names yet."""

    frame: WindowFrame
    start: Bound | None = None
    end: Bound | None = None


_ALL_ROWS = _Frame(_WHOLE)


@dataclass
class _Call:
    """A call of the Window operator. Its `call` has no column names yet: the others have the values. `number` is None
    for a constant.
    """

    call: WindowCall
    argument: Bound | None
    second: Bound | None
    filter: Bound | None
    order_by: list[SortValue]
    number: Bound | None
    frame: _Frame

    @property
    def values(self) -> list[Bound]:
        """What it reads of each row."""
        parts = (self.argument, self.second, self.filter, self.number, self.frame.start, self.frame.end)
        return [part for part in parts if part is not None]


@dataclass
class _Group:
    """Calls of one partitioning and order."""

    partition_by: list[Bound]
    order_by: list[SortValue]
    calls: list[_Call]


class Windows:
    """The window functions of one SELECT. `subqueries` are those in their arguments, which are joined below."""

    def __init__(self, binder: Binder, named: Sequence[Any]) -> None:
        self.subqueries: list[Any] = []
        self.outputs: dict[str, pa.DataType] = {}
        self._binder = binder
        self._groups: list[_Group] = []
        self._named: dict[str, Any] = {}
        for window in named:
            name, _ = identifier(get(window, "this"))
            if name.lower() in self._named:
                raise PlanError(f"two windows are named {name!r}; give one another name")
            self._named[name.lower()] = window

    def bind(self, node: Any, place: Place) -> Bound:
        """The value of a window function."""
        function, *_ = take(node, "this", "partition_by", "order", "spec", "alias", "over", "first")
        if get(node, "first"):
            raise NotBound(node, "KEEP (DENSE_RANK …)", "arg_min and arg_max have the value of the first or last row")
        definition = self._definition(node, place, ())
        inner = Place(place.scope, "a window function", self.subqueries, place.grouping, None, place.aliases)
        binder = self._binder
        keys = [binder.expression(key, inner) for key in definition.partition_by or ()]
        order = [] if definition.order is None else self._order(definition.order, inner)
        group = self._group(keys, order)
        frame = self._frame(definition.spec, order, inner)
        parts = read_call(function, binder)
        name = parts.name.lower()
        arguments = [binder.expression(argument, inner) for argument in parts.arguments if not _is_star(argument)]
        filter = None if parts.filter is None else binder.expression(parts.filter, inner)
        if name in PLACES | FRACTIONS | VALUES:
            return self._own_function(name, parts, arguments, filter, group, frame, inner)
        if not is_aggregate_name(name, binder.dialect):
            raise PlanError(f"there is no window function {parts.name!r}")
        return self._aggregate(name, parts, arguments, filter, group, frame, inner)

    # --- definitions ---

    def _definition(self, node: Any, place: Place, within: tuple[str, ...]) -> _Definition:
        own = _Definition(get(node, "partition_by") or None, get(node, "order"), get(node, "spec"))
        base = get(node, "alias")
        if base is None:
            return own
        name, _ = identifier(base)
        if name.lower() in within:
            raise PlanError(f"the window {name!r} is defined by itself")
        window = self._named.get(name.lower())
        order = list(self._named)
        if window is None or (within and order.index(name.lower()) > order.index(within[-1])):
            raise PlanError(f"there is no window {name!r}; WINDOW {name} AS (…) defines one")
        take(window, "this", "partition_by", "order", "spec", "alias", "over", "first")
        known = self._definition(window, place, (*within, name.lower()))
        clauses = (("PARTITION BY", own.partition_by, known.partition_by), ("ORDER BY", own.order, known.order))
        for word, given, there in clauses:
            if given is not None and there is not None:
                raise PlanError(f"the window {name!r} has {word} already; it cannot be given again")
        if known.spec is not None and not _is_bare(node):
            raise PlanError(f"the window {name!r} has a frame; it can only be used as it is: OVER {name}")
        return _Definition(
            known.partition_by if own.partition_by is None else own.partition_by,
            known.order if own.order is None else own.order,
            known.spec if own.spec is None else own.spec,
        )

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

    def _order(self, order: Any, place: Place) -> list[SortValue]:
        (keys,) = take(order, "expressions")
        result = []
        for key in keys:
            value, descending, nulls_first = read_ordered(key)
            result.append((self._binder.expression(value, place), descending, nulls_first))
        return result

    def _group(self, partition_by: list[Bound], order_by: list[SortValue]) -> _Group:
        for group in self._groups:
            if _same_values(group.partition_by, partition_by) and _same_order(group.order_by, order_by):
                return group
        self._groups.append(_Group(partition_by, order_by, []))
        return self._groups[-1]

    def _frame(self, spec: Any, order: list[SortValue], place: Place) -> _Frame:
        if spec is None:
            return _Frame(WindowFrame()) if order else _ALL_ROWS
        kind, start, start_side, end, end_side, exclude = take(
            spec, "kind", "start", "start_side", "end", "end_side", "exclude"
        )
        mode = str(kind).lower()
        bounds: list[Any] = []
        own: list[Bound | None] = []
        for value, side in ((start, start_side), (end or "CURRENT ROW", end_side)):
            is_end = bool(bounds)
            distance = self._distance(value, side, mode, place)
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
        return _Frame(WindowFrame(mode, bounds[0], bounds[1], excluded), own[0], own[1])

    def _distance(self, value: Any, side: Any, mode: str, place: Place) -> Any:
        """The distance of a frame's end: None for the partition's end, a constant, or the value that each row has."""
        if isinstance(value, str):
            return None if value.upper() == "UNBOUNDED" else 0
        bound = self._binder.expression(value, place)
        number = _constant(bound.expr)
        if number is None and pa.types.is_integer(bound.type) and mode != "range":
            return _as(bound, pa.int64())
        if isinstance(number, bool) or not isinstance(number, (int, float, Decimal, pa.MonthDayNano)):
            self._binder.blame(value)
            if mode != "range":
                raise PlanError(f"a frame of {mode.upper()} is counted in whole numbers, not in {bound.type}")
            raise PlanError(
                "the distances of a RANGE frame are constants, numbers or intervals, because its ends are sought from "
                "row to row; one that each row has of its own takes a join of the rows with those in its range"
            )
        sign = -1 if str(side).upper() == "PRECEDING" else 1
        if isinstance(number, pa.MonthDayNano):
            return pa.MonthDayNano([part * sign for part in number])
        if number < 0:
            raise PlanError(f"the distance {number} of a frame is negative; write the other of PRECEDING and FOLLOWING")
        return number * sign

    # --- functions ---

    def _own_function(
        self,
        name: str,
        parts: CallParts,
        arguments: list[Bound],
        filter: Bound | None,
        group: _Group,
        frame: _Frame,
        place: Place,
    ) -> Bound:
        if parts.distinct:
            raise PlanError(f"{name} cannot be DISTINCT")
        if parts.order and name not in ENDS:
            raise PlanError(f"the window function {name} with an ORDER BY among its arguments is not supported")
        order = self._call_order(parts, place)
        if filter is not None:
            raise PlanError(f"the window function {name} cannot have a FILTER")
        if name == "ntile":
            number = self._number(parts, arguments, 0)
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
            one = WindowCall("", name, ignore_nulls=parts.ignore_nulls)
            return self._add(group, one, arguments, filter, order, frame)
        if len(arguments) > 1 and _constant(arguments[1].expr) is None and isinstance(arguments[1].expr, Literal):
            return Bound(Literal(None, arguments[0].type), arguments[0].type)
        number = self._number(parts, arguments, 1)
        one = WindowCall("", name, ignore_nulls=parts.ignore_nulls)
        value = self._add(group, one, arguments[:1], frame=frame, number=number)
        if len(arguments) < 3 or (isinstance(arguments[2].expr, Literal) and arguments[2].expr.value is None):
            return value
        return self._or_default(name, value, arguments[2], number, parts.ignore_nulls, group)

    def _or_default(
        self, name: str, value: Bound, default: Bound, distance: int | Bound, ignore_nulls: bool, group: _Group
    ) -> Bound:
        """The value of lag or lead, or the default where there is no such row. Null for a distance that is null."""
        expr = default.expr if same_type(default.type, value.type) else Cast(default.expr, value.type)
        by: Any = distance.expr if isinstance(distance, Bound) else distance
        if ignore_nulls:
            made = call("coalesce", value.expr, expr)
        else:
            number = self._add(group, WindowCall("", "row_number"), [])
            rows = self._add(group, WindowCall("", "partition_rows"), [])
            position = call("add" if name == "lead" else "subtract", number.expr, by)
            exists = call("and", call("greater_equal", position, 1), call("less_equal", position, rows.expr))
            made = Case(((exists, value.expr),), expr)
        if isinstance(distance, Bound):
            made = Case(((call("is_not_null", by), made),))
        return Bound(made, value.type)

    def _number(self, parts: CallParts, arguments: list[Bound], position: int) -> int | Bound:
        """A distance or position: a constant, or the value that each row has."""
        if len(arguments) <= position:
            if parts.name.lower() == "ntile":
                raise PlanError("ntile takes the number of tiles")
            return 1
        given = arguments[position]
        number = _constant(given.expr)
        if number is None and pa.types.is_integer(given.type):
            return _as(given, pa.int64())
        if not isinstance(number, int) or isinstance(number, bool):
            raise PlanError(f"{parts.name} counts in whole numbers, not in {given.type}; cast the number to BIGINT")
        return number

    def _aggregate(
        self,
        name: str,
        parts: CallParts,
        arguments: list[Bound],
        filter: Bound | None,
        group: _Group,
        frame: _Frame,
        place: Place,
    ) -> Bound:
        def add(
            function: str,
            arguments: Sequence[Bound],
            distinct: bool,
            filter: Bound | None,
            order: Sequence[SortValue],
        ) -> Bound:
            given, parameter = _aggregate_arguments(function, list(arguments))
            if len(given) > (2 if function in PAIRS else 1):
                raise PlanError(f"{function} of {len(given)} arguments over a window is not supported")
            one = WindowCall("", function, distinct=distinct, ignore_nulls=parts.ignore_nulls, parameter=parameter)
            is_ordered = function in KEEP_VALUES or function in ("first", "last", "any_value")
            return self._add(group, one, given, filter, list(order) if is_ordered else [], frame)

        return bind_aggregate(
            name,
            arguments,
            distinct=parts.distinct,
            filter=filter,
            order=self._call_order(parts, place),
            within_group=parts.within_group,
            add=add,
            dialect=self._binder.dialect,
        )

    def _call_order(self, parts: CallParts, place: Place) -> list[SortValue]:
        result = []
        for key in parts.order:
            value, descending, nulls_first = read_ordered(key)
            result.append((self._binder.expression(value, place), descending, nulls_first))
        return result

    def _add(
        self,
        group: _Group,
        one: WindowCall,
        arguments: Sequence[Bound],
        filter: Bound | None = None,
        order: Sequence[SortValue] = (),
        frame: _Frame = _ALL_ROWS,
        number: int | Bound = 1,
    ) -> Bound:
        argument = arguments[0] if arguments else None
        second = arguments[1] if len(arguments) > 1 else None
        type_ = _result_type(one, argument, second)
        of_rows = number if isinstance(number, Bound) else None
        constant = 1 if isinstance(number, Bound) else number
        one = replace(one, name=self._binder.names.new(one.function), number=constant, frame=frame.frame)
        group.calls.append(_Call(one, argument, second, filter, list(order), of_rows, frame))
        self.outputs[one.name] = type_
        return Bound(Column(one.name), type_)

    # --- nodes ---

    def node(self, node: PlanNode, rewrite: Rewrite) -> PlanNode:
        """The rows with a column for each call. `rewrite` turns expressions into ones over the node."""
        if not self._groups:
            return node
        binder = self._binder
        node = join_subqueries(binder, node, self.subqueries, rewrite)
        computed: dict[str, Expr] = {}

        def column(value: Bound) -> str:
            expr = rewrite(value.expr)
            if isinstance(expr, Column):
                return expr.name
            for name, known in computed.items():
                if same(known, expr):
                    return name
            name = binder.names.new("window")
            computed[name] = expr
            return name

        def keys(order: Sequence[SortValue]) -> tuple[SortKey, ...]:
            return tuple(SortKey(column(value), *direction) for value, *direction in order)

        def frame(of: _Frame) -> WindowFrame:
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
            node = add_columns(binder.ids.new(), node, computed)
        for partition_by, order_by, calls in nodes:
            added = [pa.field(one.name, self.outputs[one.name]) for one in calls]
            schema = pa.schema([*node.schema, *added])
            node = Window(binder.ids.new(), schema, node, partition_by, order_by, calls)
        return node


def bind_window(binder: Binder, node: Any, place: Place) -> Bound:
    """A function with OVER."""
    if place.windows is None:
        raise PlanError(f"a window function cannot be in {place.clause}")
    windows: Windows = place.windows
    return windows.bind(node, place)


def _is_bare(node: Any) -> bool:
    """Whether OVER only names a window."""
    return not any(get(node, name) for name in ("partition_by", "order", "spec"))


def _is_star(node: Any) -> bool:
    return type(node).__name__ == "Star"


def _constant(expr: Expr) -> Any:
    """The value of a constant, or of one in casts and under a minus sign; None for another expression."""
    while isinstance(expr, Cast):
        expr = expr.argument
    return expr.value if isinstance(expr, Literal) else None


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


def _aggregate_arguments(function: str, values: list[Bound]) -> tuple[list[Bound], str | float | None]:
    """The arguments of an aggregate over a window, and its separator or fraction, which must be a constant."""
    if function in PAIRS or function in ("median", "quantile_cont"):
        n = 2 if function in PAIRS else 1
        floats = [_as(value, pa.float64()) for value in values[:n]]
        return floats, None if function in PAIRS else 0.5 if function == "median" else _fraction(function, values)
    if function == "quantile_disc":
        return values[:1], _fraction(function, values)
    if function == "string_agg" and values:
        text = values[0] if is_text(values[0].type) else _as(values[0], pa.string())
        return [text], separator(values[1].expr) if len(values) > 1 else ","
    if function == "array_agg" and values and pa.types.is_nested(values[0].type):
        raise PlanError(f"array_agg of {values[0].type} over a window is not supported; use GROUP BY")
    return values, None


def _fraction(function: str, values: Sequence[Bound]) -> float:
    if len(values) < 2:
        raise PlanError(f"{function} takes a value and a fraction")
    return fraction(function, values[1].expr)


def _as(value: Bound, type_: pa.DataType) -> Bound:
    return value if value.type == type_ else Bound(Cast(value.expr, type_), type_)
