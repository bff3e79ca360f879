"""Substrait function names → expressions over qcore's functions.

Names are those of Substrait's standard extensions and of DataFusion's producer. A signature after ':' is dropped:
qcore.functions.catalogue infers types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Case, Cast, Expr, Literal, call, walk
from qcore.functions.aggregates import is_aggregate
from qcore.functions.catalogue import is_known, part_name
from qcore.functions.current_moment import MOMENTS
from qcore.functions.dialect import QCORE, Dialect
from qcore.functions.time_patterns import strftime_pattern
from qcore.functions.variants import apply_dialect
from qcore.substrait.dialect_functions import DIALECT_FUNCTIONS, SIMILAR_ESCAPE, SIMILAR_PREFIX, dialect_call

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
    "is_unknown": "is_null",
    "is_not_unknown": "is_not_null",
    "to_char": "strftime",
    "date_format": "strftime",
    "xor": "bitwise_xor",
    "ifnull": "coalesce",
    "make_array": "list_value",
    "named_struct": "struct_pack",
    "struct": "row",
    "get_field": "struct_extract",
    "string_to_array": "string_split",
    "gen_series": "generate_series",
    "cardinality": "list_length",
    "array_has": "list_contains",
    "array_has_any": "list_has_any",
    "array_has_all": "list_has_all",
    "array_remove_all": "list_remove",
    "array_transform": "list_transform",
    "array_filter": "list_filter",
    "arrays_zip": "list_zip",
    "array_intersect": "list_intersect",
    "array_any_value": "list_any_value",
    "array_resize": "list_resize",
    **{
        f"array_{name}": f"list_{name}"
        for name in (
            "length", "slice", "position", "append", "prepend", "concat", "distinct", "reverse", "sort", "sum", "min",
            "max",
        )
    },
}  # fmt: skip
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
# text.functions writes some aggregates as first_value, whose order begins with a text constant. This is the constant's
# first word; the aggregate's name and fraction follow.
STAND_IN = "$aggregate"
# The column, added to aggregates, whose bits GROUPING() reads.
GROUPING_ID = "$grouping_id"


def other_names() -> dict[str, str]:
    """qcore's names of functions that have another name in Substrait or DataFusion's SQL."""
    return dict(_SAME_MEANING)


# Functions whose second argument is a pattern of dates and times.
_WITH_PATTERN = frozenset({"to_char", "date_format", "to_date", "to_timestamp"})


def scalar_call(name: str, arguments: tuple[Expr, ...], dialect: Dialect = QCORE) -> Expr:
    """The expression of a call of a Substrait scalar function. PlanError for an unknown function."""
    return apply_dialect(_plain_call(name, _convert_pattern(name, arguments, dialect)), name, dialect)


def _convert_pattern(name: str, arguments: tuple[Expr, ...], dialect: Dialect) -> tuple[Expr, ...]:
    """The arguments with a constant pattern of dates and times converted to that of strftime."""
    if name not in _WITH_PATTERN or len(arguments) < 2:
        return arguments
    when, pattern, *more = arguments
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return arguments
    written = strftime_pattern(pattern.value, dialect.time_pattern == "java")
    return (when, Literal(written, pattern.type), *more)


def _plain_call(name: str, arguments: tuple[Expr, ...]) -> Expr:
    special = _SPECIAL.get(name)
    if special is not None:
        try:
            return special(name, arguments)
        except (ValueError, IndexError):  # The wrong number of arguments to unpack.
            raise PlanError(f"there is no function {name} of {len(arguments)} arguments") from None
    call_in_dialect = dialect_call(name, arguments)
    if call_in_dialect is not None:
        return call_in_dialect
    own = _SAME_MEANING.get(name, name)
    if not is_known(own):
        raise PlanError(f"the function {name} is not supported yet")
    return Call(own, arguments)


def is_known_scalar(name: str) -> bool:
    """Whether the engine has a function for this name of a scalar function in Substrait or DataFusion's SQL."""
    own = _SAME_MEANING.get(name, name)
    if own in _SPECIAL or name in MOMENTS or is_known(own):
        return True
    return any(known == name.partition("/")[0] for known, _ in DIALECT_FUNCTIONS)


