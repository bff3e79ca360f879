"""Calls of functions: scalar functions, aggregates, and the few that concern the query itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Literal
from qcore.functions.aggregate_names import bind_aggregate, is_aggregate_name
from qcore.functions.calls import bind_call, is_function, is_moment, is_volatile, moment_name
from qcore.functions.current_moment import current_moment
from qcore.functions.typed import derive
from qcore.plan.window_calls import FRACTIONS, PLACES, VALUES
from qcore.sql import calls
from qcore.sql.binder import Binder, ExpressionReader
from qcore.sql.call_parts import CallParts, read_call
from qcore.sql.grouping import Grouping, bind_grouping_function
from qcore.sql.lambdas import bind_lambda_call, is_lambda_call
from qcore.sql.literals import constant
from qcore.sql.ordering import read_ordered
from qcore.sql.random_columns import bind_random
from qcore.sql.reading import take
from qcore.sql.scope import BindContext
from qcore.sql.subqueries import bind_array, bind_exists, exists_query, is_query, outer_columns_only
from qcore.sql.text_arguments import bind_written
from qcore.sql.windows import bind_window


def bind_function(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A call without OVER."""
    parts = read_call(node, binder)
    name = parts.name.lower()
    if is_aggregate_name(name, binder.dialect):
        return _aggregate(binder, parts, context)
    if parts.has_modifiers and not name.startswith("grouping"):
        raise PlanError(f"{parts.name} is not an aggregate function, so it takes no DISTINCT, ORDER BY or FILTER")
    if name in ("grouping", "grouping_id"):
        return bind_grouping_function(binder, parts.node, parts.arguments, context)
    if exists_query(parts.node) is not None:
        return bind_exists(binder, parts.node, context)
    if name == "array" and len(parts.arguments) == 1 and is_query(parts.arguments[0]):
        return bind_array(binder, parts.arguments[0], context)
    if is_volatile(name) and not parts.arguments:
        return bind_random(binder, name, context)
    if is_moment(name) and not parts.arguments:
        return derive(current_moment(moment_name(name), binder.ids.began_nanos), [])
    if name in PLACES | FRACTIONS | VALUES and not is_function(name, binder.dialect):
        raise PlanError(f"the window function {name} needs OVER (…)")
    if is_lambda_call(name, parts.arguments):
        return bind_lambda_call(binder, parts.name, parts.arguments, context)
    if name == "columns":
        raise PlanError("COLUMNS(…) is only allowed in a select list or in WHERE; elsewhere name the columns")
    if name in ("unnest", *(("explode",) if binder.dialect.syntax == "spark" else ())):
        return _unnest(binder, parts, context)
    if name == "generate_subscripts":
        return _subscripts(binder, parts, context)
    special = calls.bind_special(binder, parts.name, parts.arguments, context)
    if special is not None:
        return special
    arguments = [_argument(binder, argument, context) for argument in parts.arguments]
    return bind_written(parts.name, arguments, binder.dialect)


def _subscripts(binder: Binder, parts: CallParts, context: BindContext) -> Bound:
    """generate_subscripts(list, 1): the numbers of a list's elements, as rows."""
    if context.unnested is None:
        raise PlanError(f"generate_subscripts cannot be in {context.clause}; write it in a select list")
    if len(parts.arguments) != 2:
        raise PlanError("generate_subscripts takes a list and its dimension, 1")
    held, dimension = (binder.expression(argument, replace(context, unnested=None)) for argument in parts.arguments)
    if not isinstance(dimension.expr, Literal) or dimension.expr.value != 1:
        raise PlanError("generate_subscripts: a list has one dimension, 1")
    length = bind_call("length", [held], binder.dialect)
    return context.unnested.add(bind_call("generate_series", [constant(1, pa.int64()), length], binder.dialect))


