"""Decide by the minimum and maximum of columns whether any row of a row group can pass a filter.

A row group is skipped only if its statistics prove that the filter is false or null in all of its rows.
"""

from __future__ import annotations

import datetime
import decimal
import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from qcore.expression.scalars import scalar_of
from qcore.expression.tree import Call, Cast, Column, Expr, In, Literal
from qcore.expression.types import is_instant
from qcore.record import record


@record(frozen=True, slots=True)
class Bounds:
    """The range of an operand's values.

    Attributes
    ----------
    type : pyarrow.DataType
        The operand's type.
    low, high : object
        Minimum and maximum as Python values; None: unknown. A column of floats has no `high`, because statistics ignore
        NaN, and NaN may count as greater than all other values.
    empty : bool
        Whether every row is null.
    has_nulls, has_values : bool
        Whether rows may be null, or not null.
    """

    type: pa.DataType
    low: Any = None
    high: Any = None
    empty: bool = False
    has_nulls: bool = True
    has_values: bool = True


@record(frozen=True, slots=True)
class Truth:
    """The values that a condition can have in the rows. Null is neither true nor false."""

    may_be_true: bool
    may_be_false: bool


UNKNOWN = Truth(True, True)
NEVER = Truth(False, False)

# A float32 represents every whole number up to this one.
FLOAT32_EXACT_MAX = 1 << 24

# Returns a column's bounds, or None if they are unknown.
BoundsOf = Callable[[str], Bounds | None]


def may_pass(filter: Expr, bounds_of: BoundsOf) -> bool:
    """Whether `filter` can be true in some row.

    Examples
    --------
    >>> from qcore.expression.tree import col
    >>> a = Bounds(pa.int64(), 1, 5)
    >>> may_pass(col("a") > 5, {"a": a}.get), may_pass(col("a") > 4, {"a": a}.get)
    (False, True)
    """
    if isinstance(filter, Call) and filter.function == "and":
        return all(may_pass(part, bounds_of) for part in filter.arguments)
    return _truth(filter, bounds_of).may_be_true


def _truth(expr: Expr, bounds_of: BoundsOf) -> Truth:
    if isinstance(expr, Call):
        return _call(expr, bounds_of)
    if isinstance(expr, In):
        parts = [_compare("equal", expr.argument, value, bounds_of) for value in expr.values]
        return Truth(any(part.may_be_true for part in parts), True)
    if isinstance(expr, Literal):
        known = expr.value is None or isinstance(expr.value, bool)
        return Truth(expr.value is True, expr.value is False) if known else UNKNOWN
    bounds = _bounds(expr, bounds_of)
    if bounds is None or not pa.types.is_boolean(bounds.type):
        return UNKNOWN
    return NEVER if bounds.empty else Truth(bounds.high is not False, bounds.low is not True)


def _call(expr: Call, bounds_of: BoundsOf) -> Truth:
    function, arguments = expr.function, expr.arguments
    if function in ("and", "or"):
        parts = [_truth(argument, bounds_of) for argument in arguments]
        true = [part.may_be_true for part in parts]
        false = [part.may_be_false for part in parts]
        return Truth(all(true), any(false)) if function == "and" else Truth(any(true), all(false))
    if function == "not":
        part = _truth(arguments[0], bounds_of)
        return Truth(part.may_be_false, part.may_be_true)
    if function in ("is_null", "is_not_null"):
        bounds = _bounds(arguments[0], bounds_of)
        if bounds is None:
            return UNKNOWN
        null = Truth(bounds.has_nulls, bounds.has_values)
        return null if function == "is_null" else Truth(null.may_be_false, null.may_be_true)
    if function == "like" and len(arguments) == 2:
        return _like(arguments[0], arguments[1], bounds_of)
    if function in _COMPARISONS and len(arguments) == 2:
        return _compare(function, arguments[0], arguments[1], bounds_of)
    return UNKNOWN


