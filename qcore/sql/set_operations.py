"""UNION, INTERSECT, EXCEPT, queries in brackets, and VALUES."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, Literal, col
from qcore.plan.computed_values import values_of
from qcore.plan.nodes import OrderBy, PlanNode, SortKey
from qcore.plan.projections import add_columns, project
from qcore.plan.set_operations import cast_to_common_types, distinct, make_set_operation, union_all
from qcore.sql.binder import Binder, QueryReader, TableReader
from qcore.sql.limits import limit_rows
from qcore.sql.ordering import read_ordered
from qcore.sql.queries import is_order_by_all
from qcore.sql.reading import NotBound, get, identifier, take
from qcore.sql.scope import BindContext, Environment, Named, Relation, Rows, Scope
from qcore.sql.single_row import one_row
from qcore.sql.subqueries import join_subqueries
from qcore.sql.tables import common_tables, distinct_names, with_alias

_KINDS = {"Union": "union", "Intersect": "intersect", "Except": "except"}


def bind_set_operation(binder: Binder, node: Any, environment: Environment) -> Relation:
    """A chain of set operations, which group from the left; INTERSECT binds more closely than the others."""
    with_, order, limit, offset = (get(node, name) for name in ("with", "order", "limit", "offset"))
    environment = common_tables(binder, with_, environment)
    steps = []
    top = node
    while type(node).__name__ in _KINDS:
        left, right, is_distinct, by_name, *outer = take(
            node, "this", "expression", "distinct", "by_name", "with", "order", "limit", "offset"
        )
        if node is not top and any(part is not None for part in outer):
            break
        steps.append(
            (_KINDS[type(node).__name__], is_distinct is not False and is_distinct is not None, by_name, right)
        )
        node = left
    relation = binder.query(node, environment)
    first = relation
    waiting: list[Relation] = [relation]
    n_columns = len(relation.columns)
    kind_waiting: tuple[str, bool, bool] | None = None
    for name, is_distinct, by_name, right in reversed(steps):
        kind = (name, is_distinct, bool(by_name))
        relation = binder.query(right, environment)
        if not by_name and len(relation.columns) != n_columns:
            binder.blame(right)
        n_columns = len(relation.columns)
        if name == "intersect":
            # Older versions of sqlglot give the three the same precedence.
            waiting[-1] = _combine_inputs(binder, kind, [waiting[-1], relation])
            continue
        if kind_waiting is not None and (kind != kind_waiting or name != "union" or by_name):
            waiting = [_combine_inputs(binder, kind_waiting, waiting)]
        kind_waiting = kind
        waiting.append(relation)
    relation = waiting[0] if kind_waiting is None else _combine_inputs(binder, kind_waiting, waiting)
    relation = order_rows(binder, relation, order, environment, first)
    return limit_rows(binder, relation, limit, offset, environment)


def _combine_inputs(binder: Binder, kind: tuple[str, bool, bool], inputs: Sequence[Relation]) -> Relation:
    name, is_distinct, by_name = kind
    ids, names = binder.ids, binder.names
    if by_name:
        inputs = _by_name(binder, inputs)
    nodes = [binder.exact(relation) for relation in inputs]
    shown = [named.shown for named in inputs[0].columns]
    node: PlanNode
    if name == "union":
        node = union_all(ids, cast_to_common_types(ids, "UNION", nodes))
        node = distinct(ids, node) if is_distinct else node
    else:
        node = make_set_operation(ids, names, name if is_distinct else f"{name}_all", nodes[0], nodes[1])
    return Relation(node, [Named(a, own) for a, own in zip(shown, node.schema.names, strict=True)])


def _by_name(binder: Binder, inputs: Sequence[Relation]) -> list[Relation]:
    """The inputs with all columns of each, matched by name; null for one that an input lacks."""
    wanted: dict[str, str] = {}
    for relation in inputs:
        for named in relation.columns:
            wanted.setdefault(named.shown.lower(), named.shown)
    result = []
    for relation in inputs:
        own = {named.shown.lower(): named.own for named in relation.columns}
        computed: dict[str, Expr] = {}
        columns = []
        for lower, shown in wanted.items():
            name = own.get(lower)
            if name is None:
                name = binder.names.new(shown)
                computed[name] = Literal(None, pa.null())
            columns.append(Named(shown, name))
        node = relation.node if not computed else add_columns(binder.ids.new(), relation.node, computed)
        result.append(Relation(node, columns))
    return result


def order_rows(
    binder: Binder, relation: Relation, order: Any, environment: Environment, first: Relation | None = None
) -> Relation:
    """Order the rows of a query in brackets or of a set operation. The keys are columns of its result, by name or
    number, or expressions over them. A table before a name is a table of the first query.
    """
    if order is None:
        return relation
    (keys,) = take(order, "expressions")
    scope = Scope(Rows(relation.node, [], distinct_names(relation.columns)), environment, binder.dialect)
    context = BindContext(scope, "ORDER BY of a set operation")
    sort: list[SortKey] = []
    computed: dict[str, Expr] = {}
    for key in keys:
        value, descending, nulls_first = read_ordered(key)
        if is_order_by_all(value):
            sort += [SortKey(named.own, descending, nulls_first) for named in relation.columns]
            continue
        expr = _order_value(binder, value, relation, context)
        if isinstance(expr, Column):
            sort.append(SortKey(expr.name, descending, nulls_first))
            continue
        name = binder.names.new("order")
        computed[name] = expr
        sort.append(SortKey(name, descending, nulls_first))
    node = join_subqueries(binder, relation.node, context.subqueries)
    if computed:
        node = add_columns(binder.ids.new(), node, computed)
    by_column = {key.column: key for key in reversed(sort)}
    return Relation(
        OrderBy(
            binder.ids.new(), node.schema, node, tuple(by_column[k] for k in dict.fromkeys(s.column for s in sort))
        ),
        relation.columns,
    )


def _order_value(binder: Binder, node: Any, relation: Relation, context: BindContext) -> Expr:
    if type(node).__name__ == "Literal" and not node.is_string and node.this.isdigit():
        position = int(node.this)
        if not 1 <= position <= len(relation.columns):
            binder.blame(node)
            raise PlanError(f"ORDER BY {position}: the query has {len(relation.columns)} columns")
        return col(relation.columns[position - 1].own)
    if type(node).__name__ == "Column" and get(node, "table") is not None:
        name, _ = identifier(get(node, "this"))
        found = [named.own for named in relation.columns if named.shown.lower() == name.lower()]
        if len(found) == 1:
            return col(found[0])
    return binder.expression(node, context).expr


def bind_brackets(binder: Binder, node: Any, environment: Environment) -> Relation:
    """A query in brackets, with ORDER BY and LIMIT after the brackets."""
    inner, with_, order, limit, offset, *_ = take(node, "this", "with", "order", "limit", "offset", "alias", "joins")
    environment = common_tables(binder, with_, environment)
    if type(inner).__name__ in ("Table", "Lateral", "Unnest"):
        raise NotBound(node, "a table in brackets as a query", "write (FROM t)")
    relation = binder.query(inner, environment)
    relation = order_rows(binder, relation, order, environment)
    return limit_rows(binder, relation, limit, offset, environment)


# --- VALUES ---


def bind_values(binder: Binder, node: Any, environment: Environment) -> Relation:
    """The rows of VALUES, with columns col0, col1, …"""
    rows, order, limit, offset, with_, _ = take(node, "expressions", "order", "limit", "offset", "with", "alias")
    environment = common_tables(binder, with_, environment)
    bound = []
    contexts = []
    for row in rows:
        scope = Scope(Rows(one_row(binder), [], []), environment, binder.dialect)
        context = BindContext(scope, "VALUES")
        contexts.append(context)
        values = take(row, "expressions")[0] or () if type(row).__name__ == "Tuple" else [row]
        bound.append([binder.expression(value, context) for value in values])
    widths = {len(row) for row in bound}
    if len(widths) != 1:
        raise PlanError(f"the rows of VALUES have {' and '.join(map(str, sorted(widths)))} values; give all the same")
    shown = [f"col{n}" for n in range(widths.pop())]
    relation = _values(binder, bound, shown, contexts)
    relation = order_rows(binder, relation, order, environment)
    return limit_rows(binder, relation, limit, offset, environment)


def _values(binder: Binder, bound: list[list[Bound]], shown: list[str], contexts: list[BindContext]) -> Relation:
    if any(context.subqueries for context in contexts):
        inputs = []
        for row, context in zip(bound, contexts, strict=True):
            node = join_subqueries(binder, context.scope.node, context.subqueries)
            inputs.append(
                project(binder.ids.new(), node, [binder.names.new(name) for name in shown], [one.expr for one in row])
            )
        union = union_all(binder.ids, cast_to_common_types(binder.ids, "VALUES", inputs))
        return Relation(union, [Named(a, b) for a, b in zip(shown, union.schema.names, strict=True)])
    types = _common_types(bound)
    own = [binder.names.new(name) for name in shown]
    columns = [Named(a, b) for a, b in zip(shown, own, strict=True)]
    node = values_of([[value.expr for value in row] for row in bound], own, types, binder.ids, binder.names)
    return Relation(node, columns)


def _common_types(bound: list[list[Bound]]) -> list[pa.DataType]:
    from qcore.expression.types import common_type
    from qcore.functions.catalogue import suit_literals

    types = []
    for column in zip(*bound, strict=True):
        _, given = suit_literals("case", [value.expr for value in column], [value.type for value in column])
        types.append(common_type(list(dict.fromkeys(given))))
    return types


def bind_values_table(binder: Binder, node: Any, context: BindContext) -> Rows:
    """VALUES in FROM."""
    relation = bind_values(binder, node, context.scope.environment)
    return with_alias(relation, "valueslist", get(node, "alias"))


READERS: dict[str, QueryReader] = {
    **dict.fromkeys(_KINDS, bind_set_operation),
    "Subquery": bind_brackets,
    "Paren": bind_brackets,
    "Values": bind_values,
}
TABLES: dict[str, TableReader] = {"Values": bind_values_table}
