"""unnest, range and generate_series: lists that become rows, among the tables and in a select list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Expr, column_names
from qcore.expression.types import plain
from qcore.functions.calls import bind_call
from qcore.plan.nodes import PlanNode, Unnest
from qcore.plan.projections import add_columns, project
from qcore.plan.schema import element_type, unnest_schema
from qcore.record import record
from qcore.sql.binder import Binder
from qcore.sql.reading import NotBound, clause_name, get, identifier, take
from qcore.sql.scope import BindContext, Named, Rows, TableNames
from qcore.sql.single_row import one_row
from qcore.sql.subqueries import Rewrite, join_subqueries

_SERIES = ("range", "generate_series")
_TABLE_FUNCTIONS = "there are unnest, range, generate_series, and those that read files, as read_parquet"


@record(slots=True)
class UnnestedRows(Rows):
    """Elements of lists that are columns of the tables before: they are unnested in place."""

    lists: list[Bound] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    ordinality: str | None = None
    subqueries: list[Any] = field(default_factory=list)


class Unnested:
    """The unnest() calls of one select list. Their lists are unnested in parallel."""

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self._lists: dict[str, Bound] = {}

    @property
    def outputs(self) -> list[str]:
        """The columns of elements."""
        return list(self._lists)

    def add(self, value: Bound) -> Bound:
        """The elements of a list as a column."""
        of = _element(value)
        name = self._binder.names.new("unnest")
        self._lists[name] = value
        return Bound(Column(name), of)

    def node(self, node: PlanNode, rewrite: Rewrite) -> PlanNode:
        """The rows with a row for each element."""
        if not self._lists:
            return node
        lists = {name: Bound(rewrite(value.expr), value.type) for name, value in self._lists.items()}
        return unnest_lists(self._binder, node, list(lists.values()), list(lists), None, False)


def unnest_lists(
    binder: Binder,
    node: PlanNode,
    lists: Sequence[Bound],
    elements: Sequence[str],
    ordinality: str | None,
    outer: bool,
    only: bool = False,
) -> PlanNode:
    """The node's rows with a row for each element. With `only` the node's columns are dropped."""
    columns: dict[str, Expr] = {}
    for value in lists:
        columns[binder.names.new("list")] = value.expr
    if only:
        node = project(binder.ids.new(), node, list(columns), list(columns.values()))
    else:
        node = add_columns(binder.ids.new(), node, columns)
    pairs = tuple(zip(columns, elements, strict=True))
    return Unnest(binder.ids.new(), unnest_schema(node.schema, pairs, ordinality), node, pairs, outer, ordinality)


def _element(value: Bound) -> pa.DataType:
    if pa.types.is_null(value.type):
        raise PlanError("unnest of NULL: cast it to a list type")
    of = element_type(plain(value.type))
    if of is None:
        raise PlanError(f"unnest takes a list or a map, not {value.type}")
    return of


def bind_unnest(binder: Binder, node: Any, context: BindContext) -> Rows:
    """UNNEST(l, …) [WITH ORDINALITY] among the tables."""
    lists, alias, offset = take(node, "expressions", "alias", "offset")
    return bind_lists(binder, lists, ["unnest"] * len(lists), "unnest", alias, offset, context)


def bind_table_function(binder: Binder, node: Any, function: Any, alias: Any, context: BindContext) -> Rows:
    """range(…), generate_series(…) or unnest(…) among the tables."""
    if type(function).__name__ != "Anonymous":
        raise NotBound(node, f"{clause_name(function)} as a table", _TABLE_FUNCTIONS)
    name, arguments = take(function, "this", "expressions")
    lower = str(name).lower()
    ordinality = get(node, "ordinality")
    if lower == "unnest":
        return bind_lists(binder, arguments, ["unnest"] * len(arguments), "unnest", alias, ordinality, context)
    if lower not in _SERIES:
        raise NotBound(node, f"the table function {name}", _TABLE_FUNCTIONS)
    values = [binder.expression(argument, context) for argument in arguments]
    made = bind_call(lower, values, binder.dialect)
    return _rows(binder, [made], [lower], lower, alias, ordinality, context)


def bind_lists(
    binder: Binder, lists: Sequence[Any], shown: list[str], name: str, alias: Any, offset: Any, context: BindContext
) -> Rows:
    """The elements of lists as a table."""
    values = []
    for one in lists:
        value = binder.expression(one, context)
        _element(value)
        values.append(value)
    return _rows(binder, values, shown, name, alias, offset, context)


def _rows(
    binder: Binder, values: list[Bound], shown: list[str], name: str, alias: Any, offset: Any, context: BindContext
) -> Rows:
    if alias is not None:
        own_name, given = take(alias, "this", "columns")
        name = name if own_name is None else identifier(own_name)[0]
        names = [identifier(one)[0] for one in given or ()]
        if len(names) > len(shown) + bool(offset):
            raise PlanError(f"{name!r} has {len(shown)} columns, and {len(names)} names are given")
        shown[: len(names)] = names[: len(shown)]
        if len(names) > len(shown) and offset is True:
            offset = given[-1]
    elements = [binder.names.new(one) for one in shown]
    columns = [Named(a, b) for a, b in zip(shown, elements, strict=True)]
    ordinality = None
    if offset:
        word = "ordinality" if offset is True else identifier(offset)[0]
        ordinality = binder.names.new(word)
        columns.append(Named(word, ordinality))
    tables = [TableNames((name,), tuple(columns))]
    reads = {column for value in values for column in column_names(value.expr)}
    waiting, context.subqueries = context.subqueries, []
    for one in waiting:
        reads |= {column for value in getattr(one, "captured", {}).values() for column in column_names(value.expr)}
    reads -= {column for one in waiting if hasattr(one, "right") for column in one.right.schema.names}
    if reads:
        return UnnestedRows(context.scope.rows.node, tables, columns, values, elements, ordinality, waiting)
    node = join_subqueries(binder, one_row(binder), waiting)
    unnested = unnest_lists(binder, node, values, elements, ordinality, False, only=True)
    return Rows(unnested, tables, columns)


def place_elements(binder: Binder, left: PlanNode, right: UnnestedRows, outer: bool) -> PlanNode:
    """The left rows with a row for each element of their lists."""
    node = join_subqueries(binder, left, right.subqueries)
    return unnest_lists(binder, node, right.lists, right.elements, right.ordinality, outer)