def _compare(function: str, left: Expr, right: Expr, bounds_of: BoundsOf) -> Truth:
    a, b = _bounds(left, bounds_of), _bounds(right, bounds_of)
    # A null literal or an all-null column makes every row null, whatever the other side is.
    if (a is not None and a.empty) or (b is not None and b.empty):
        return NEVER
    if a is None or b is None:
        return UNKNOWN
    pair = _comparable(a, b)
    if pair is None:
        return UNKNOWN
    try:
        truth = _COMPARISONS[function](*pair)
    except TypeError:  # naive against zoned timestamps, and other pairs that Python does not order
        return UNKNOWN
    if "float" in (_kind(a.type), _kind(b.type)):
        # NaN, which bounds do not include, makes every comparison except <> false.
        return Truth(truth.may_be_true, True)
    return truth


def _less(a: Bounds, b: Bounds) -> Truth:
    return Truth(_under(a.low, b.high), _under_or_at(b.low, a.high))


def _less_equal(a: Bounds, b: Bounds) -> Truth:
    return Truth(_under_or_at(a.low, b.high), _under(b.low, a.high))


def _equal(a: Bounds, b: Bounds) -> Truth:
    overlap = _under_or_at(a.low, b.high) and _under_or_at(b.low, a.high)
    single = a.low is not None and a.low == a.high == b.low == b.high
    return Truth(overlap, not single)


def _not_equal(a: Bounds, b: Bounds) -> Truth:
    equal = _equal(a, b)
    return Truth(equal.may_be_false, equal.may_be_true)


_COMPARISONS: dict[str, Callable[[Bounds, Bounds], Truth]] = {
    "less": _less,
    "less_equal": _less_equal,
    "greater": lambda a, b: _less(b, a),
    "greater_equal": lambda a, b: _less_equal(b, a),
    "equal": _equal,
    "not_equal": _not_equal,
}


def _under(low: Any, high: Any) -> bool:
    return low is None or high is None or bool(low < high)


def _under_or_at(low: Any, high: Any) -> bool:
    return low is None or high is None or bool(low <= high)


def _like(argument: Expr, pattern: Expr, bounds_of: BoundsOf) -> Truth:
    bounds = _bounds(argument, bounds_of)
    if bounds is None or not isinstance(pattern, Literal):
        return UNKNOWN
    if bounds.empty or pattern.value is None:
        return NEVER
    if not isinstance(pattern.value, str) or "\\" in pattern.value:
        return UNKNOWN
    prefix = pattern.value
    for wildcard in "%_":
        prefix = prefix.partition(wildcard)[0]
    low, high = bounds.low, bounds.high
    if not isinstance(low, str | None) or not isinstance(high, str | None):
        return UNKNOWN
    # If a string starts with the prefix, the maximum is >= the prefix, and the minimum's start is <= the prefix.
    reachable = (high is None or prefix <= high) and (low is None or low[: len(prefix)] <= prefix)
    return Truth(reachable, True)


def _bounds(expr: Expr, bounds_of: BoundsOf) -> Bounds | None:
    if isinstance(expr, Column):
        return bounds_of(expr.name)
    if isinstance(expr, Literal):
        return _literal_bounds(expr)
    if isinstance(expr, Cast):
        return _cast_bounds(expr, bounds_of)
    return None


@functools.lru_cache(maxsize=1024)
def _literal_bounds(literal: Literal) -> Bounds | None:
    """The bounds of a constant. Cached, because every row group asks for them."""
    return _value_bounds(literal.value, literal.type)


def _value_bounds(value: Any, type: pa.DataType) -> Bounds | None:
    if value is None:
        return Bounds(type, empty=True, has_values=False)
    try:
        plain = scalar_of(value, type).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if plain != plain or not is_bounded(type):  # NaN is not ordered
        return None
    return Bounds(type, plain, plain, has_nulls=False)


