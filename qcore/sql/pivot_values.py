"""The values of a PIVOT without a list. They name columns, so they are read from the table during planning."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Expr, col
from qcore.functions.casts import bind_cast
from qcore.plan.dependent_joins import replace_dependent_joins
from qcore.plan.naming import NodeIds
from qcore.plan.nodes import Aggregate, Limit, PlanNode, Shared, SharedRead
from qcore.plan.outer_columns import OuterReads
from qcore.plan.projections import project
from qcore.plan.schema import aggregate_schema
from qcore.sql.binder import Binder
from qcore.sql.scope import Environment
from qcore.sql.tables import derived_rows, first_place

#: A pivot has at most so many columns.
COLUMNS_MAX = 4096


def as_text(binder: Binder, value: Bound) -> Bound:
    """The text of a value, by which PIVOT chooses rows if it reads the values from the table."""
    return bind_cast(value, pa.string(), binder.dialect)


def values_in_rows(binder: Binder, element: Any, rows: PlanNode, text: Expr) -> list[str]:
    """The texts that the rows have, sorted. Null is none of them, as in DuckDB. `element` is the element of ON."""
    keys = ((binder.names.new("value"), text),)
    groups = Aggregate(binder.ids.new(), aggregate_schema(keys, (), rows.schema), rows, keys, ())
    # A null and one value too many: then the number of columns is refused.
    return sorted(_read(binder, element, Limit(binder.ids.new(), groups.schema, groups, COLUMNS_MAX + 2)))


def values_of_query(binder: Binder, element: Any, query: Any, environment: Environment) -> list[str]:
    """The texts of the rows of a query in ON c IN (SELECT …), in the query's order."""
    relation, _ = derived_rows(binder, query, first_place(binder, environment))
    if len(relation.columns) != 1:
        raise PlanError(f"PIVOT … IN (SELECT …): the query has {len(relation.columns)} columns; it must have one")
    (named,) = relation.columns
    text = as_text(binder, Bound(col(named.own), relation.node.schema.field(named.own).type))
    return _read(binder, element, project(binder.ids.new(), relation.node, [binder.names.new("value")], [text.expr]))


def _read(binder: Binder, element: Any, plan: PlanNode) -> list[str]:
    """The different values of the plan's only column."""
    # Some queries are bound twice; their values are read once.
    key = ("pivot values", id(element))
    found: list[str] | None = binder.memory.get(key)
    if found is None:
        found = binder.memory[key] = _run(binder, plan)
    return found


def _run(binder: Binder, plan: PlanNode) -> list[str]:
    if binder.read_rows is None:
        raise PlanError("PIVOT without a list of its values reads them from the table; a Session can do that")
    if OuterReads().of(plan):
        raise PlanError(
            "PIVOT without a list of its values reads columns of an outer or recursive query, whose values differ from "
            "row to row; write the list: PIVOT t ON c IN ('a', 'b') USING sum(x)"
        )
    plan = replace_dependent_joins(_with_shared_plans(plan, binder.ids), binder.ids, binder.names)
    found: list[str | None] = binder.read_rows(plan).column(0).to_pylist()
    return [value for value in dict.fromkeys(found) if value is not None]


def _with_shared_plans(plan: PlanNode, ids: NodeIds) -> PlanNode:
    """The plan with the shared subplans that only another part of the query has."""
    held = {node.id for node in plan.walk() if isinstance(node, Shared)}

    def add(node: PlanNode) -> PlanNode:
        if isinstance(node, SharedRead) and node.of not in held:
            held.add(node.of)
            return add(project(ids.new(), node.like, node.schema.names, list(map(col, node.columns))))
        return node.with_children(*map(add, node.children)) if node.children else node

    return add(plan) if any(isinstance(node, SharedRead) and node.of not in held for node in plan.walk()) else plan
