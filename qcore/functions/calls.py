"""Calls of scalar functions and operators by their names in dialects.

Operators are called by their signs ("+", "||", "[]" for a subscript, "[:]" for a slice) or by words such as "and",
"like", "is_null", "between" and "at_time_zone"; functions by their names in SQL, in any case, or by the engine's names.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Expr, children, rebuild
from qcore.functions.catalogue import LIST_LAMBDAS, expr_type, is_known, scalar_functions
from qcore.functions.current_moment import MOMENTS
from qcore.functions.dialect import QCORE, Dialect
from qcore.functions.entries import Entry, Table, entry
from qcore.functions.operators import OPERATORS, SIGNS
from qcore.functions.signatures import n_arguments
from qcore.functions.tables.lists import LISTS
from qcore.functions.tables.numbers import NUMBERS, VALUES
from qcore.functions.tables.spark import SPARK
from qcore.functions.tables.text import TEXT
from qcore.functions.tables.times import TIMES
from qcore.functions.typed import literal_value
from qcore.functions.variants import dialect_call

# Names of aggregates in list_aggregate that differ from the names of list functions.
_AGGREGATES = {"mean": "avg", "stddev": "stddev_samp", "variance": "var_samp", "group_concat": "string_agg"}


def _list_aggregate(dialect: Dialect, lists: Bound, *arguments: Bound) -> Bound:
    """list_aggregate(l, 'sum')."""
    text = literal_value(arguments[0]) if arguments else None
    if not isinstance(text, str):
        raise PlanError("list_aggregate takes a list and the name of an aggregate: list_aggregate(l, 'sum')")
    return bind_call(f"list_{_AGGREGATES.get(text.lower(), text.lower())}", [lists, *arguments[1:]], dialect)


SHARED: Table = {
    **NUMBERS,
    **VALUES,
    **TEXT,
    **TIMES,
    **LISTS,
    **OPERATORS,
    "list_aggregate": entry("list, [name], [any], …", "as the aggregate", _list_aggregate),
    **dict.fromkeys(("list_aggr", "array_aggregate", "array_aggr"), "list_aggregate"),
}
#: The additional functions of a dialect, by Dialect.syntax.
OF_SYNTAX: dict[str, Table] = {"standard": {}, "spark": SPARK}
#: Functions without arguments that have a new value for each row, with the engine's name.
VOLATILE = {
    "random": "random", "rand": "random", "uuid": "uuid", "gen_random_uuid": "uuid", "uuidv4": "uuid",
}  # fmt: skip
#: Other names of current_moment.MOMENTS.
_MOMENTS = {
    **{name: name for name in MOMENTS},
    "get_current_timestamp": "now", "transaction_timestamp": "now", "get_current_time": "current_time",
}  # fmt: skip


def is_volatile(name: str) -> bool:
    """Whether a call without arguments has a new value for each row. qcore.plan.random_column adds its column."""
    return name.lower() in VOLATILE


def is_moment(name: str) -> bool:
    """Whether a call without arguments is the time at which the query was planned (current_moment)."""
    return name.lower() in _MOMENTS


def moment_name(name: str) -> str:
    """The name in current_moment.MOMENTS for a name of a moment."""
    return _MOMENTS[name.lower()]


def is_function(name: str, dialect: Dialect = QCORE) -> bool:
    """Whether the dialect has a scalar function of this name."""
    name = name.lower()
    return name in VOLATILE or name in _MOMENTS or find(name, dialect.syntax) is not None


def bind_call(name: str, arguments: Sequence[Bound], dialect: Dialect = QCORE) -> Bound:
    """The call of a function or operator with these arguments.

    Raises
    ------
    PlanError
        The function is unknown, or takes another number of arguments, or other types.
    """
    lower = name.lower()
    found = find(lower, dialect.syntax)
    if found is None:
        raise unknown_function(name, dialect)
    if isinstance(found, str):
        return dialect_call(dialect, found, *arguments)
    if not found.fewest <= len(arguments) <= found.most:
        raise PlanError(f"{name} takes {n_arguments(found.fewest, found.most)}, not {len(arguments)}")
    return found.build(dialect, *arguments)


def with_engine_calls(expr: Expr, schema: pa.Schema) -> Expr:
    """An expression over columns of `schema` whose calls have names of the engine, or of SQL in the default dialect.

    Raises
    ------
    PlanError
        A function is unknown, or its arguments do not fit.
    """
    parts = children(expr)
    made = tuple(with_engine_calls(part, schema) for part in parts)
    if any(new is not old for new, old in zip(made, parts, strict=True)):
        expr = rebuild(expr, made)
    if not isinstance(expr, Call) or is_known(expr.function) or expr.function == "extract":
        return expr
    return bind_call(expr.function, [Bound(part, expr_type(part, schema)) for part in expr.arguments]).expr


@cache
def find(name: str, syntax: str) -> Entry | str | None:
    """The entry of a name in lower case; a text is the engine's name of the function. None for an unknown name."""
    for table in (OF_SYNTAX[syntax], SHARED):
        found = table.get(name)
        while isinstance(found, str) and found != name:
            name, found = found, table.get(found)
        if isinstance(found, Entry):
            return found
    return name if is_known(name) else None


@cache
def names(syntax: str) -> frozenset[str]:
    """The names of functions that a dialect has, without operators."""
    given = {*SHARED, *OF_SYNTAX[syntax], *scalar_functions(), *VOLATILE, *_MOMENTS, *LIST_LAMBDAS}
    return frozenset(given - SIGNS)


def unknown_function(name: str, dialect: Dialect = QCORE, aggregates: Sequence[str] = ()) -> PlanError:
    """An error that names the functions with similar names."""
    close = difflib.get_close_matches(name.lower(), {*names(dialect.syntax), *aggregates}, 2)
    hint = (
        f"did you mean {' or '.join(map(repr, close))}?" if close else "see the list of functions in the documentation"
    )
    return PlanError(f"unknown function {name!r} in the query; {hint}")
