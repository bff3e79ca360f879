"""Substrait function names → expressions over qcore's functions. Floor P2.

Names are those of Substrait's standard extensions and of DataFusion's producer; a signature after ':' is dropped, for
qcore.functions infers types itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from qcore.expression import Call, Expr, Literal, call, column_names
from qcore.functions import PARTS, is_aggregate, is_known
from qcore_ext.ground.status import PlanError

_SAME_MEANING = {
    "lt": "less",
    "lte": "less_equal",
    "gt": "greater",
    "gte": "greater_equal",
    "modulus": "modulo",
    "mod": "modulo",
    "substr": "substring",
    "char_length": "length",
    "character_length": "length",
    "btrim": "trim",
    "strpos": "position",
    "str_concat": "concat",
    "signum": "sign",
    "pow": "power",
    "log_e": "ln",
    "ceiling": "ceil",
    "nvl": "coalesce",
    "ifnull": "coalesce",
}
_SAME_AGGREGATE = {
    "stddev": "stddev_samp",
    "std_dev": "stddev_samp",
    "var": "var_samp",
    "variance": "var_samp",
    "var_sample": "var_samp",
    "var_population": "var_pop",
    "mean": "avg",
    "average": "avg",
    "first_value": "first",
    "last_value": "last",
    "every": "bool_and",
    "covar": "covar_samp",
    "percentile_cont": "quantile_cont",
    "percentile_disc": "quantile_disc",
    "approx_percentile_cont": "quantile_cont",
    "approx_median": "median",
    "listagg": "string_agg",
}
# The column, made by readers of aggregates, of which GROUPING() takes bits.
GROUPING_ID = "$grouping_id"
_PARTS = {"dow": "day_of_week", "doy": "day_of_year", "years": "year", "months": "month", "days": "day"}


def scalar_call(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """The expression of a Substrait scalar function. PlanError names a function the engine has not."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(name, arguments)
    own = _SAME_MEANING.get(name, name)
    if not is_known(own):
        raise PlanError(f"the function {name} is not supported yet")
    return Call(own, arguments)


def aggregate_name(name: str) -> str:
    """qcore's name of a Substrait aggregate function."""
    own = _SAME_AGGREGATE.get(name, name)
    if not is_aggregate(own):
        raise PlanError(f"the aggregate function {name} is not supported yet")
    return own


def _flat(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """and, or: nested binary calls become one of many arguments."""
    parts: list[Expr] = []
    for argument in arguments:
        if isinstance(argument, Call) and argument.function == name:
            parts += argument.arguments
        else:
            parts.append(argument)
    return parts[0] if len(parts) == 1 else Call(name, tuple(parts))


def _like(name: str, arguments: tuple[Expr, ...]) -> Expr:
    text, pattern, *escape = arguments
    if escape and not (isinstance(escape[0], Literal) and escape[0].value in (None, "", "\\")):
        raise PlanError(f"{name.upper()} with ESCAPE is not supported yet")
    return Call(name, (text, pattern))


def _part(name: str, arguments: tuple[Expr, ...]) -> Expr:
    part, when = arguments
    wanted = str(part.value).lower() if isinstance(part, Literal) else ""
    wanted = _PARTS.get(wanted, wanted)
    if wanted not in PARTS:
        raise PlanError(f"the date part {wanted or part!r} is not supported yet; there are {', '.join(PARTS)}")
    return Call(wanted, (when,))


def _lower_unit(name: str, arguments: tuple[Expr, ...]) -> Expr:
    unit, when = arguments
    if not isinstance(unit, Literal):
        raise PlanError("the unit of date_trunc must be a text literal")
    return Call(name, (Literal(str(unit.value).lower(), pa.string()), when))


def _concat(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """concat() leaves nulls out, where || gives null."""
    empty = Literal("", pa.string())
    kept = tuple(a if isinstance(a, Literal) else Call("coalesce", (a, empty)) for a in arguments)
    return Call("concat", kept)


def _between(name: str, arguments: tuple[Expr, ...]) -> Expr:
    value, low, high = arguments
    return Call("and", (Call("greater_equal", (value, low)), Call("less_equal", (value, high))))


def _grouping_bits(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """What GROUPING() makes of a grouping id, which is never negative: there are no other operations on bits."""
    value, operand = arguments
    of_grouping = column_names(value) and all(column.startswith(GROUPING_ID) for column in column_names(value))
    if not of_grouping or not isinstance(operand, Literal) or operand.value is None:
        raise PlanError(f"the function {name} is not supported yet")
    number = int(operand.value)
    if name == "bitwise_shift_right":
        return call("divide", call("subtract", value, call("modulo", value, 1 << number)), 1 << number)
    parts = [
        call("subtract", call("modulo", value, 2 << bit), call("modulo", value, 1 << bit))
        for bit in range(number.bit_length())
        if number >> bit & 1
    ]
    result: Expr = Literal(0, pa.int64())
    for part in parts:
        result = call("add", result, part)
    return result


_SPECIAL: dict[str, Callable[[str, tuple[Expr, ...]], Expr]] = {
    "and": _flat,
    "or": _flat,
    "like": _like,
    "ilike": _like,
    "date_part": _part,
    "extract": _part,
    "date_trunc": _lower_unit,
    "concat": _concat,
    "between": _between,
    "bitwise_and": _grouping_bits,
    "bitwise_shift_right": _grouping_bits,
}
