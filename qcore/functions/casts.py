"""Casts, CASE and IN, with the rules of SQL."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Cast, Expr, In, Literal
from qcore.expression.types import BOOL, TypeMismatch, is_zoned, merged_type, plain
from qcore.functions.catalogue import resolve, suit_literals
from qcore.functions.dialect import QCORE, Dialect
from qcore.functions.operators import comparison
from qcore.functions.type_names import type_name
from qcore.functions.typed import is_null


def bind_cast(value: Bound, to: pa.DataType, dialect: Dialect = QCORE, or_null: bool = False) -> Bound:
    """CAST, or TRY_CAST if `or_null`: null for a value that does not fit. PlanError between types without a cast."""
    given = plain(value.type)
    if is_null(value):
        return Bound(Literal(None, to), to)
    if is_zoned(given) and pa.types.is_timestamp(to) and to.tz is not None:
        # An instant keeps its time zone, which the type in the query does not name.
        to = pa.timestamp(to.unit, given.tz)
    if given == to:
        return value if value.type == to else Bound(Cast(value.expr, to), to)
    _check(given, to)
    expr = value.expr
    is_fraction = pa.types.is_floating(given) or pa.types.is_decimal(given)
    if is_fraction and pa.types.is_integer(to) and dialect.float_to_integer == "truncate":
        expr = Call("trunc", (expr,))
    return Bound(Cast(expr, to, safe=not or_null), to)


def _check(given: pa.DataType, to: pa.DataType) -> None:
    """Raise PlanError for casts between numbers and times, where engines differ in the unit, and for unknown casts."""
    if pa.types.is_integer(given) and (pa.types.is_timestamp(to) or pa.types.is_time(to)):
        raise PlanError("an integer cannot be cast to a time; write to_timestamp(seconds) or to_timestamp_millis(x)")
    if pa.types.is_timestamp(given) and pa.types.is_integer(to):
        raise PlanError("a timestamp cannot be cast to an integer; write epoch(x), epoch_ms(x) or epoch_us(x)")
    if pa.types.is_nested(given) != pa.types.is_nested(to) and not pa.types.is_string(plain(to)):
        raise PlanError(f"there is no cast from {type_name(given)} to {type_name(to)}")


def bind_case(branches: Sequence[tuple[Bound, Bound]], otherwise: Bound | None = None) -> Bound:
    """CASE WHEN condition THEN value … ELSE otherwise END. PlanError unless the values have a common type."""
    if otherwise is not None and is_null(otherwise) and pa.types.is_null(otherwise.type):
        otherwise = None
    for condition, _ in branches:
        resolve("not", [condition.type])
    values = [value for _, value in branches] + ([] if otherwise is None else [otherwise])
    _, types = suit_literals("case", [value.expr for value in values], [value.type for value in values])
    try:
        result = merged_type([plain(type_) for type_ in types])
    except TypeMismatch:
        shown = ", ".join(dict.fromkeys(type_name(type_) for type_ in types))
        raise PlanError(f"the values of CASE have the types {shown}, without a common type; cast them") from None
    expr = Case(
        tuple((condition.expr, value.expr) for condition, value in branches),
        None if otherwise is None else otherwise.expr,
    )
    return Bound(expr, result)


def bind_in(value: Bound, values: Sequence[Bound]) -> Bound:
    """value IN (values): null if no value is equal and one is null. PlanError without a common type."""
    if pa.types.is_struct(value.type):
        for other in values:
            n = other.type.num_fields if pa.types.is_struct(other.type) else value.type.num_fields
            if n != value.type.num_fields:
                raise PlanError(f"IN compares a row of {value.type.num_fields} values with a row of {n} values")
    equal = [comparison("equal")(QCORE, value, other) for other in values]
    if len(equal) == 1:
        return equal[0]
    # In compares all values in one type, equal each in that of its pair: a float32 meets 0.1 as a float32, and 5 as a
    # float64.
    is_one = value.type != pa.float32() or all(other.type == pa.float32() for other in values)
    if (
        is_one
        and all(isinstance(other.expr, Literal) for other in values)
        and not any(pa.types.is_interval(part.type) or pa.types.is_duration(part.type) for part in (value, *values))
    ):
        return Bound(In(value.expr, tuple(other.expr for other in values)), BOOL)
    tests: tuple[Expr, ...] = tuple(test.expr for test in equal)
    return Bound(Call("or", tests), BOOL)
