"""Comparisons of a widened value with a constant: cast(x as int64) >= 1 becomes x >= 1.

The cast must keep every value and their order, and the narrower type must represent the constant exactly. Comparisons
with a cast that rounds, truncates or may fail are not changed.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

from qcore.expression.scalars import scalar_of
from qcore.expression.tree import Call, Cast, Expr, In, Literal
from qcore.expression.types import integer_as_decimal, plain
from qcore.functions.catalogue import expr_type

COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
_COMPARED = COMPARISONS | {"is_distinct_from", "is_not_distinct_from"}


def without_cast(expr: Call | In, schema: pa.Schema) -> Call | In:
    """Return the comparison or membership of the value before its cast, if it is equivalent; else `expr`."""
    if isinstance(expr, In):
        return _membership(expr, schema)
    if expr.function not in _COMPARED or len(expr.arguments) != 2:
        return expr
    a, b = expr.arguments
    while isinstance(a, Cast) and isinstance(b, Literal) and (narrow := _narrow_literal(b, a, schema)) is not None:
        a, b = a.argument, narrow
    while isinstance(b, Cast) and isinstance(a, Literal) and (narrow := _narrow_literal(a, b, schema)) is not None:
        a, b = narrow, b.argument
    return expr if a is expr.arguments[0] else Call(expr.function, (a, b))


def _membership(expr: In, schema: pa.Schema) -> In:
    while isinstance(cast := expr.argument, Cast):
        values: list[Expr] = []
        for value in expr.values:
            narrow = _narrow_literal(value, cast, schema) if isinstance(value, Literal) else None
            if narrow is None:
                return expr
            values.append(narrow)
        expr = In(cast.argument, tuple(values))
    return expr


def _narrow_literal(literal: Literal, cast: Cast, schema: pa.Schema) -> Literal | None:
    """The constant in the cast's source type. None if that type cannot represent it, or if the cast changes values."""
    given = plain(expr_type(cast.argument, schema))
    if literal.value is None or not keeps_every_value(given, plain(cast.to)):
        return None
    if pa.types.is_date32(given):
        return _as_date(literal)
    if not pa.types.is_integer(literal.type) and not pa.types.is_decimal(literal.type):
        return None
    number = Decimal(literal.value)
    try:
        if pa.types.is_decimal(given):
            return Literal(scalar_of(number, given).as_py(), given)
        return Literal(scalar_of(int(number), given).as_py(), given) if number == int(number) else None
    except (pa.ArrowInvalid, OverflowError):
        return None


def keeps_every_value(given: pa.DataType, to: pa.DataType) -> bool:
    """Whether the cast keeps every value and never fails. A date can be cast to seconds and milliseconds. The range of
    microseconds is smaller than that of dates.
    """
    if pa.types.is_integer(given) and pa.types.is_integer(to):
        if pa.types.is_signed_integer(given) == pa.types.is_signed_integer(to):
            return bool(to.bit_width >= given.bit_width)
        return pa.types.is_unsigned_integer(given) and bool(to.bit_width > given.bit_width)
    if pa.types.is_date32(given):
        return pa.types.is_timestamp(to) and to.tz is None and to.unit in ("s", "ms")
    if not pa.types.is_decimal128(to):
        return False
    if pa.types.is_integer(given):
        given = integer_as_decimal(given)
    if not pa.types.is_decimal128(given):
        return False
    return bool(to.scale >= given.scale and to.precision - to.scale >= given.precision - given.scale)


def _as_date(literal: Literal) -> Literal | None:
    """A date, or a timestamp at midnight, as a date."""
    value = literal.value
    if pa.types.is_date32(literal.type):
        return literal
    if not pa.types.is_timestamp(literal.type) or literal.type.tz is not None:
        return None
    at_midnight = value.time() == datetime.time() and not getattr(value, "nanosecond", 0)
    return Literal(value.date(), pa.date32()) if at_midnight else None
