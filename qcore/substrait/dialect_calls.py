"""Calls that mean one thing to qcore and another to a dialect. docs/SQL.md has them row by row."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa

from qcore.expression.tree import Call, Case, Cast, Expr, Literal, call
from qcore.plan.dialect import Dialect

_FLOAT = pa.float64()
_LOGARITHMS = frozenset({"ln", "log10", "log2"})
# Where functions of real numbers have no value.
_OUTSIDE: dict[str, Callable[[Expr], Expr]] = {
    **dict.fromkeys(("sqrt", *_LOGARITHMS), lambda value: call("less", value, 0)),
    **dict.fromkeys(("asin", "acos", "atanh"), lambda value: call("greater", call("abs", value), 1)),
    **dict.fromkeys(("sin", "cos", "tan"), lambda value: Call("is_infinite", (Cast(value, _FLOAT),))),
    "acosh": lambda value: call("less", value, 1),
}


def in_dialect(made: Expr, name: str, dialect: Dialect) -> Expr:
    """The call, read of a function of this name, with what the dialect means by it."""
    if not isinstance(made, Call):
        return made
    function, arguments = made.function, made.arguments
    if function == "log10" and name == "logb" and dialect.log_base == "e":
        function, made = "ln", Call("ln", arguments)
    if function == "concat" and name == "concat" and dialect.concat_null == "null":
        return Call("concat", tuple(map(_as_given, arguments)))
    if function in ("like", "ilike") and len(arguments) == 2 and dialect.like_escape == "backslash":
        return Call(function, (*arguments, Literal("\\", pa.string())))
    if function == "similar_to" and dialect.similar_to == "regexp":
        return Call("regexp_full_match", arguments)
    if function == "day_of_week" and dialect.first_day_of_week == "one":
        return call("add", made, 1)
    if function in _LOGARITHMS and dialect.log_of_zero == "null":
        return Case(((call("greater", arguments[0], 0), made),))
    if function == "log" and dialect.log_of_zero != "error":
        return _logarithm(made, dialect)
    if function in _LOGARITHMS and dialect.log_of_zero == "infinite":
        made = Case(((call("equal", arguments[0], 0), Literal(-math.inf, _FLOAT)),), made)
    if function in _OUTSIDE and dialect.out_of_domain == "nan":
        return Case(((_OUTSIDE[function](arguments[0]), Literal(math.nan, _FLOAT)),), made)
    if function == "regexp_replace" and len(arguments) == 3 and dialect.regexp_replace == "all":
        return Call(function, (*arguments, Literal("g", pa.string())))
    if function == "substring" and dialect.substring_start != "from_end":
        return _substring(arguments, dialect.substring_start)
    return made


def rounded_to_even(made: Call) -> Expr:
    """round(x) of a float with halves to the even neighbour."""
    (value,) = made.arguments
    is_half = call("equal", call("abs", call("subtract", value, Call("trunc", (value,)))), 0.5)
    half = call("multiply", Call("round", (call("divide", value, 2.0),)), 2.0)
    return Case(((is_half, half),), made)


def _substring(arguments: tuple[Expr, ...], meaning: str) -> Expr:
    text, start, *length = arguments
    length = [call("greatest", count, 0) for count in length]  # a negative one goes back in qcore alone
    if meaning == "zero_is_one":
        first = Case(((call("equal", start, 0), Literal(1, pa.int64())),), start)
        return Call("substring", (text, first, *length))
    # Positions before the first letter count, and hold nothing.
    before: Expr = text
    if length:
        reached = call("subtract", call("add", start, length[0]), 1)
        before = call("substring", text, 1, call("greatest", reached, 0))
    return Case(((call("less", start, 0), before),), Call("substring", (text, start, *length)))


def _logarithm(made: Call, dialect: Dialect) -> Expr:
    """log(base, x): outside of its domain null, or what the quotient of natural logarithms is."""
    base, value = made.arguments
    positive = call("and", call("greater", value, 0), call("greater", base, 0))
    if dialect.log_of_zero == "null":
        return Case(((positive, made),))
    quotient = call("divide", *(in_dialect(Call("ln", (part,)), "ln", dialect) for part in (value, base)))
    return Case(((call("and", positive, call("not_equal", base, 1)), made),), quotient)


def _as_given(argument: Expr) -> Expr:
    """What the reader of concat made of it, taken back."""
    return argument.arguments[0] if isinstance(argument, Call) and argument.function == "coalesce" else argument
