"""Rows of VALUES that are not all literals: a projection computes them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.expression.tree import Call, Cast, Expr, Literal, children, col, rebuild, substitute
from qcore.expression.types import common_type
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Project, Values
from qcore.plan.schema import project_schema
from qcore.plan.set_operations import cast_columns, union_all

# Functions whose arguments may be columns as well as literals.
_OF_COLUMNS = frozenset({"list_value", "negate", "add", "subtract", "multiply", "divide", "modulo"})


def computed_values(
    rows: Sequence[Sequence[Expr]],
    columns: Sequence[str],
    types: Sequence[pa.DataType],
    ids: NodeIds,
    names: ColumnNames,
) -> PlanNode:
    """A node of these rows of constant expressions. Its columns have these names, and these types where no floats are
    computed for a column of decimals.

    Rows that are computed in the same way, of other literals, are one projection over a table of the literals: a
    thousand of them are no thousand inputs of a union.
    """
    groups: dict[str, tuple[list[Expr], list[list[Literal]]]] = {}
    for row in rows:
        literals: list[Literal] = []
        shape = [_with_columns(expr, literals) for expr in row]
        key = repr((shape, [literal.type for literal in literals]))
        groups.setdefault(key, (shape, []))[1].append(literals)
    inputs: list[PlanNode] = []
    for shape, found in groups.values():
        own = [names.new(name) for name in columns] if inputs else list(columns)
        inputs.append(_projection(shape, found, own, ids, names))
    types = list(types)
    for place, type_ in enumerate(types):
        floats = {made for node in inputs if pa.types.is_floating(made := node.schema.types[place])}
        if pa.types.is_decimal(type_) and floats:
            # Decimals, as the planner would have it, could not hold them all.
            types[place] = common_type(list(floats))
    return union_all(ids, [cast_columns(ids, node, types) for node in inputs])


def _projection(
    shape: Sequence[Expr], rows: Sequence[Sequence[Literal]], own: Sequence[str], ids: NodeIds, names: ColumnNames
) -> PlanNode:
    """The expressions over a table of the literals that stand for their columns."""
    given = {
        names.new("value"): pa.array([literal.value for literal in of], of[0].type) for of in zip(*rows, strict=True)
    } or {names.new("row"): pa.nulls(len(rows), pa.bool_())}
    data = pa.table(given)
    by_place: dict[str, Expr] = {str(place): col(name) for place, name in enumerate(given)}
    expressions = tuple(substitute(expr, by_place) for expr in shape)
    node = Values(ids.new(), data.schema, data)
    return Project(ids.new(), project_schema(own, expressions, data.schema), node, expressions)


def _with_columns(expr: Expr, literals: list[Literal]) -> Expr:
    """The expression with columns, named by their places among `literals`, for literals in it."""
    if isinstance(expr, Literal):
        literals.append(expr)
        return col(str(len(literals) - 1))
    if isinstance(expr, Cast) or (isinstance(expr, Call) and expr.function in _OF_COLUMNS):
        return rebuild(expr, tuple(_with_columns(part, literals) for part in children(expr)))
    return expr
