"""Functions: their names, argument types and result types.

A function is resolved from its name and argument types to a Signature: the result type, and the types its arguments are
converted to first. Frontends use it to check plans; qcore.lowering.compile uses it to insert the conversions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Alias, Call, Case, Cast, Column, Expr, In, Lambda, Literal, OuterColumn
from qcore.expression.types import (
    BOOL,
    DATE,
    DECIMAL_DIGITS_MAX,
    FLOAT64,
    INT64,
    STRING,
    WITHOUT_PARAMETERS,
    TypeMismatch,
    Types,
    as_decimal,
    common_type,
    is_numeric,
    is_temporal,
    merged_type,
    plain,
)
from qcore.functions.nested import ARROW_CALLS, element_type
from qcore.functions.signatures import (
    MANY,
    Function,
    Signature,
    literal_function,
    n_arguments,
    numbers,
    shown_call,
    take_types,
)
from qcore.record import record

# --- arithmetic ------------------------------------------------------------------------------------------------------


def _same_numbers(types: Types) -> Signature:
    common = merged_type(numbers(types))
    if all(type_ == pa.float32() for type_ in types):
        common = pa.float32()
    return Signature(common, (common,) * len(types))


def _add(types: Types) -> Signature:
    moved = _shift(types, commutes=True)
    if moved:
        return moved
    a, b = numbers(types)
    if _both_decimal(a, b):
        a, b = as_decimal(a), as_decimal(b)
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        result = pa.decimal128(min(whole + scale + 1, DECIMAL_DIGITS_MAX), scale)
        # Each side keeps its digits and is only converted to the common scale.
        sides = (pa.decimal128(min(t.precision - t.scale + scale, DECIMAL_DIGITS_MAX), scale) for t in (a, b))
        return Signature(result, tuple(sides))
    return _same_numbers([a, b])


def _subtract(types: Types) -> Signature:
    a, b = types
    if pa.types.is_date(a) and pa.types.is_date(b):
        return Signature(INT64, (DATE, DATE))
    if pa.types.is_timestamp(a) and (pa.types.is_timestamp(b) or pa.types.is_date(b)):
        common = merged_type([a, b])
        return Signature(pa.duration(common.unit), (common, common))
    if pa.types.is_date(a) and pa.types.is_timestamp(b):
        return Signature(pa.duration(b.unit), (b, b))
    return _shift(types, commutes=False) or _add(types)


def _shift(types: Types, commutes: bool) -> Signature | None:
    """A date or timestamp plus or minus days, an interval or a duration."""
    if len(types) != 2:
        raise TypeMismatch("it takes two arguments")
    a, b = types
    if commutes and is_temporal(b) and not is_temporal(a):
        moved = _shift([b, a], commutes=False)
        return Signature(moved.result, moved.arguments[::-1]) if moved else None
    if pa.types.is_date(a) and (pa.types.is_integer(b) or pa.types.is_null(b)):
        return Signature(DATE, (DATE, INT64))
    if pa.types.is_date(a) and pa.types.is_interval(b):
        return Signature(DATE, (DATE, b))
    if (pa.types.is_timestamp(a) or pa.types.is_time(a)) and pa.types.is_interval(b):
        return Signature(a, (a, b))
    if pa.types.is_timestamp(a) and pa.types.is_duration(b):
        return Signature(a, (a, pa.duration(a.unit)))
    if pa.types.is_interval(a) and a == b:
        return Signature(a, (a, b))
    if pa.types.is_duration(a) and pa.types.is_duration(b):
        common = merged_type([a, b])
        return Signature(common, (common, common))
    if is_temporal(a) or is_temporal(b):
        raise TypeMismatch("a date takes whole days or an interval, a timestamp an interval or a duration")
    return None


def _both_decimal(a: pa.DataType, b: pa.DataType) -> bool:
    """One is a decimal and neither is a float."""
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        return False
    return pa.types.is_decimal(a) or pa.types.is_decimal(b)


def _multiply(types: Types) -> Signature:
    a, b = types
    if pa.types.is_interval(a) and pa.types.is_integer(b):
        return Signature(a, (a, INT64))
    if pa.types.is_integer(a) and pa.types.is_interval(b):
        return Signature(b, (INT64, b))
    if pa.types.is_interval(a) and (is_numeric(b) or pa.types.is_null(b)):
        return Signature(a, (a, FLOAT64))
    if (is_numeric(a) or pa.types.is_null(a)) and pa.types.is_interval(b):
        return Signature(b, (FLOAT64, b))
    a, b = numbers(types)
    if _both_decimal(a, b):
        a, b = as_decimal(a), as_decimal(b)
        if a.scale + b.scale > DECIMAL_DIGITS_MAX:
            raise TypeMismatch(
                f"the result would have {a.scale + b.scale} digits after the point; cast an argument first"
            )
        digits = min(a.precision + b.precision, DECIMAL_DIGITS_MAX)
        return Signature(pa.decimal128(digits, a.scale + b.scale), (a, b))
    return _same_numbers([a, b])


def _divide(types: Types) -> Signature:
    a, b = numbers(types)
    if _both_decimal(a, b):
        return Signature(FLOAT64, (FLOAT64, FLOAT64))
    common = merged_type([a, b])
    if pa.types.is_decimal(common):
        # A uint64 and a signed integer are divided as integers. Neither type can hold every quotient.
        return Signature(common, (a, b))
    return _same_numbers([a, b])


def _same_number(types: Types) -> Signature:
    return _same_numbers(types)


def _negate(types: Types) -> Signature:
    return Signature(types[0], (types[0],)) if pa.types.is_interval(types[0]) else _same_numbers(types)


def _round(types: Types) -> Signature:
    number, *digits = numbers(types)
    if any(not pa.types.is_integer(type_) for type_ in digits):
        raise TypeMismatch("the number of digits is an integer")
    if pa.types.is_decimal(number):
        # 9.99 rounds to 10.0: one digit more.
        result = pa.decimal128(min(number.precision + 1, DECIMAL_DIGITS_MAX), number.scale)
        return Signature(result, (number, *(INT64 for _ in digits)))
    return Signature(number, (number, *(INT64 for _ in digits)))


def _whole(types: Types) -> Signature:
    (number,) = numbers(types)
    if pa.types.is_decimal(number):
        digits = max(number.precision - number.scale + 1, 1)
        return Signature(pa.decimal128(min(digits, DECIMAL_DIGITS_MAX), 0), (number,))
    return Signature(number, (number,))


# --- the rest --------------------------------------------------------------------------------------------------------


def _comparison(types: Types) -> Signature:
    common = merged_type(types)
    return Signature(BOOL, (common,) * len(types))


def _boolean(types: Types) -> Signature:
    if any(not (pa.types.is_boolean(type_) or pa.types.is_null(type_)) for type_ in types):
        raise TypeMismatch("it takes conditions")
    return Signature(BOOL, (BOOL,) * len(types))


def _predicate(types: Types) -> Signature:
    return Signature(BOOL, tuple(types))


def _unify(types: Types) -> Signature:
    common = merged_type(types)
    return Signature(common, (common,) * len(types))


def _nullif(types: Types) -> Signature:
    common = merged_type(types)
    return Signature(common if pa.types.is_null(types[0]) else types[0], (common, common))


def _length(types: Types) -> Signature:
    return Signature(INT64, tuple(types)) if pa.types.is_nested(types[0]) else take_types(INT64, STRING).resolve(types)


def _concat(types: Types) -> Signature:
    if pa.binary() in types and all(type_ == pa.binary() or pa.types.is_null(type_) for type_ in types):
        return Signature(pa.binary(), (pa.binary(),) * len(types))
    return Signature(STRING, (STRING,) * len(types))


def _joined_text(types: Types) -> Signature:
    return Signature(STRING, (STRING,) * len(types))


def _part(types: Types) -> Signature:
    (when,) = types
    if pa.types.is_string(when) or pa.types.is_null(when):
        when = pa.timestamp("us")
    if not (is_temporal(when) or pa.types.is_interval(when) or pa.types.is_duration(when)):
        raise TypeMismatch("it takes a date, a time or a timestamp")
    return Signature(INT64, (when,))


def _epoch(types: Types) -> Signature:
    return Signature(FLOAT64, _part(types).arguments)


def _finite(types: Types) -> Signature:
    if pa.types.is_date(types[0]) or pa.types.is_timestamp(types[0]):
        return Signature(BOOL, (types[0],))
    return take_types(BOOL, FLOAT64).resolve(types)


def _octets(types: Types) -> Signature:
    if types[0] != pa.binary() and not pa.types.is_string(types[0]) and not pa.types.is_null(types[0]):
        raise TypeMismatch("it takes text or bytes")
    return Signature(INT64, (types[0] if types[0] == pa.binary() else STRING,))


def _trunc(types: Types) -> Signature:
    return _whole(types) if len(types) == 1 else _round(types)


def _date_diff(types: Types) -> Signature:
    common = merged_type([pa.timestamp("us") if pa.types.is_string(type_) else type_ for type_ in types[1:]])
    if pa.types.is_null(common):
        common = DATE
    if not pa.types.is_string(types[0]) or not (pa.types.is_date(common) or pa.types.is_timestamp(common)):
        raise TypeMismatch("it takes a unit, as a text literal, and two dates or timestamps")
    return Signature(INT64, (STRING, common, common))


def _to_timestamp(types: Types) -> Signature:
    (when,) = types
    if not (is_numeric(when) or is_temporal(when) or pa.types.is_string(when) or pa.types.is_null(when)):
        raise TypeMismatch("it takes a number, text, or a date")
    return Signature(pa.timestamp("us"), (when,))


def _date_bin(types: Types) -> Signature:
    stride, when, *origin = types
    if not pa.types.is_interval(stride):
        raise TypeMismatch("it takes an interval and a timestamp")
    if not pa.types.is_timestamp(when):
        when = pa.timestamp("us")
    return Signature(when, (stride, when, *(when for _ in origin)))


def _at_time_zone(types: Types, values: Sequence[Any]) -> Signature:
    when, zone = types[0], values[1]
    if not isinstance(zone, str):
        raise TypeMismatch("the zone is a text literal")
    try:
        _ = re.fullmatch(r"[-+]\d\d:\d\d", zone) or ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise TypeMismatch(f"there is no time zone {zone!r}; zones have names such as 'Europe/Paris'") from None
    if not pa.types.is_timestamp(when):
        when = pa.timestamp("us")
    return Signature(pa.timestamp(when.unit, None if when.tz else zone), (when, STRING))


def _date_trunc(types: Types) -> Signature:
    part, when = types
    if not pa.types.is_string(part):
        raise TypeMismatch("the unit is a text literal")
    if pa.types.is_null(when) or pa.types.is_string(when):
        when = pa.timestamp("us")
    if not (pa.types.is_date(when) or pa.types.is_timestamp(when)):
        raise TypeMismatch("it takes a date or a timestamp")
    return Signature(when, (STRING, when))


_SCALAR: dict[str, Function] = {
    "add": Function(2, 2, _add, "number, number; date or timestamp, interval or days", "as the arguments"),
    "subtract": Function(
        2, 2, _subtract, "number, number; date or timestamp, the same or an interval", "as they are; days, duration"
    ),
    "multiply": Function(2, 2, _multiply, "number, number; interval, number", "as the arguments"),
    "divide": Function(2, 2, _divide, "number, number", "as the arguments; of decimals a float"),
    "modulo": Function(2, 2, _same_numbers, "number, number", "as the arguments"),
    "negate": Function(1, 1, _negate, "number or interval", "as the argument"),
    "abs": Function(1, 1, _same_number, "number", "as the argument"),
    "sign": Function(1, 1, _same_number, "number", "as the argument"),
    "round": Function(1, 2, _round, "number, [integer]", "as the number"),
    "floor": Function(1, 1, _whole, "number", "as the number, without digits after the point"),
    "ceil": Function(1, 1, _whole, "number", "as the number, without digits after the point"),
    "and": Function(1, MANY, _boolean, "boolean, …", "boolean"),
    "or": Function(1, MANY, _boolean, "boolean, …", "boolean"),
    "not": Function(1, 1, _boolean, "boolean", "boolean"),
    "is_null": Function(1, 1, _predicate, "any", "boolean"),
    "is_not_null": Function(1, 1, _predicate, "any", "boolean"),
    "is_true": Function(1, 1, _boolean, "boolean", "boolean"),
    "is_false": Function(1, 1, _boolean, "boolean", "boolean"),
    "is_not_true": Function(1, 1, _boolean, "boolean", "boolean"),
    "is_not_false": Function(1, 1, _boolean, "boolean", "boolean"),
    "coalesce": Function(1, MANY, _unify, "any, …", "as the arguments"),
    "nullif": Function(2, 2, _nullif, "any, any", "as the first"),
    "greatest": Function(1, MANY, _unify, "any, …", "as the arguments"),
    "least": Function(1, MANY, _unify, "any, …", "as the arguments"),
    "substring": take_types(STRING, STRING, INT64, INT64, optional=1),
    "length": Function(1, 1, _length, "text or list", "integer"),
    "upper": take_types(STRING, STRING),
    "lower": take_types(STRING, STRING),
    "trim": take_types(STRING, STRING, STRING, optional=1),
    "ltrim": take_types(STRING, STRING, STRING, optional=1),
    "rtrim": take_types(STRING, STRING, STRING, optional=1),
    "left": take_types(STRING, STRING, INT64),
    "right": take_types(STRING, STRING, INT64),
    "replace": take_types(STRING, STRING, STRING, STRING),
    "position": take_types(INT64, STRING, STRING),
    "concat": Function(1, MANY, _concat, "any, …", "text; of bytes bytes"),
    "concat_ws": Function(2, MANY, _joined_text, "text, any, …", "text"),
    "reverse": take_types(STRING, STRING),
    "repeat": take_types(STRING, STRING, INT64),
    "lpad": take_types(STRING, STRING, INT64, STRING, optional=1),
    "rpad": take_types(STRING, STRING, INT64, STRING, optional=1),
    "split_part": take_types(STRING, STRING, STRING, INT64),
    "octet_length": Function(1, 1, _octets, "text or bytes", "integer"),
    "bit_length": Function(1, 1, _octets, "text or bytes", "integer"),
    "ascii": take_types(INT64, STRING),
    "chr": take_types(STRING, INT64),
    "trunc": Function(1, 2, _trunc, "number, [integer]", "as the number"),
    "factorial": take_types(INT64, INT64),
    "make_date": take_types(DATE, INT64, INT64, INT64),
    "last_day": take_types(DATE, DATE),
    "to_timestamp": Function(1, 1, _to_timestamp, "number or text", "timestamp"),
    "to_timestamp_seconds": Function(1, 1, _to_timestamp, "number or text", "timestamp"),
    "to_timestamp_millis": Function(1, 1, _to_timestamp, "number or text", "timestamp"),
    "to_timestamp_micros": Function(1, 1, _to_timestamp, "number or text", "timestamp"),
    "to_timestamp_nanos": Function(1, 1, _to_timestamp, "number or text", "timestamp"),
    "from_unixtime": Function(1, 1, _to_timestamp, "number or text", "timestamp"),
    "date_diff": Function(3, 3, _date_diff, "unit, date or timestamp, date or timestamp", "integer"),
    "at_time_zone": literal_function(
        2, 2, _at_time_zone, "timestamp, zone", "an instant's local time; a local time's instant"
    ),
    "date_bin": Function(2, 3, _date_bin, "interval, timestamp, [timestamp]", "timestamp"),
    "date_trunc": Function(2, 2, _date_trunc, "unit, date or timestamp", "as the second"),
}
for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    _SCALAR[_name] = Function(2, 2, _comparison, "any, any", "boolean")
for _name in ("is_distinct_from", "is_not_distinct_from"):
    _SCALAR[_name] = Function(2, 2, _comparison, "any, any", "boolean")
for _name in ("like", "not_like", "ilike", "not_ilike"):
    _SCALAR[_name] = take_types(BOOL, STRING, STRING, STRING, optional=1)
for _name in ("starts_with", "ends_with", "contains"):
    _SCALAR[_name] = take_types(BOOL, STRING, STRING)
for _name in (
    "sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt",
    "log10", "log2", "degrees", "radians", "sqrt", "exp", "ln",
):  # fmt: skip
    _SCALAR[_name] = take_types(FLOAT64, FLOAT64)
for _name in ("atan2", "log", "power"):
    _SCALAR[_name] = take_types(FLOAT64, FLOAT64, FLOAT64)
_SCALAR["is_nan"] = take_types(BOOL, FLOAT64)
for _name in ("is_infinite", "is_finite"):
    _SCALAR[_name] = Function(1, 1, _finite, "number, date or timestamp", "boolean")
for _name in (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_shift_left", "bitwise_shift_right", "gcd", "lcm",
):  # fmt: skip
    _SCALAR[_name] = take_types(INT64, INT64, INT64)

# Parts of a date or time; call("year", x) and call("extract", "year", x) mean the same.
PARTS = (
    "year", "quarter", "month", "week", "day", "day_of_week", "day_of_year", "iso_day_of_week", "iso_year", "decade",
    "century", "millennium", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond", "epoch",
)  # fmt: skip
# Other names of them: SQL's in EXTRACT, plurals, and those of other engines.
PART_NAMES = {
    "dow": "day_of_week", "dayofweek": "day_of_week", "weekday": "day_of_week", "doy": "day_of_year",
    "dayofyear": "day_of_year", "isodow": "iso_day_of_week", "isoyear": "iso_year", "weekofyear": "week",
    "mon": "month", "min": "minute", "sec": "second", "hr": "hour", "ms": "millisecond", "us": "microsecond",
    "ns": "nanosecond", "msec": "millisecond", "usec": "microsecond", "centuries": "century",
    "millennia": "millennium", "milliseconds": "millisecond", "microseconds": "microsecond",
    "nanoseconds": "nanosecond",
    **{f"{_part_name}s": _part_name for _part_name in PARTS[:5]}, "hours": "hour", "minutes": "minute",
    "seconds": "second", "decades": "decade",
}  # fmt: skip
for _name in PARTS:
    _SCALAR[_name] = Function(
        1, 1, _epoch if _name == "epoch" else _part, "date, time, timestamp or interval", "integer"
    )
_SCALAR.update({_name: _arrow.function for _name, _arrow in ARROW_CALLS.items()})


# --- functions of elements -------------------------------------------------------------------------------------------

# The number of the lambda's parameters that are elements or the result so far.
LIST_LAMBDAS = {"list_transform": 1, "list_filter": 1, "list_reduce": 2, "list_fold": 2}


def _no_lambda(types: Types) -> Signature:
    raise TypeMismatch("it takes a list and a lambda")


for _name, _more in (("list_transform", ""), ("list_filter", ""), ("list_reduce", ""), ("list_fold", ", any")):
    _SCALAR[_name] = Function(
        2, MANY, _no_lambda, f"list, lambda{_more}", "list" if LIST_LAMBDAS[_name] == 1 else "any"
    )


@record(frozen=True)
class ListCall:
    """A call of a lambda for elements, with its types: `body` is over columns `parameters`."""

    result: pa.DataType
    parameters: pa.Schema
    body: Expr


def list_call(name: str, types: Types, function: Expr) -> ListCall:
    """Types of a call in LIST_LAMBDAS with arguments of these types, of which the second is the lambda.

    Raises
    ------
    PlanError
        The types do not fit: the first is not a list, a condition is not boolean, or the result of a reduction is of
        another kind than its first value.
    """
    if not isinstance(function, Lambda):
        raise PlanError(f"{name}: the second argument is a lambda, as in list_transform(l, lambda x: x + 1)")
    try:
        element = plain(element_type(types[0]))
    except TypeMismatch as reason:
        raise PlanError(f"{name} is not defined: {reason}") from None
    first = [types[2], element] if name == "list_fold" else [element] * LIST_LAMBDAS[name]
    values = [plain(type_) for type_ in (*first, *types[3 if name == "list_fold" else 2 :])]
    if len(values) != len(function.parameters):
        raise PlanError(f"{name}: the lambda takes {len(function.parameters)} values, not {len(values)}")
    body = function.body

    def parameters() -> pa.Schema:
        return pa.schema(list(zip(function.parameters, values, strict=True)))

    given = expr_type(body, parameters())
    if name == "list_transform":
        return ListCall(pa.list_(given), parameters(), body)
    if name == "list_filter":
        truth = body if pa.types.is_boolean(given) else Cast(body, BOOL)
        resolve("not", [given if pa.types.is_null(given) else expr_type(truth, parameters())])
        return ListCall(pa.list_(element), parameters(), truth)
    if not pa.types.is_null(given) and pa.types.is_string(values[0]) != pa.types.is_string(given):
        raise PlanError(f"{name}: the first value is {values[0]}, and the lambda returns {given}; cast one of them")
    values[0] = common_type([values[0], given])
    if pa.types.is_decimal(values[0]):
        # Each step may need one more digit.
        values[0] = pa.decimal128(DECIMAL_DIGITS_MAX, values[0].scale)
    return ListCall(values[0], parameters(), Cast(body, values[0]))


def part_name(text: str) -> str:
    """The part of a date or time that a text such as 'DOW' or 'hours' names; PlanError when there is none."""
    name = text.lower()
    name = PART_NAMES.get(name, name)
    if name not in PARTS:
        raise PlanError(f"unknown part {text!r} of a date or time; there are {', '.join(PARTS)}")
    return name


def scalar_functions() -> dict[str, Function]:
    """All scalar functions by name."""
    return dict(_SCALAR)


def is_known(name: str) -> bool:
    """Whether `name` is a scalar function."""
    return name in _SCALAR


def resolve(name: str, arg_types: Types, arguments: Sequence[Expr] = ()) -> Signature:
    """Result type and argument conversions of a scalar function. For some functions they depend on literals' values.

    Raises
    ------
    PlanError
        The function is unknown or does not take these types; the message names both.
    """
    function = _SCALAR.get(name)
    if function is None:
        raise PlanError(
            f"unknown function {shown_call(name, arg_types)}; qcore.functions.catalogue lists the functions"
        )
    if name in LIST_LAMBDAS and len(arguments) > 1:
        return Signature(list_call(name, arg_types, arguments[1]).result, tuple(arg_types))
    if not function.arguments_min <= len(arg_types) <= function.arguments_max:
        most = n_arguments(function.arguments_min, function.arguments_max)
        raise PlanError(f"{shown_call(name, arg_types)}: {name} takes {most}")
    key: tuple[str | int, ...] | None = None
    if function.resolve_literals is None:
        # A type without parameters is known by its id. Hashing a pyarrow type takes far longer: it is made a text.
        key = (name, *[type_.id if type_.id in WITHOUT_PARAMETERS else str(type_) for type_ in arg_types])
        signature = _signatures.get(key)
        if signature is not None:
            return signature
    types = tuple(map(plain, arg_types))
    try:
        signature = function.signature(types, arguments)
    except TypeMismatch as reason:
        raise PlanError(f"{shown_call(name, arg_types)} is not defined: {reason}") from None
    if key is not None and len(_signatures) < _SIGNATURES_MAX:
        _signatures[key] = signature
    return signature


_SIGNATURES_MAX = 4096
# Signatures of functions for which literals make no difference, by name and types.
_signatures: dict[tuple[str | int, ...], Signature] = {}


# --- expressions -----------------------------------------------------------------------------------------------------


def literal_as(literal: Literal) -> Literal:
    """An integer literal as a decimal, for use with decimals: 1 is decimal(1, 0). Other literals are not changed."""
    if not isinstance(literal.value, int) or isinstance(literal.value, bool) or not pa.types.is_integer(literal.type):
        return literal
    return Literal(literal.value, pa.decimal128(len(str(abs(literal.value))), 0))


# Functions whose arguments have one kind, so that literals can be converted to the kind of the others.
_ALIKE = {
    "add", "subtract", "multiply", "modulo", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "is_distinct_from", "is_not_distinct_from", "coalesce", "nullif", "greatest", "least", "case", "in",
}  # fmt: skip


def suit_literals(name: str, arguments: Sequence[Expr], types: Types) -> tuple[list[Expr], list[pa.DataType]]:
    """Arguments of a call with its integer literals converted to the kind of the other arguments."""
    # The type of an integer literal never makes a difference here, so literals need not be excluded from `types`.
    if name not in _ALIKE or not any(map(pa.types.is_decimal, types)) or any(map(pa.types.is_floating, types)):
        return list(arguments), list(types)
    suited = [literal_as(argument) if isinstance(argument, Literal) else argument for argument in arguments]
    return suited, [a.type if isinstance(a, Literal) else t for a, t in zip(suited, types, strict=True)]


_NOTHING: dict[int, pa.DataType] = {}


def expr_type(expr: Any, schema: pa.Schema, known: Mapping[int, pa.DataType] = _NOTHING) -> pa.DataType:
    """Type of an expression over columns of `schema`. `known` has the types of parts, by id().

    Raises
    ------
    PlanError
        A column or function is unknown, or types do not fit.
    """
    if known and (given := known.get(id(expr))) is not None:
        return given
    kind = type(expr)
    if kind is Column:
        return column_type(expr.name, schema)
    if kind is Literal or kind is OuterColumn:
        return expr.type
    if kind is Call:
        expr = canonical(expr)
        _, types = suit_literals(
            expr.function, expr.arguments, [expr_type(argument, schema, known) for argument in expr.arguments]
        )
        return resolve(expr.function, types, expr.arguments).result
    if kind is Alias:
        return expr_type(expr.argument, schema, known)
    if kind is Lambda:
        return pa.null()  # which depends on the list
    if kind is Cast:
        expr_type(expr.argument, schema, known)
        return expr.to
    if kind is In:
        common_type([expr_type(part, schema, known) for part in (expr.argument, *expr.values)])
        return BOOL
    if kind is Case:
        values = [value for _, value in expr.branches]
        values += [expr.otherwise] if expr.otherwise is not None else []
        _, types = suit_literals("case", values, [expr_type(value, schema, known) for value in values])
        for condition, _ in expr.branches:
            resolve("not", [expr_type(condition, schema, known)])
        return common_type(types)
    raise PlanError(f"{expr!r} is not an expression")


def canonical(expr: Call) -> Call:
    """Return the call by the function's name: extract('dow', x) is day_of_week(x)."""
    if expr.function != "extract" or len(expr.arguments) != 2:
        return expr
    part = expr.arguments[0]
    if not isinstance(part, Literal) or part.value is None:
        raise PlanError("extract: the part must be a text literal")
    return Call(part_name(str(part.value)), expr.arguments[1:])


def column_type(name: str, schema: pa.Schema) -> pa.DataType:
    """Type of a column by name; PlanError when it is absent or ambiguous."""
    position = schema.get_field_index(name)
    return schema.field(column_index(name, schema) if position < 0 else position).type


def column_index(name: str, schema: pa.Schema) -> int:
    """Position of a column by name; PlanError when it is absent or ambiguous."""
    found = schema.get_all_field_indices(name)
    if len(found) == 1:
        return found[0]
    if found:
        raise PlanError(f"the column name {name!r} occurs {len(found)} times; rename the columns first")
    raise PlanError(f"there is no column {name!r}; there are {', '.join(schema.names) or 'none'}")
