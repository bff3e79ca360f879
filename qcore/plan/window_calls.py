"""Window functions: their names, result types, and calls of the Window operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.types import is_text
from qcore.functions.aggregates import KEEP_VALUES, PAIRS, aggregate_type, is_aggregate
from qcore.functions.typed import cast
from qcore.plan.aggregate_calls import fraction, separator
from qcore.plan.nodes import ColumnDistance, WindowCall, WindowDistance

# Functions whose result is an integer: a row's position in its partition, or its size.
PLACES = frozenset({"row_number", "rank", "dense_rank", "ntile", "partition_rows"})
FRACTIONS = frozenset({"percent_rank", "cume_dist"})
# Functions that return another row's value. NUMBERED take a distance or position.
NUMBERED = frozenset({"lag", "lead", "nth_value"})
ENDS = frozenset({"first_value", "last_value"})
VALUES = NUMBERED | ENDS
EXCLUSIONS = ("no others", "current row", "group", "ties")
QUANTILES = frozenset({"median", "quantile_cont", "quantile_disc"})
# Aggregates that return a value of the frame that is not null, and the functions that compute the same.
_AS_VALUES = {"any_value": "first_value", "first": "first_value", "last": "last_value"}
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NANOS = 86_400_000_000_000


def is_window_function(name: str) -> bool:
    """Whether there is a window function of this name."""
    return name in PLACES | FRACTIONS | VALUES or is_aggregate(name)


def window_type(call: WindowCall, schema: pa.Schema) -> pa.DataType:
    """Type of the call's result. PlanError for arguments that the function does not take."""
    if call.function in PLACES:
        return pa.int64()
    if call.function in FRACTIONS:
        return pa.float64()
    types = [schema.field(name).type for name in (call.argument, call.second) if name is not None]
    if call.function in ("quantile_cont", "quantile_disc"):
        types.append(pa.float64())
    return types[0] if call.function in VALUES else aggregate_type(call.function, types)


def check_window_function(name: str) -> None:
    """PlanError for an unknown window function."""
    if not is_window_function(name):
        known = ", ".join(sorted((PLACES | FRACTIONS | VALUES) - {"partition_rows"}))
        raise PlanError(f"there is no window function {name!r}; there are {known}, and the aggregates")


def window_arguments(function: str, values: Sequence[Bound]) -> tuple[list[Bound], str | float | None]:
    """The arguments of an aggregate over a window, and its separator or fraction, which must be a constant."""
    given = list(values)
    if function in PAIRS or function in ("median", "quantile_cont"):
        n = 2 if function in PAIRS else 1
        floats = [cast(value, pa.float64()) for value in given[:n]]
        return floats, None if function in PAIRS else 0.5 if function == "median" else _fraction(function, given)
    if function == "quantile_disc":
        return given[:1], _fraction(function, given)
    if function == "string_agg" and given:
        text = given[0] if is_text(given[0].type) else cast(given[0], pa.string())
        return [text], separator(given[1].expr) if len(given) > 1 else ","
    if function == "array_agg" and given and pa.types.is_nested(given[0].type):
        raise PlanError(f"array_agg of {given[0].type} over a window is not supported; use GROUP BY")
    return given, None


def _fraction(function: str, values: Sequence[Bound]) -> float:
    if len(values) < 2:
        raise PlanError(f"{function} takes a value and a fraction")
    return fraction(function, values[1].expr)


def operator_call(call: WindowCall) -> tuple[Any, ...]:
    """The call as the Window operator takes it."""
    function, ignore_nulls, order = call.function, call.ignore_nulls, call.order_by
    others = [call.second] if call.second is not None else []
    collected: Any = None
    if function in _AS_VALUES and not order:
        function, ignore_nulls = _AS_VALUES[function], True
    elif function in _AS_VALUES or (function in ENDS and order):
        function = f"{_AS_VALUES.get(function, function).removesuffix('_value')}_ordered"
    if function in KEEP_VALUES or function.endswith("_ordered"):
        others = [key.column for key in order]
        directions = tuple((key.descending, key.nulls_first) for key in order)
        if function in QUANTILES:
            # The order is that of the values. A given one may make it descending.
            function = "quantile_disc" if function == "quantile_disc" else "quantile_cont"
            assert call.argument is not None
            others, directions = [call.argument], directions[:1] or ((False, False),)
        collected = (directions, call.parameter)
    frame = call.frame
    return (
        function,
        call.argument,
        call.number,
        (frame.mode, _bound(frame.start), _bound(frame.end), frame.exclude),
        (call.distinct, ignore_nulls),
        (tuple(others), call.filter, collected),
    )


def _bound(distance: WindowDistance) -> int | float | tuple[int, int, int] | tuple[str, int] | None:
    if isinstance(distance, ColumnDistance):
        return distance.column, -1 if distance.is_preceding else 1
    return tuple(distance) if isinstance(distance, pa.MonthDayNano) else distance


def range_distance(distance: int | Decimal | float | pa.MonthDayNano, type_: pa.DataType, is_end: bool) -> Any:
    """A distance of a RANGE frame over a column of this type, in WindowFrame's unit. PlanError if it does not fit."""
    if isinstance(distance, pa.MonthDayNano):
        return _time_distance(distance, type_, is_end)
    if pa.types.is_floating(type_):
        return float(distance)
    if pa.types.is_integer(type_) or pa.types.is_date32(type_):
        unit = 1
    elif pa.types.is_decimal(type_):
        unit = 10**type_.scale
    else:
        raise PlanError(f"a RANGE frame with a distance of {distance} over {type_} is not supported")
    return _whole(Decimal(str(distance)) * unit, is_end)


def _time_distance(distance: pa.MonthDayNano, type_: pa.DataType, is_end: bool) -> Any:
    months, days, nanos = distance
    if not (pa.types.is_date32(type_) or pa.types.is_timestamp(type_) or pa.types.is_time(type_)):
        raise PlanError(f"a RANGE frame with an interval as distance over {type_} is not supported")
    if pa.types.is_time(type_):
        if months or days:
            raise PlanError(f"a RANGE frame by months or days over {type_} is not supported; give hours, or less")
    elif months:
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            raise PlanError(
                f"a RANGE frame by months over {type_} is not supported; cast to a timestamp without a zone"
            )
        return distance
    unit = _DAY_NANOS if pa.types.is_date32(type_) else _NANOS[type_.unit]
    return _whole(Decimal(days * _DAY_NANOS + nanos) / unit, is_end)


def _whole(distance: Decimal, is_end: bool) -> int:
    """The integer distance that includes the same integers."""
    return math.floor(distance) if is_end else math.ceil(distance)
