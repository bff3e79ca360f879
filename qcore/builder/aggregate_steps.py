"""Aggregations of PlanBuilder: agg(), and the node of aggregate()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa

from qcore.builder.arguments import (
    Expression,
    as_list,
    in_step,
    read_condition,
    read_expression,
    read_named,
    read_sort_keys,
)
from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, col
from qcore.functions.aggregate_names import Order, bind_aggregate, is_aggregate_name
from qcore.functions.aggregates import aggregate_type, is_aggregate
from qcore.functions.catalogue import expr_type
from qcore.plan.nodes import Aggregate, AggregateCall, PlanNode, SortKey
from qcore.plan.schema import aggregate_schema, check_unique, unknown
from qcore.record import record

# A cube has 2**n sets, each of which reads every row.
CUBE_KEYS_MAX = 10


@record(frozen=True)
class Agg:
    """A call for PlanBuilder.aggregate(). agg() makes it."""

    function: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    filter: Expression | None = None
    order_by: tuple[str, ...] = ()


def agg(
    function: str,
    *arguments: Any,
    distinct: bool = False,
    filter: Expression | None = None,
    order_by: Sequence[str] | str = (),
) -> Agg:
    """An aggregate call with all options, for PlanBuilder.aggregate().

    Parameters
    ----------
    function : str
        count, sum, avg, min, max, …
    arguments : Expr or str
        Columns or expressions. Without arguments, count counts rows. A constant such as a separator is lit(…) or a
        number.
    distinct : bool
        Whether equal values count once.
    filter : Expr or str, optional
        A condition. Rows for which it is not true are left out.
    order_by : list of str, optional
        The order of a group's rows, for functions whose result depends on it: ["day desc", "id"].

    Examples
    --------
    >>> agg("sum", "x", filter=col("y") > 1).function
    'sum'
    """
    return Agg(function, arguments, distinct, filter, tuple(as_list(order_by)))  # type: ignore[arg-type]


def aggregate_node(
    id: str,
    child: PlanNode,
    keys: Sequence[Expression] | Expression,
    aggs: Mapping[str, Agg | str | tuple[Any, ...]] | None,
    grouping_sets: Sequence[Sequence[str] | str] | str | None,
) -> Aggregate:
    """The node of aggregate()."""
    schema = child.schema
    named = tuple(read_named(key, schema, f"aggregate(), key {i + 1}") for i, key in enumerate(as_list(keys)))
    calls = tuple(_read_call(name, spec, schema) for name, spec in (aggs or {}).items())
    if not named and not calls:
        raise PlanError("aggregate() needs keys or aggs")
    check_unique([name for name, _ in named] + [call.name for call in calls], "aggregate()")
    output = in_step("aggregate()", lambda: aggregate_schema(named, calls, schema))
    sets = None if grouping_sets is None else _read_grouping_sets(grouping_sets, [name for name, _ in named])
    return Aggregate(id, output, child, named, calls, sets)


def _read_call(name: str, spec: Agg | str | tuple[Any, ...], schema: pa.Schema) -> AggregateCall:
    where = f"aggregate(), {name!r}"
    if isinstance(spec, str):
        from qcore.sql.expression_text import parse_aggregate

        return parse_aggregate(spec, name, schema, where)
    if isinstance(spec, tuple) and spec and isinstance(spec[0], str):
        spec = Agg(spec[0], tuple(spec[1:]))
    if not isinstance(spec, Agg):
        raise PlanError(f'{where}: give ("sum", "x"), agg("sum", "x") or "sum(x)", not {spec!r}')
    arguments = tuple(read_expression(argument, schema, where) for argument in spec.arguments)
    condition = None if spec.filter is None else read_condition(spec.filter, schema, f"{where}, filter")
    keys = read_sort_keys(spec.order_by, schema, where) if spec.order_by else ()
    if is_aggregate(spec.function) or not is_aggregate_name(spec.function):
        order = tuple((key.descending, key.nulls_first) for key in keys)
        arguments += tuple(col(key.column) for key in keys)
        call = AggregateCall(name, spec.function, arguments, spec.distinct, condition, order)
    else:
        call = in_step(where, lambda: _by_other_name(name, spec, arguments, condition, keys, schema))
    in_step(where, lambda: aggregate_schema((), (call,), schema))
    return call


def _by_other_name(
    name: str, spec: Agg, arguments: Sequence[Expr], condition: Expr | None, keys: Sequence[SortKey], schema: pa.Schema
) -> AggregateCall:
    """The call of an aggregate by one of its names in SQL. PlanError for one that is computed from others."""
    calls: list[AggregateCall] = []

    def bound(expr: Expr) -> Bound:
        return Bound(expr, expr_type(expr, schema))

    def add(
        function: str, arguments: Sequence[Bound], distinct: bool, filter: Bound | None, order: Sequence[Order]
    ) -> Bound:
        values = tuple(value.expr for value in (*arguments, *(key for key, _, _ in order)))
        where = None if filter is None else filter.expr
        calls.append(AggregateCall(name, function, values, distinct, where, tuple(key[1:] for key in order)))
        return Bound(col(name), aggregate_type(function, [argument.type for argument in arguments]))

    made = bind_aggregate(
        spec.function,
        [bound(argument) for argument in arguments],
        distinct=spec.distinct,
        filter=None if condition is None else bound(condition),
        order=[(bound(col(key.column)), key.descending, key.nulls_first) for key in keys],
        add=add,
    )
    if len(calls) != 1 or not isinstance(made.expr, Column):
        raise PlanError(f"{spec.function} is computed from other aggregates; use it in a query of Session.sql()")
    return calls[0]


def _read_grouping_sets(given: Any, keys: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """For each set the positions of its keys."""
    if given == "rollup":
        return tuple(tuple(range(n)) for n in range(len(keys), -1, -1))
    if given == "cube":
        if len(keys) > CUBE_KEYS_MAX:
            raise PlanError(f"aggregate(): a cube of {len(keys)} keys; the maximum is {CUBE_KEYS_MAX}")
        return tuple(part for n in range(len(keys), -1, -1) for part in combinations(range(len(keys)), n))
    if isinstance(given, str) or not given:
        raise PlanError(f'aggregate(), grouping_sets: give "rollup", "cube" or lists of keys, not {given!r}')
    sets = []
    for names in given:
        names = [names] if isinstance(names, str) else list(names)
        for name in names:
            if name not in keys:
                raise unknown("key", str(name), keys, "aggregate(), grouping_sets")
        sets.append(tuple(sorted({keys.index(name) for name in names})))
    return tuple(sets)
