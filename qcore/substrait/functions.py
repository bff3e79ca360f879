"""Calls in Substrait → expressions: by the names of qcore.functions, and those that DataFusion's producer writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Cast, Expr, Literal, children, walk
from qcore.functions.aggregate_names import engine_aggregate
from qcore.functions.aggregates import is_aggregate
from qcore.functions.calls import bind_call, is_function
from qcore.functions.dialect import Dialect
from qcore.functions.tables.lists import equals_any, has_nulls
from qcore.functions.tables.text import text_slice
from qcore.functions.typed import constant, derived, engine_call, is_literal, literal_value
from qcore.functions.variants import dialect_call
from qcore.substrait.dialect_functions import (
    AS_TEXT,
    AT_TIME_ZONE,
    DIALECT_FUNCTIONS,
    REDUCES,
    SIMILAR_ESCAPE,
    SIMILAR_PREFIX,
    TEXT_SLICE,
    TIMES_INTERVAL,
    drop_conversion,
    parse_constant,
)

# text.functions writes some aggregates as first_value, whose order begins with a text constant. This is the constant's
# first word; the aggregate's name and fraction follow.
STAND_IN = "$aggregate"
# The column, added to aggregates, whose bits GROUPING() reads.
GROUPING_ID = "$grouping_id"
#: The type of an expression over the input.
TypeOf = Callable[[Expr], pa.DataType]


def scalar_call(name: str, arguments: Sequence[Expr], dialect: Dialect, type_of: TypeOf) -> Expr:
    """The expression of a call of a Substrait scalar function. PlanError for an unknown function."""
    name = name.partition("/")[0]
    known = DIALECT_FUNCTIONS.get((name, len(arguments)))
    if known is not None:
        arguments = list(map(drop_conversion, arguments, known.arguments))
        if name in _OF_CONSTANTS:
            arguments = list(map(parse_constant, arguments))
    if name == "array_sum":
        arguments = list(map(_without_cast_to_floats, arguments))
    # The text that the planner read has no names or operators of Spark's own.
    dialect = dataclasses.replace(dialect, syntax="standard")
    bound = [Bound(argument, pa.int64() if _is_mark(argument) else type_of(argument)) for argument in arguments]
    name = _NAMES.get(name, name)
    build = _OF_PLANNER.get(name)
    try:
        return (bind_call(name, bound, dialect) if build is None else build(dialect, *bound)).expr
    except TypeError:  # The wrong number of arguments of a function of _OF_PLANNER.
        if build is None:
            raise
        raise PlanError(f"there is no function {name} of {len(arguments)} arguments") from None


def is_known_scalar(name: str) -> bool:
    """Whether the engine has a function for this name of a scalar function in Substrait or DataFusion's SQL."""
    name = name.partition("/")[0]
    return name in _OF_PLANNER or is_function(_NAMES.get(name, name))


def is_known_aggregate(name: str) -> bool:
    """Whether the engine has a function for this name of an aggregate function."""
    return is_aggregate(engine_aggregate(name))


def aggregate_name(name: str) -> str:
    """qcore's name of a Substrait aggregate function."""
    own = engine_aggregate(name)
    if not is_aggregate(own):
        raise PlanError(f"the aggregate function {name} is not supported yet")
    return own


def stands_for(order: Sequence[Expr]) -> list[str]:
    """The aggregate that text.functions wrote into the first key of an order: its name and other words."""
    for part in walk(order[0]) if order else ():
        if isinstance(part, Literal) and isinstance(part.value, str) and part.value.startswith(f"{STAND_IN} "):
            return part.value.split(" ")[1:]
    return []


# --- what the planner writes otherwise than SQL ---


def _of_engine(function: str) -> Callable[..., Bound]:
    return lambda dialect, *arguments: dialect_call(dialect, function, *arguments)


