"""Operators of SQL: arithmetic, comparison, logic, patterns. Their names are their signs, or words such as 'like'."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Cast, Expr, Literal, call, children
from qcore.expression.types import (
    BOOL,
    FLOAT64,
    INT64,
    INTERVAL,
    STRING,
    is_list_of_any_layout,
    plain,
)
from qcore.functions.dialect import Dialect
from qcore.functions.entries import Table, entry
from qcore.functions.typed import cast, constant, derive_expr, engine_call, is_literal, is_null, literal_value
from qcore.functions.variants import dialect_call

_STAMP = pa.timestamp("us")
_UINT64_DIGITS = pa.decimal128(20, 0)
_DAY_NANOS = 86_400_000_000_000

# --- arithmetic ------------------------------------------------------------------------------------------------------


def _integers(a: Bound, b: Bound) -> tuple[Bound, Bound]:
    """Both sides of arithmetic. An integer constant next to a uint64 becomes a uint64, as in DuckDB."""
    if a.type == pa.uint64() and _is_natural(b):
        return a, constant(literal_value(b), pa.uint64())
    if b.type == pa.uint64() and _is_natural(a):
        return constant(literal_value(a), pa.uint64()), b
    return a, b


def _is_natural(value: Bound) -> bool:
    return is_literal(value) and pa.types.is_integer(value.type) and literal_value(value) >= 0


def _is_mixed(a: Bound, b: Bound) -> bool:
    """A uint64 and a signed integer, whose sums and products are decimals."""
    types = [plain(a.type), plain(b.type)]
    return pa.uint64() in types and any(map(pa.types.is_signed_integer, types))


def _arithmetic(function: str) -> Callable[..., Bound]:
    def build(dialect: Dialect, *arguments: Bound) -> Bound:
        if len(arguments) == 1:
            return _sign_value(function, arguments[0])
        a, b = _integers(*arguments)
        if _is_mixed(a, b):
            a, b = cast(a, _UINT64_DIGITS), cast(b, _UINT64_DIGITS)
        if function == "multiply":
            return _product(a, b)
        return _add_or_subtract(function, a, b)

    return build


def _sign_value(function: str, value: Bound) -> Bound:
    if function == "add":
        engine_call("negate", value)  # the same types
        return value
    number = literal_value(value)
    if not isinstance(number, (int, float, Decimal)) or isinstance(number, bool):
        return engine_call("negate", value)
    if isinstance(number, Decimal) and value.type.scale == 0 and number == 2**63:
        # The smallest BIGINT has no positive counterpart.
        return constant(-(2**63), INT64)
    return constant(-number, value.type)


def _add_or_subtract(function: str, a: Bound, b: Bound) -> Bound:
    """A sum or difference of numbers, dates, times and intervals."""
    lists = [is_list_of_any_layout(plain(side.type)) for side in (a, b)]
    if function == "add" and all(lists):
        return engine_call("list_concat", a, b)
    if pa.types.is_duration(a.type) and pa.types.is_interval(b.type):
        a = cast(a, INTERVAL)
    if pa.types.is_interval(a.type) and pa.types.is_duration(b.type):
        b = cast(b, INTERVAL)
    if pa.types.is_date(a.type) and pa.types.is_time(b.type) and function == "add":
        return _at_time(a, b)
    if pa.types.is_time(a.type) and pa.types.is_date(b.type) and function == "add":
        return _at_time(b, a)
    spans = [side for side in (a, b) if pa.types.is_interval(side.type)]
    if spans and not all(is_of_whole_days(span.expr) for span in spans):
        # The interval may have hours or smaller parts.
        a, b = (cast(side, _STAMP) if pa.types.is_date(side.type) else side for side in (a, b))
    if len(spans) == 1 and (pa.types.is_null(a.type) or pa.types.is_null(b.type)):
        a, b = (cast(side, INTERVAL) if pa.types.is_null(side.type) else side for side in (a, b))
    return engine_call(function, a, b)


def _at_time(date: Bound, time: Bound) -> Bound:
    micros = Cast(Cast(Cast(time.expr, pa.time64("us")), INT64), pa.duration("us"))
    return derive_expr(
        lambda when, span: Call("add", (when, span)), cast(date, _STAMP), Bound(micros, pa.duration("us"))
    )


def is_of_whole_days(span: Expr) -> bool:
    """Whether an interval certainly has no hours: a constant of days or months, or a multiple or sum of such."""
    if isinstance(span, Literal):
        return span.value is None or (pa.types.is_interval(span.type) and span.value[2] % _DAY_NANOS == 0)
    if not isinstance(span, Call) or span.function not in ("multiply", "add", "subtract", "negate"):
        return False
    if span.function != "multiply":
        return all(map(is_of_whole_days, children(span)))
    # _product adds a cast to factors that are not integers.
    return any(map(is_of_whole_days, children(span))) and not any(
        isinstance(part, Cast) and part.to == FLOAT64 for part in children(span)
    )


def _product(a: Bound, b: Bound) -> Bound:
    if pa.types.is_duration(a.type) or pa.types.is_duration(b.type):
        a, b = (cast(side, INTERVAL) if pa.types.is_duration(side.type) else side for side in (a, b))
    if not pa.types.is_interval(a.type) and not pa.types.is_interval(b.type):
        return engine_call("multiply", a, b)
    factors = [_factor(side) for side in (a, b)]
    return engine_call("multiply", *factors)


def _factor(side: Bound) -> Bound:
    """A factor of an interval: the interval, an integer, or a float with a cast."""
    if pa.types.is_interval(side.type) or pa.types.is_integer(side.type):
        return side
    engine_call("abs", side)  # a number
    return Bound(Cast(side.expr, FLOAT64), FLOAT64)


def _quotient(dialect: Dialect, a: Bound, b: Bound) -> Bound:
    """The operator /."""
    if pa.types.is_interval(a.type) or pa.types.is_duration(a.type):
        return engine_call("interval_divide", cast(a, INTERVAL), cast(b, FLOAT64))
    if dialect.division == "float" and not pa.types.is_string(plain(a.type)):
        engine_call("divide", a, b)  # numbers
        return engine_call("divide", cast(a, FLOAT64), b)
    return engine_call("divide", *_integers(a, b))


def _whole_quotient(dialect: Dialect, a: Bound, b: Bound) -> Bound:
    """The operator //: of integers, and of decimals without digits after the point, the integer quotient."""
    types = [plain(side.type) for side in (a, b)]
    whole = all(pa.types.is_integer(type_) or (pa.types.is_decimal(type_) and type_.scale == 0) for type_ in types)
    if whole and any(map(pa.types.is_decimal, types)):
        return engine_call("integer_quotient", a, b)
    return engine_call("divide", *_integers(a, b))