def is_known_aggregate(name: str) -> bool:
    """Whether the engine has a function for this name of an aggregate function."""
    return is_aggregate(_SAME_AGGREGATE.get(name, name))


def aggregate_name(name: str) -> str:
    """qcore's name of a Substrait aggregate function."""
    own = _SAME_AGGREGATE.get(name, name)
    if not is_aggregate(own):
        raise PlanError(f"the aggregate function {name} is not supported yet")
    return own


def stands_for(order: Sequence[Expr]) -> list[str]:
    """The aggregate that text.functions wrote into the first key of an order: its name and other words."""
    for part in walk(order[0]) if order else ():
        if isinstance(part, Literal) and isinstance(part.value, str) and part.value.startswith(f"{STAND_IN} "):
            return part.value.split(" ")[1:]
    return []


def _flat(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """and, or: nested binary calls become one call."""
    parts: list[Expr] = []
    for argument in arguments:
        if isinstance(argument, Call) and argument.function == name:
            parts += argument.arguments
        else:
            parts.append(argument)
    return parts[0] if len(parts) == 1 else Call(name, tuple(parts))


def _like(name: str, arguments: tuple[Expr, ...]) -> Expr:
    text, pattern, *escape = arguments
    character = escape[0].value if escape and isinstance(escape[0], Literal) else None
    if character == SIMILAR_ESCAPE and isinstance(pattern, Literal):
        written = Literal(pattern.value.removeprefix(SIMILAR_PREFIX), pattern.type)
        return Call("similar_to", (text, written))
    if character in (None, ""):
        return Call(name, (text, pattern))
    return Call(name, (text, pattern, *escape))


def _part(name: str, arguments: tuple[Expr, ...]) -> Expr:
    part, when = arguments
    if not isinstance(part, Literal):
        raise PlanError("the part of a date must be a text literal")
    return Call(part_name(str(part.value)), (when,))


def _lower_unit(name: str, arguments: tuple[Expr, ...]) -> Expr:
    unit, when = arguments
    if not isinstance(unit, Literal):
        raise PlanError("the unit of date_trunc must be a text literal")
    return Call(name, (Literal(str(unit.value).lower(), pa.string()), when))


def _log(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """The logarithm, by default to base 10. The base is the second argument in Substrait and the first one in SQL."""
    return Call("log10" if len(arguments) == 1 else "log", arguments[::-1])


def _matches_any_case(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return Call("regexp_like", (*arguments, Literal("i", pa.string())))


def _matches(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return Call("regexp_like", arguments)


def _negate(build: Callable[[str, tuple[Expr, ...]], Expr]) -> Callable[[str, tuple[Expr, ...]], Expr]:
    return lambda name, arguments: Call("not", (build(name, arguments),))


def _element(name: str, arguments: tuple[Expr, ...]) -> Expr:
    elements, index = arguments
    if isinstance(elements, Call) and elements.function == "regexp_match":
        if not isinstance(index, Literal) or index.value != 1:
            raise PlanError("only [1] of regexp_match() is supported; regexp_extract() gives other groups")
        return Call("regexp_match_first", elements.arguments)
    is_first = isinstance(index, Literal) and index.value == 1
    if is_first and isinstance(elements, Call) and elements.function == "list_value" and len(elements.arguments) == 1:
        return elements.arguments[0]
    return Call("list_extract", arguments)


def _list_sum(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """array_sum without the planner's cast of the elements to floats."""
    (elements,) = arguments
    if isinstance(elements, Cast) and pa.types.is_list(elements.to) and elements.to.value_type == pa.float64():
        elements = elements.argument
    return Call("list_sum", (elements,))


def _is_empty(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return call("equal", Call("list_length", arguments), 0)


def _equals_any(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """x = ANY(list), for which alone the planner uses this name: unknown if only a null in the list may be equal."""
    contained = Call("list_contains", arguments)
    return Case(((contained, contained), (_has_nulls(arguments[0]), Literal(None, pa.bool_()))), contained)


def _has_nulls(held: Expr) -> Expr:
    return call("greater", Call("list_length", (held,)), Call("list_count", (held,)))


def _list_position(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """list_position. The planner searches a null from the first element on to test whether the list has nulls."""
    if len(arguments) == 3 and isinstance(arguments[2], Literal) and arguments[2].value == 1:
        held, searched, _ = arguments
        if isinstance(searched, Literal) and searched.value is None:
            return Case(((_has_nulls(held), Literal(1, pa.int64())),), Literal(None, pa.int64()))
        arguments = (held, searched)
    return Call("list_position", arguments)


def _pending_list(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return Call(name, arguments)


def _not_number(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """nanvl(x, y): y where x is NaN."""
    value, instead = arguments
    return Case(((Call("is_nan", (value,)), instead),), value)


def _pi(name: str, arguments: tuple[Expr, ...]) -> Expr:
    () = arguments
    return Literal(math.pi, pa.float64())


def _if_present(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """nvl2(x, y, z): y where x is not null, otherwise z."""
    value, present, absent = arguments
    return Case(((Call("is_not_null", (value,)), present),), absent)


def _overlay(name: str, arguments: tuple[Expr, ...]) -> Expr:
    text, new, start, *length = arguments
    replaced = length[0] if length else Call("length", (new,))
    before = call("left", text, call("greatest", call("subtract", start, 1), 0))
    return call("concat", before, new, call("substring", text, call("add", start, replaced)))


def _to_date(name: str, arguments: tuple[Expr, ...]) -> Expr:
    when, *form = arguments
    return Cast(Call("strptime", (when, *form)) if form else when, pa.date32())


def _to_timestamp(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """to_timestamp and its kin: text is parsed, with a format if there is one; numbers count units since 1970."""
    when, *form = arguments
    if form:
        return Call("strptime", (when, *form))
    return Call(name, (when,))


def _to_unixtime(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return Cast(call("floor", Call("epoch", arguments[:1])), pa.int64())


def _is_zero(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return call("equal", arguments[0], 0)


def _concat(name: str, arguments: tuple[Expr, ...]) -> Expr:
    """concat(), which skips nulls. The operator || gives null."""
    empty = Literal("", pa.string())
    present = [isinstance(argument, Literal) and argument.value is not None for argument in arguments]
    kept = tuple(a if known else Call("coalesce", (a, empty)) for a, known in zip(arguments, present, strict=True))
    return Call("concat", kept)


def _make_list(name: str, arguments: tuple[Expr, ...]) -> Expr:
    return Call("list_value", arguments) if arguments else Literal([], pa.list_(pa.null()))


def _between(name: str, arguments: tuple[Expr, ...]) -> Expr:
    value, low, high = arguments
    return Call("and", (Call("greater_equal", (value, low)), Call("less_equal", (value, high))))


_SPECIAL: dict[str, Callable[[str, tuple[Expr, ...]], Expr]] = {
    "and": _flat,
    "array_has": _equals_any,
    "array_position": _list_position,
    "or": _flat,
    "like": _like,
    "ilike": _like,
    "date_part": _part,
    "extract": _part,
    "date_trunc": _lower_unit,
    "concat": _concat,
    "between": _between,
    "make_array": _make_list,
    "logb": _log,
    "regex_match": _matches,
    "regex_imatch": _matches_any_case,
    "regex_not_match": _negate(_matches),
    "regex_not_imatch": _negate(_matches_any_case),
    "array_element": _element,
    "array_sum": _list_sum,
    "empty": _is_empty,
    "regexp_match": _pending_list,
    "nanvl": _not_number,
    "nvl2": _if_present,
    "overlay": _overlay,
    "pi": _pi,
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "to_timestamp_nanos": _to_timestamp,
    "to_timestamp_micros": _to_timestamp,
    "to_timestamp_millis": _to_timestamp,
    "to_timestamp_seconds": _to_timestamp,
    "to_unixtime": _to_unixtime,
    "iszero": _is_zero,
}
