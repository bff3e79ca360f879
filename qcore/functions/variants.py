"""The meaning of calls in dialects: the expressions that replace a function of the engine where engines differ."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa

from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Cast, Expr, Literal, call, children
from qcore.functions.dialect import Dialect
from qcore.functions.typed import derive, engine_call

_FLOAT = pa.float64()
_LOGARITHMS = frozenset({"ln", "log10", "log2"})
# Conditions under which functions of real numbers are undefined.
_OUTSIDE: dict[str, Callable[[Expr], Expr]] = {
    **dict.fromkeys(("sqrt", *_LOGARITHMS), lambda value: call("less", value, 0)),
    **dict.fromkeys(("asin", "acos", "atanh"), lambda value: call("greater", call("abs", value), 1)),
    **dict.fromkeys(("sin", "cos", "tan"), lambda value: Call("is_infinite", (Cast(value, _FLOAT),))),
    "acosh": lambda value: call("less", value, 1),
}


def dialect_call(dialect: Dialect, function: str, *arguments: Bound) -> Bound:
    """The call of a function of the engine, with its meaning in the dialect."""
    made = engine_call(function, *arguments)
    changed = apply_dialect(made.expr, function, dialect)
    if changed is made.expr and function == "round" and dialect.round_half == "even" and len(arguments) == 1:
        changed = round_to_even(made.expr) if pa.types.is_floating(made.type) else changed
    return made if changed is made.expr else derive(changed, [*arguments, made])


def apply_dialect(expr: Expr, name: str, dialect: Dialect) -> Expr:
    """The expression of a call of the function `name`, changed to its meaning in the dialect."""
    if not isinstance(expr, Call):
        return expr
    result: Expr = expr
    function, arguments = expr.function, expr.arguments
    if function == "log10" and name == "logb" and dialect.log_base == "e":
        function, result = "ln", Call("ln", arguments)
    if function == "concat" and name == "concat" and dialect.concat_null == "null":
        return Call("concat", tuple(map(_drop_coalesce, arguments)))
    if function in ("like", "ilike") and len(arguments) == 2 and dialect.like_escape == "backslash":
        return Call(function, (*arguments, Literal("\\", pa.string())))
    if function == "similar_to" and dialect.similar_to == "regexp":
        return Call("regexp_full_match", arguments)
    if function == "day_of_week" and dialect.first_day_of_week == "one":
        return call("add", result, 1)
    if function in _LOGARITHMS and dialect.log_of_zero == "null":
        return Case(((call("greater", arguments[0], 0), result),))
    if function == "log" and dialect.log_of_zero != "error":
        return _logarithm(expr, dialect)
    if function in _LOGARITHMS and dialect.log_of_zero == "infinite":
        result = Case(((call("equal", arguments[0], 0), Literal(-math.inf, _FLOAT)),), result)
    if function in _OUTSIDE and dialect.out_of_domain == "nan":
        return Case(((_OUTSIDE[function](arguments[0]), Literal(math.nan, _FLOAT)),), result)
    if function == "regexp_replace" and len(arguments) == 3 and dialect.regexp_replace == "all":
        return Call(function, (*arguments, Literal("g", pa.string())))
    if function == "substring" and dialect.substring_start != "from_end":
        return _substring(arguments, dialect.substring_start)
    return result


def round_to_even(rounding: Expr) -> Expr:
    """round(x) of a float, with halves rounded to the even neighbour."""
    (value,) = children(rounding)
    is_half = call("equal", call("abs", call("subtract", value, Call("trunc", (value,)))), 0.5)
    half = call("multiply", Call("round", (call("divide", value, 2.0),)), 2.0)
    return Case(((is_half, half),), rounding)


def _substring(arguments: tuple[Expr, ...], meaning: str) -> Expr:
    text, start, *length = arguments
    length = [call("greatest", count, 0) for count in length]  # Only qcore gives a negative length a meaning.
    if meaning == "zero_is_one":
        first = Case(((call("equal", start, 0), Literal(1, pa.int64())),), start)
        return Call("substring", (text, first, *length))
    # Positions before the first letter count, but have no letters.
    before: Expr = text
    if length:
        reached = call("subtract", call("add", start, length[0]), 1)
        before = call("substring", text, 1, call("greatest", reached, 0))
    return Case(((call("less", start, 0), before),), Call("substring", (text, start, *length)))


def _logarithm(logarithm: Call, dialect: Dialect) -> Expr:
    """log(base, x). Outside its domain the result is null, or the quotient of natural logarithms."""
    base, value = logarithm.arguments
    positive = call("and", call("greater", value, 0), call("greater", base, 0))
    if dialect.log_of_zero == "null":
        return Case(((positive, logarithm),))
    quotient = call("divide", *(apply_dialect(Call("ln", (part,)), "ln", dialect) for part in (value, base)))
    return Case(((call("and", positive, call("not_equal", base, 1)), logarithm),), quotient)


def _drop_coalesce(argument: Expr) -> Expr:
    """An argument of concat without the coalesce that the reader of concat added."""
    return argument.arguments[0] if isinstance(argument, Call) and argument.function == "coalesce" else argument