def _remainder(dialect: Dialect, a: Bound, b: Bound) -> Bound:
    return engine_call("modulo", *_integers(a, b))


def _caret(dialect: Dialect, a: Bound, b: Bound) -> Bound:
    return engine_call("bitwise_xor" if dialect.caret == "xor" else "power", a, b)


def _complement(value: Expr) -> Expr:
    return call("subtract", -1, value)


# --- comparison and logic --------------------------------------------------------------------------------------------


def comparison(function: str) -> Callable[..., Bound]:
    """The builder of a comparison by the engine's name."""

    def build(dialect: Dialect, a: Bound, b: Bound) -> Bound:
        if a.type.id == b.type.id:
            return engine_call(function, a, b)
        if pa.types.is_duration(a.type) != pa.types.is_duration(b.type):
            a, b = (cast(side, INTERVAL) if pa.types.is_duration(side.type) else side for side in (a, b))
        if pa.types.is_interval(a.type) != pa.types.is_interval(b.type):
            a, b = (cast(side, INTERVAL) if pa.types.is_string(plain(side.type)) else side for side in (a, b))
        return engine_call(function, a, b)

    return build


def _connect_conditions(name: str) -> Callable[..., Bound]:
    """and, or: nested binary calls become one call."""

    def build(dialect: Dialect, *arguments: Bound) -> Bound:
        engine_call(name, *arguments)
        parts: list[Expr] = []
        for argument in arguments:
            nested = isinstance(argument.expr, Call) and argument.expr.function == name
            parts += children(argument.expr) if nested else [argument.expr]
        return Bound(parts[0] if len(parts) == 1 else Call(name, tuple(parts)), BOOL)

    return build


