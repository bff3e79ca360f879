"""Subqueries in expressions: a value, EXISTS, IN, ANY and ALL, ARRAY. Each becomes a dependent join.

A subquery is bound together with its expression. It is joined to the rows below the expression when the clauses before
it are complete. Until then it is in the list of its BindContext.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, Literal, OuterColumn, call, col, walk
from qcore.expression.types import common_type
from qcore.functions.aggregates import aggregate_type
from qcore.functions.calls import bind_call
from qcore.functions.casts import bind_cast
from qcore.functions.tables.lists import all_of, any_of
from qcore.plan.nodes import (
    Aggregate,
    AggregateCall,
    DependentJoin,
    Limit,
    PlanNode,
)
from qcore.plan.projections import add_columns, project
from qcore.plan.schema import LEFT_ONLY, MARK_KINDS, join_schema
from qcore.record import record
from qcore.sql.binder import Binder, ExpressionReader
from qcore.sql.expressions import bind_binary, bind_in_list
from qcore.sql.ordering import sorted_rows
from qcore.sql.random_columns import RandomValue
from qcore.sql.reading import get, take
from qcore.sql.scope import BindContext, Environment, Level, Relation

_COMPARISONS = {
    "EQ": "equal", "NEQ": "not_equal", "LT": "less", "LTE": "less_equal", "GT": "greater", "GTE": "greater_equal",
}  # fmt: skip
_OPPOSITES = {
    "equal": "not_equal", "not_equal": "equal", "less": "greater_equal", "less_equal": "greater",
    "greater": "less_equal", "greater_equal": "less",
}  # fmt: skip
_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_QUERIES = frozenset(
    {"Select", "Union", "Intersect", "Except", "Subquery", "Values", "SetOperation", "Pivot", "Summarize", "Describe"}
)

Rewrite = Callable[[Expr], Expr]


@record
class Joined:
    """A subquery to be joined below an expression. `captured` are the values of its outer columns, and `output` is the
    column that a mark join adds.
    """

    kind: str
    right: PlanNode
    captured: dict[str, Bound]
    conditions: tuple[Expr, ...] = ()
    output: str = ""


def as_it_is(expr: Expr) -> Expr:
    """Return the expression unchanged."""
    return expr


def join_subqueries(binder: Binder, node: PlanNode, waiting: Sequence[Any], rewrite: Rewrite = as_it_is) -> PlanNode:
    """Return the node with the waiting subqueries and random columns added. `rewrite` translates their expressions to
    expressions over the node.
    """
    for one in waiting:
        if isinstance(one, RandomValue):
            node = one.add_to(node, binder.ids)
            continue
        node, arguments = _outer_columns(binder, node, one.captured, rewrite)
        conditions = [rewrite(condition) for condition in one.conditions]
        node = dependent_join(binder, one.kind, node, one.right, arguments, conditions, one.output)
    return node


def dependent_join(
    binder: Binder,
    kind: str,
    left: PlanNode,
    right: PlanNode,
    arguments: tuple[tuple[str, str], ...],
    conditions: Sequence[Expr] = (),
    output: str = "",
) -> PlanNode:
    """A dependent join, or an ordinary one if the right side reads no column of the left."""
    if kind in LEFT_ONLY:
        schema = left.schema
    elif kind in MARK_KINDS:
        schema = left.schema.append(pa.field(output, pa.bool_()))
    else:
        schema = join_schema("inner", left.schema, right.schema)
    return DependentJoin(binder.ids.new(), schema, left, right, arguments, kind, tuple(conditions))


def _outer_columns(
    binder: Binder, node: PlanNode, captured: dict[str, Bound], rewrite: Rewrite
) -> tuple[PlanNode, tuple[tuple[str, str], ...]]:
    """Return the node with the captured values as columns, and pairs of (outer column, the node's column)."""
    arguments, computed = [], {}
    for name, value in captured.items():
        expr = rewrite(value.expr)
        if isinstance(expr, Column):
            arguments.append((name, expr.name))
            continue
        column = binder.names.new(name)
        computed[column] = expr
        arguments.append((name, column))
    if computed:
        node = add_columns(binder.ids.new(), node, computed)
    return node, tuple(arguments)


# --- binding ---


def is_query(node: Any) -> bool:
    """Whether a node is a query, perhaps in brackets."""
    while type(node).__name__ in ("Paren", "Subquery"):
        inner = node.this
        if type(inner).__name__ not in _QUERIES | {"Paren"}:
            return False
        node = inner
    return type(node).__name__ in _QUERIES


def bind_query_in(binder: Binder, node: Any, context: BindContext) -> tuple[Relation, Level]:
    """A subquery of an expression in this context, and the level that has its outer columns."""
    while type(node).__name__ == "Paren":
        (node,) = take(node, "this")
    outer = context.scope.level
    level = Level(context, outer.depth + 1)
    return binder.query(node, Environment(level, context.scope.environment.common)), level


def bind_value(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A scalar subquery. If GROUP BY has the same subquery, its value is the key."""
    if context.grouping is not None:
        for known, value in binder.memory.get(("values of keys", id(context.grouping.subqueries)), ()):
            if known == node:
                return value
    relation, level = bind_query_in(binder, node, context)
    value = join_value(binder, relation, level, context)
    if context.clause == "GROUP BY":
        binder.memory.setdefault(("values of keys", id(context.subqueries)), []).append((node, value))
    return value


def join_value(binder: Binder, relation: Relation, level: Level, context: BindContext) -> Bound:
    """The value of a query of one column and at most one row."""
    if len(relation.columns) != 1:
        raise PlanError(f"a scalar subquery must give one column, not {len(relation.columns)}")
    right = binder.exact(relation)
    context.subqueries.append(Joined("scalar", right, level.captured))
    return Bound(Column(right.schema.names[0]), right.schema.types[0])


def exists_query(node: Any) -> Any:
    """The query of EXISTS; None for another node. The parser reads EXISTS of a query in brackets as a function."""
    if type(node).__name__ == "Exists":
        return take(node, "this")[0]
    if type(node).__name__ == "Anonymous" and isinstance(node.this, str) and node.this.lower() == "exists":
        (arguments,) = take(node, "this", "expressions")[1:]
        return arguments[0] if len(arguments) == 1 and is_query(arguments[0]) else None
    return None


def bind_exists(binder: Binder, node: Any, context: BindContext) -> Bound:
    """EXISTS as a value."""
    relation, level = bind_query_in(binder, exists_query(node), context)
    right = relation.node
    if not level.captured:
        first = Limit(binder.ids.new(), right.schema, right, 1)
        name = binder.names.new("count")
        count = Aggregate(binder.ids.new(), pa.schema([(name, pa.int64())]), first, (), (AggregateCall(name, "count"),))
        context.subqueries.append(Joined("scalar", count, {}))
        return Bound(call("greater", col(name), 0), pa.bool_())
    mark = binder.names.new("exists")
    context.subqueries.append(Joined("mark", right, level.captured, (), mark))
    return Bound(Column(mark), pa.bool_())


def bind_in(binder: Binder, node: Any, context: BindContext) -> Bound:
    """x IN (subquery) or IN a list, as a value."""
    query = _query_of_in(node)
    if query is None:
        return bind_in_list(binder, node, context)
    value, *_ = take(node, "this", "query", "expressions")
    relation, level = bind_query_in(binder, query, context)
    conditions = _equalities(binder, value, relation, context)
    mark = binder.names.new("mark")
    context.subqueries.append(Joined("null_aware_mark", relation.node, level.captured, conditions, mark))
    return Bound(Column(mark), pa.bool_())


def _query_of_in(node: Any) -> Any:
    """The subquery of an In node; None for a list. The parser puts VALUES into the list."""
    query = get(node, "query")
    listed: list[Any] = get(node, "expressions") or []
    return listed[0] if query is None and len(listed) == 1 and type(listed[0]).__name__ == "Values" else query


def _equalities(binder: Binder, value: Any, relation: Relation, context: BindContext) -> tuple[Expr, ...]:
    """The conditions of x IN (subquery)."""
    while type(value).__name__ == "Paren":
        (value,) = take(value, "this")
    schema, columns = relation.node.schema, relation.columns
    types = [schema.field(named.own).type for named in columns]
    parts = _row_parts(value)
    if parts is not None and len(columns) != 1:
        if len(parts) != len(columns):
            raise PlanError(f"{len(parts)} values cannot be IN a subquery of {len(columns)} columns")
        values = [binder.expression(part, context) for part in parts]
    else:
        if len(columns) != 1:
            raise PlanError(f"the subquery of IN must give one column, not {len(columns)}")
        values = [binder.expression(value, context)]
    held = [Bound(Column(named.own), type_) for named, type_ in zip(columns, types, strict=True)]
    return tuple(
        bind_call("equal", _alike(one, other, binder), binder.dialect).expr
        for one, other in zip(values, held, strict=True)
    )


def _row_parts(node: Any) -> list[Any] | None:
    """The values of (a, b) or row(a, b); None for another node."""
    if type(node).__name__ == "Tuple":
        return list(take(node, "expressions")[0])
    if type(node).__name__ == "Anonymous" and isinstance(node.this, str) and node.this.lower() == "row":
        return list(take(node, "this", "expressions")[1] or ())
    return None


def _alike(a: Bound, b: Bound, binder: Binder) -> list[Bound]:
    """Two values, cast to one type if they are nested, because nested keys of a join must have the same type."""
    if a.type == b.type or not (pa.types.is_nested(a.type) and pa.types.is_nested(b.type)):
        return [a, b]
    type_ = common_type([a.type, b.type])
    return [bind_cast(one, type_, binder.dialect) for one in (a, b)]


def bind_comparison(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A comparison, also with ANY or ALL of a subquery or a list."""
    left, right = take(node, "this", "expression")
    function = _COMPARISONS[type(node).__name__]
    if _quantifier(left) is not None:
        left, right, function = right, left, _SWAPPED.get(function, function)
    quantifier = _quantifier(right)
    if quantifier is None:
        return bind_binary(binder, node, context)
    held, is_all = quantifier
    if is_query(held):
        return read_quantified(binder, left, function, held, is_all, context)
    compare = all_of if is_all else any_of
    return compare(function, binder.expression(left, context), binder.expression(held, context))


def _quantifier(node: Any) -> tuple[Any, bool] | None:
    """The operand of ANY or ALL, and whether it is ALL; None for another node."""
    kind = type(node).__name__
    if kind in ("Any", "All"):
        return take(node, "this")[0], kind == "All"
    if kind == "Anonymous" and isinstance(node.this, str) and node.this.lower() in ("any", "all", "some"):
        (arguments,) = take(node, "this", "expressions")[1:]
        return (arguments[0], node.this.lower() == "all") if len(arguments) == 1 else None
    return None


def read_quantified(binder: Binder, value: Any, function: str, query: Any, is_all: bool, context: BindContext) -> Bound:
    """x < ANY (subquery), x < ALL (subquery): whether the comparison is true for some row or for all rows.

    The result is null if it depends on nulls. ALL is computed as: the opposite comparison is true for no row.
    """
    relation, level = bind_query_in(binder, query, context)
    while type(value).__name__ == "Paren":
        (value,) = take(value, "this")
    mark = binder.names.new("mark")
    if function == ("not_equal" if is_all else "equal"):
        conditions = _equalities(binder, value, relation, context)
        context.subqueries.append(Joined("null_aware_mark", relation.node, level.captured, conditions, mark))
        return Bound(call("not", col(mark)) if is_all else Column(mark), pa.bool_())
    schema = relation.node.schema
    held = [Bound(Column(named.own), schema.field(named.own).type) for named in relation.columns]
    parts = _row_parts(value)
    if parts is not None:
        if len(parts) != len(held):
            raise PlanError(f"{len(parts)} values cannot be compared with a subquery of {len(held)} columns")
        outer = bind_call("row", [binder.expression(part, context) for part in parts], binder.dialect)
        inner = bind_call("row", held, binder.dialect)
    else:
        if len(held) != 1:
            raise PlanError(f"the subquery of {'ALL' if is_all else 'ANY'} must give one column, not {len(held)}")
        outer, (inner,) = binder.expression(value, context), held
    found = bind_call(_OPPOSITES[function] if is_all else function, [outer, inner], binder.dialect)
    context.subqueries.append(Joined("null_aware_mark", relation.node, level.captured, (found.expr,), mark))
    return Bound(call("not", col(mark)) if is_all else Column(mark), pa.bool_())


def bind_array(binder: Binder, query: Any, context: BindContext) -> Bound:
    """ARRAY(subquery): the values of the subquery in its order; an empty list if there are none."""
    relation, level = bind_query_in(binder, query, context)
    if len(relation.columns) != 1:
        raise PlanError(
            f"the subquery of ARRAY must give one column, not {len(relation.columns)}; make a row of several: row(a, b)"
        )
    own = relation.columns[0].own
    node, sort_keys = sorted_rows(relation.node)
    keys: tuple[Expr, ...] = tuple(col(key.column) for key in sort_keys)
    order = tuple((key.descending, key.nulls_first) for key in sort_keys)
    of = node.schema.field(own).type
    type_ = aggregate_type("array_agg", [of])
    name, value = binder.names.new("values"), binder.names.new("list")
    one = AggregateCall(name, "array_agg", (col(own), *keys), False, None, order)
    grouped = Aggregate(binder.ids.new(), pa.schema([(name, type_)]), node, (), (one,))
    filled = call("coalesce", col(name), Literal([], type_))
    right = project(binder.ids.new(), grouped, [value], [filled])
    context.subqueries.append(Joined("scalar", right, level.captured))
    return Bound(Column(value), type_)


# --- conditions ---


def bind_conjunct(binder: Binder, node: Any, context: BindContext) -> Bound | None:
    """A conjunct of a filter. EXISTS, IN and their negations become semi and anti joins. The result is then None,
    because no condition remains.
    """
    negated, inner = False, node
    while type(inner).__name__ in ("Paren", "Not"):
        negated ^= type(inner).__name__ == "Not"
        (inner,) = take(inner, "this")
    kind = type(inner).__name__
    try:
        query = exists_query(inner)
        if query is not None:
            relation, level = bind_query_in(binder, query, context)
            joined = Joined("left_anti" if negated else "left_semi", relation.node, level.captured)
            context.subqueries.append(joined)
            return None
        query = _query_of_in(inner) if kind == "In" else None
        if query is not None:
            value = take(inner, "this", "query", "expressions")[0]
            _filter_by_in(binder, value, query, negated, context)
            return None
        if kind in ("EQ", "NEQ"):
            left, right = take(inner, "this", "expression")
            is_any = type(right).__name__ == ("Any" if kind == "EQ" else "All")
            if is_any and is_query(right.this) and type(left).__name__ != "Tuple":
                _filter_by_in(binder, left, take(right, "this")[0], negated ^ (kind == "NEQ"), context)
                return None
    except PlanError:
        binder.blame(inner)
        raise
    return binder.expression(node, context)


def _filter_by_in(binder: Binder, value: Any, query: Any, negated: bool, context: BindContext) -> None:
    relation, level = bind_query_in(binder, query, context)
    conditions = _equalities(binder, value, relation, context)
    kind = "null_aware_anti" if negated else "left_semi"
    context.subqueries.append(Joined(kind, relation.node, level.captured, conditions))


def outer_columns_only(values: Sequence[Bound]) -> bool:
    """Whether expressions read only outer columns."""
    parts = [part for value in values for part in walk(value.expr)]
    return any(isinstance(part, OuterColumn) for part in parts) and not any(isinstance(part, Column) for part in parts)


READERS: dict[str, ExpressionReader] = {
    "Subquery": bind_value,
    "Select": bind_value,
    "Exists": bind_exists,
    "In": bind_in,
    **dict.fromkeys(_COMPARISONS, bind_comparison),
}