def _cast_bounds(expr: Cast, bounds_of: BoundsOf) -> Bounds | None:
    inner = _bounds(expr.argument, bounds_of)
    if inner is None or inner.type.equals(expr.to):
        return inner
    if isinstance(expr.argument, Literal):
        if inner.empty:
            return inner
        try:
            if is_instant(expr.to) and not is_instant(inner.type):
                # A local time becomes an instant by the session's zone, but pyarrow assumes UTC.
                return None
            # pyarrow's cast of a decimal with many digits does not round to the nearest float.
            near = float(inner.low) if pa.types.is_decimal(inner.type) and pa.types.is_floating(expr.to) else None
            value = scalar_of(inner.low, inner.type).cast(expr.to).as_py() if near is None else near
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None
        return _value_bounds(value, expr.to)
    if _keeps_values(inner.type, expr.to):
        return Bounds(expr.to, inner.low, inner.high, inner.empty, inner.has_nulls, inner.has_values)
    if pa.types.is_date32(inner.type) and pa.types.is_timestamp(expr.to) and expr.to.tz is None:
        low, high = _midnight(inner.low), _midnight(inner.high)
        return Bounds(expr.to, low, high, inner.empty, inner.has_nulls, inner.has_values)
    return None


def _keeps_values(source: pa.DataType, to: pa.DataType) -> bool:
    """Whether a cast, if it does not fail, keeps every value."""
    if pa.types.is_integer(source):
        return pa.types.is_integer(to) or pa.types.is_decimal(to)
    if pa.types.is_decimal(source):
        return pa.types.is_decimal(to) and to.scale >= source.scale
    return _kind(source) == "text" == _kind(to)


def _midnight(day: Any) -> Any:
    return None if day is None else datetime.datetime(day.year, day.month, day.day)


# By DataType.id, which is fast to look up: each row group needs several lookups.
_KINDS = {
    type.id: kind
    for kind, types in {
        "exact": [
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
            *(pa.decimal32(1), pa.decimal64(1), pa.decimal128(1), pa.decimal256(1)),
        ],
        "float": [pa.float32(), pa.float64()],
        "text": [pa.string(), pa.large_string(), pa.string_view()],
        "bytes": [pa.binary(), pa.large_binary(), pa.binary_view()],
        "boolean": [pa.bool_()],
        "date32": [pa.date32()],
        "timestamp": [pa.timestamp("us")],
        "time": [pa.time32("s"), pa.time64("us")],
    }.items()
    for type in types
}


def _kind(type: pa.DataType) -> str | None:
    return _KINDS.get(type.id)


def is_bounded(type: pa.DataType) -> bool:
    """Whether minimum and maximum of this type can be used."""
    return _kind(type) is not None


def _comparable(a: Bounds, b: Bounds) -> tuple[Bounds, Bounds] | None:
    """Convert both operands to values that Python compares as the engine does; None: there are none."""
    kinds = {_kind(a.type), _kind(b.type)}
    if is_instant(a.type) != is_instant(b.type):
        return None
    if kinds == {"date32", "timestamp"}:
        return _as_timestamp(a), _as_timestamp(b)
    if not kinds <= {"exact", "float"}:
        return (a, b) if len(kinds) == 1 and None not in kinds else None
    if "float" not in kinds:
        return a, b
    # The engine chooses the precision of the comparison. Only values that are exact in both give one result.
    single = pa.types.is_float32(a.type) or pa.types.is_float32(b.type)
    if single and not all(_fits_float32(value) for value in (a.low, a.high, b.low, b.high)):
        return None
    # Rounding to double is monotonic, so the rounded bounds are bounds of the rounded values.
    return _as_float(a), _as_float(b)


def _as_timestamp(bounds: Bounds) -> Bounds:
    if not pa.types.is_date32(bounds.type):
        return bounds
    return Bounds(pa.timestamp("us"), _midnight(bounds.low), _midnight(bounds.high))


def _as_float(bounds: Bounds) -> Bounds:
    low = None if bounds.low is None else float(bounds.low)
    high = None if bounds.high is None else float(bounds.high)
    return Bounds(bounds.type, low, high)


def _fits_float32(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, (int, decimal.Decimal)):
        return value == int(value) and -FLOAT32_EXACT_MAX <= value <= FLOAT32_EXACT_MAX
    return bool(scalar_of(value, pa.float32()).as_py() == value)