def _between(dialect: Dialect, value: Bound, low: Bound, high: Bound) -> Bound:
    compare = [comparison("greater_equal")(dialect, value, low), comparison("less_equal")(dialect, value, high)]
    return _connect_conditions("and")(dialect, *compare)


# --- text ------------------------------------------------------------------------------------------------------------


def _concatenate(dialect: Dialect, a: Bound, b: Bound) -> Bound:
    """The operator ||: null if a side is."""
    types = [plain(side.type) for side in (a, b)]
    lists = [is_list_of_any_layout(type_) for type_ in types]
    if all(lists) or (any(lists) and any(map(pa.types.is_null, types))):
        return engine_call("list_concat", a, b)
    if any(lists):
        return engine_call("list_append" if lists[0] else "list_prepend", a, b)
    if pa.binary() in types:
        if not all(type_ == pa.binary() or pa.types.is_null(type_) for type_ in types):
            raise PlanError(f"|| of {a.type} and {b.type} is not defined; cast both to text or both to bytes")
        return engine_call("concat", cast(a, pa.binary()), cast(b, pa.binary()))
    return engine_call("concat", a, b)


def text_of(value: Bound) -> Bound:
    """The value as text: numbers, dates and others are converted."""
    type_ = plain(value.type)
    return value if pa.types.is_string(type_) or pa.types.is_null(type_) else cast(value, STRING)


def _like(function: str) -> Callable[..., Bound]:
    def build(dialect: Dialect, text: Bound, pattern: Bound, *escape: Bound) -> Bound:
        if escape and literal_value(escape[0]) == "":
            escape = ()
        return dialect_call(dialect, function, text_of(text), pattern, *escape)

    return build


def _similar(dialect: Dialect, text: Bound, pattern: Bound) -> Bound:
    return dialect_call(dialect, "similar_to", text, pattern)


def _negate(build: Callable[..., Bound]) -> Callable[..., Bound]:
    return lambda dialect, *arguments: engine_call("not", build(dialect, *arguments))


def _matches(*flags: str) -> Callable[..., Bound]:
    return lambda dialect, *arguments: engine_call("regexp_like", *arguments, *map(constant, flags))


def _glob(dialect: Dialect, text: Bound, pattern: Bound) -> Bound:
    written_pattern = literal_value(pattern)
    if is_null(pattern):
        return constant(None, BOOL)
    if not isinstance(written_pattern, str):
        raise PlanError("GLOB takes a text literal as its pattern; use regexp_full_match(text, pattern)")
    return engine_call("regexp_full_match", text, constant(f"(?s){_glob_as_regexp(written_pattern)}"))


def _glob_as_regexp(pattern: str) -> str:
    parts, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        close = pattern.find("]", at + 2) if letter == "[" else -1
        if close > 0:
            inside = pattern[at + 1 : close]
            negated = inside[0] in "!^"
            parts.append(f"[{'^' if negated else ''}{re.escape(inside[negated:]).replace(re.escape('-'), '-')}]")
            at = close
        elif letter == "\\" and at + 1 < len(pattern):
            at += 1
            parts.append(re.escape(pattern[at]))
        else:
            parts.append({"*": ".*", "?": "."}.get(letter, re.escape(letter)))
        at += 1
    return "".join(parts)


# --- zones -----------------------------------------------------------------------------------------------------------