def _like(function: str) -> Callable[..., Bound]:
    def build(dialect: Dialect, text: Bound, pattern: Bound, *escape: Bound) -> Bound:
        if escape and literal_value(escape[0]) == SIMILAR_ESCAPE and is_literal(pattern):
            return bind_call(
                "similar_to", [text, constant(literal_value(pattern).removeprefix(SIMILAR_PREFIX))], dialect
            )
        return bind_call(function, [text, pattern, *(part for part in escape if is_literal(part))], dialect)

    return build


def _is_mark(expr: Expr) -> bool:
    """Whether text.lambdas wrote it to say what a lambda within a lambda means (qcore.substrait.lambdas)."""
    return isinstance(expr, Call) and expr.function == REDUCES


def _element(dialect: Dialect, elements: Bound, index: Bound) -> Bound:
    """A list's element. What text.lambdas reduces a list to is the element of a list of one."""
    made = elements.expr
    is_list = isinstance(made, Call) and made.function == "list_value"
    if literal_value(index) == 1 and is_list and len(children(made)) == 1:
        return Bound(children(made)[0], elements.type.value_type)
    return engine_call("list_extract", elements, index)


def _without_cast_to_floats(elements: Expr) -> Expr:
    """The argument of array_sum without the planner's cast of the elements to floats."""
    if isinstance(elements, Cast) and pa.types.is_list(elements.to) and elements.to.value_type == pa.float64():
        return elements.argument
    return elements


def _list_position(dialect: Dialect, held: Bound, searched: Bound, *start: Bound) -> Bound:
    """list_position. The planner searches a null from the first element on to test whether the list has nulls."""
    if start and literal_value(start[0]) == 1 and isinstance(searched.expr, Literal) and searched.expr.value is None:
        found, none = Literal(1, pa.int64()), Literal(None, pa.int64())
        return derived(lambda of: Case(((has_nulls(of), found),), none), held)
    return engine_call("list_position", held, searched, *(() if start and literal_value(start[0]) == 1 else start))


def _times_interval(dialect: Dialect, span: Bound, times: Bound, *by: Bound) -> Bound:
    return bind_call("/", [span, *by], dialect) if by else bind_call("*", [span, times], dialect)


def _text_slice(dialect: Dialect, text: Bound, first: Bound, last: Bound) -> Bound:
    """A slice of a text, around which text.subscripts writes a call that only takes texts."""
    made = text.expr
    if isinstance(made, Call) and made.function == "substring":
        text = Bound(made.arguments[0], pa.string())
    return derived(text_slice, text, first, last)


# Names of operators.
_NAMES = {
    "lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "regex_match": "~", "regex_imatch": "~*", "regex_not_match": "!~",
    "regex_not_imatch": "!~*",
}  # fmt: skip
# Functions of any types whose constants the planner writes as texts.
_OF_CONSTANTS = frozenset({"date_add", "date_sub", "bit_count", "time_bucket", TIMES_INTERVAL})
_OF_PLANNER: dict[str, Callable[..., Bound]] = {
    "array_has": lambda dialect, held, value: equals_any(value, held),
    "array_position": _list_position,
    "array_element": _element,
    "array_sum": _of_engine("list_sum"),
    "list_contains": _of_engine("list_contains"),
    "like": _like("like"),
    "ilike": _like("ilike"),
    # The base is the second argument in Substrait, the first one in SQL.
    "logb": lambda dialect, *arguments: bind_call("log", arguments[::-1], dialect),
    "divide": _of_engine("divide"),
    "multiply": _of_engine("multiply"),
    "modulo": _of_engine("modulo"),
    "modulus": _of_engine("modulo"),
    "mod": _of_engine("modulo"),
    "add": _of_engine("add"),
    "subtract": _of_engine("subtract"),
    "negate": _of_engine("negate"),
    "coalesce": _of_engine("coalesce"),
    TIMES_INTERVAL: _times_interval,
    TEXT_SLICE: _text_slice,
    AT_TIME_ZONE: lambda dialect, when, zone: bind_call("at_time_zone", [when, zone], dialect),
    AS_TEXT: _of_engine("concat"),
    REDUCES: lambda dialect, kind: Bound(Call(REDUCES, (kind.expr,)), pa.int64()),
}