def _unnest(binder: Binder, parts: CallParts, context: BindContext) -> Bound:
    if context.unnested is None:
        raise PlanError(f"unnest cannot be in {context.clause}; write it in a select list or in FROM")
    if len(parts.arguments) != 1:
        raise PlanError("unnest in a select list takes one list or map and no options")
    return context.unnested.add(binder.expression(parts.arguments[0], replace(context, unnested=None)))


def _argument(binder: Binder, node: Any, context: BindContext) -> Bound:
    if _is_star(node) or (type(node).__name__ == "Column" and _is_star(node.this)):
        raise PlanError("* is an argument of count only; name the columns")
    return binder.expression(node, context)


def _aggregate(binder: Binder, parts: CallParts, context: BindContext) -> Bound:
    grouping: Grouping | None = context.grouping
    level = context.scope.level
    if grouping is None and level.outer is None:
        raise _make_placement_error(parts, context)
    if grouping is None:
        # It may be the outer query's.
        return _outer_aggregate(binder, parts, context)
    captured = dict(level.captured)
    inner = context.within("the arguments of an aggregate")
    n_subqueries = len(inner.subqueries)
    arguments = [binder.expression(argument, inner) for argument in parts.arguments if not _is_star(argument)]
    order = []
    for key in parts.order:
        value, descending, nulls_first = read_ordered(key)
        order.append((binder.expression(value, inner), descending, nulls_first))
    filter = None if parts.filter is None else binder.expression(parts.filter, inner)
    values = [*arguments, *(key[0] for key in order), *([] if filter is None else [filter])]
    if level.outer is not None and outer_columns_only(values) and level.outer.grouping is not None:
        level.captured.clear()
        level.captured.update(captured)
        del inner.subqueries[n_subqueries:]
        return _outer_aggregate(binder, parts, context)
    return bind_aggregate(
        parts.name,
        arguments,
        distinct=parts.distinct,
        filter=filter,
        order=order,
        within_group=parts.within_group,
        add=grouping.add,
        dialect=binder.dialect,
    )


def _outer_aggregate(binder: Binder, parts: CallParts, context: BindContext) -> Bound:
    """An aggregate over only the outer query's columns. By the standard it belongs to the outer query."""
    level = context.scope.level
    outer = level.outer
    if outer is None or outer.grouping is None:
        raise _make_placement_error(parts, context)
    try:
        value = _aggregate(binder, parts, outer)
    except PlanError:
        binder.fault = None
        raise _make_placement_error(parts, context) from None
    return level.capture(value, binder.names)


def _make_placement_error(parts: CallParts, context: BindContext) -> PlanError:
    hint = "; HAVING filters groups" if context.clause == "WHERE" else ""
    return PlanError(f"{parts.name}: an aggregate function cannot be in {context.clause}{hint}")


def _is_star(node: Any) -> bool:
    return type(node).__name__ == "Star"


def bind_extract(binder: Binder, node: Any, context: BindContext) -> Bound:
    """EXTRACT(part FROM x)."""
    part, value = take(node, "this", "expression")
    return bind_call("extract", [constant(part.name, pa.string()), binder.expression(value, context)], binder.dialect)


def bind_trim(binder: Binder, node: Any, context: BindContext) -> Bound:
    """TRIM(BOTH letters FROM text)."""
    value, position, letters = take(node, "this", "position", "expression")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(position or "BOTH").upper(), "trim")
    arguments = [binder.expression(part, context) for part in (value, letters) if part is not None]
    return bind_call(name, arguments, binder.dialect)


_CALLS = (
    "Anonymous", "Filter", "WithinGroup", "IgnoreNulls", "RespectNulls", "Count", "Coalesce", "Substring",
    "StrPosition", "Overlay", "CurrentDate", "CurrentTimestamp", "CurrentTime", "Localtimestamp",
)  # fmt: skip
READERS: dict[str, ExpressionReader] = {
    **calls.READERS,
    **dict.fromkeys(_CALLS, bind_function),
    "Window": bind_window,
    "Extract": bind_extract,
    "Trim": bind_trim,
}