# Matches the time of a text with an offset from UTC.
OFFSET = re.compile(r":\d\d(?:\.\d+)?\s*(?:Z|[-+]\d\d(?::?\d\d)?)\s*$")


def _at_time_zone(dialect: Dialect, when: Bound, zone: Bound) -> Bound:
    if not isinstance(literal_value(zone), str):
        raise PlanError("AT TIME ZONE takes the zone's name as a text literal")
    text = literal_value(when)
    if isinstance(text, str):
        when = cast(when, pa.timestamp("us", "UTC" if OFFSET.search(text) else None))
    return engine_call("at_time_zone", when, zone)


_NUMBERS = "number, number"
OPERATORS: Table = {
    "+": entry("number, [number]; date or timestamp, interval or days", "as the arguments", _arithmetic("add")),
    "-": entry("number, [number]; date or timestamp, the same or an interval", "as they are; days, duration",
               _arithmetic("subtract")),
    "*": entry("number, number; interval, number", "as the arguments", _arithmetic("multiply")),
    "/": entry("number, number; interval, number", "number or interval", _quotient),
    "//": entry(_NUMBERS, "integer; of other numbers a number", _whole_quotient),
    "%": entry(_NUMBERS, "as the arguments", _remainder),
    "**": "power",
    "^": entry(_NUMBERS, "number; with caret='xor' integer", _caret),
    "~": entry("integer, [text]; text, text", "integer; boolean", lambda dialect, *arguments: (
        derive_expr(_complement, *arguments) if len(arguments) == 1 else _matches()(dialect, *arguments)
    )),
    "&": "bitwise_and",
    "|": "bitwise_or",
    "<<": "bitwise_shift_left",
    ">>": "bitwise_shift_right",
    "||": entry("any, any", "text or bytes or list", _concatenate),
    **{
        sign: entry("any, any", "boolean", comparison(function))
        for sign, function in {
            "=": "equal", "==": "equal", "<>": "not_equal", "!=": "not_equal", "<": "less", "<=": "less_equal",
            ">": "greater", ">=": "greater_equal",
        }.items()
    },
    **{
        name: entry("any, any", "boolean", comparison(name))
        for name in (
            "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_distinct_from",
            "is_not_distinct_from",
        )
    },
    "and": entry("boolean, …", "boolean", _connect_conditions("and")),
    "or": entry("boolean, …", "boolean", _connect_conditions("or")),
    "between": entry("any, any, any", "boolean", _between),
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "like": entry("text, text, [text]", "boolean", _like("like")),
    "ilike": entry("text, text, [text]", "boolean", _like("ilike")),
    "not_like": entry("text, text, [text]", "boolean", _negate(_like("like"))),
    "not_ilike": entry("text, text, [text]", "boolean", _negate(_like("ilike"))),
    "~~": "like",
    "~~*": "ilike",
    "!~~": "not_like",
    "!~~*": "not_ilike",
    "similar_to": entry("text, text", "boolean", _similar),
    "not_similar_to": entry("text, text", "boolean", _negate(_similar)),
    "glob": entry("text, text", "boolean", _glob),
    "~~~": "glob",
    "~*": entry("text, text", "boolean", _matches("i")),
    "!~": entry("text, text", "boolean", _negate(_matches())),
    "!~*": entry("text, text", "boolean", _negate(_matches("i"))),
    "^@": "starts_with",
    "at_time_zone": entry("timestamp, zone", "an instant's local time; a local time's instant", _at_time_zone),
    "timezone": entry("zone, timestamp", "an instant's local time; a local time's instant",
                      lambda dialect, zone, when: _at_time_zone(dialect, when, zone)),
    "is_unknown": "is_null",
    "is_not_unknown": "is_not_null",
}  # fmt: skip
# Names of operators that are not words, or that are written between their operands.
SIGNS = frozenset(name for name in OPERATORS if not name.replace("_", "").isalpha())
