"""VALUES: a table of literals, or projections that compute the other expressions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.expression.tree import Call, Cast, Expr, Literal, children, col, rebuild, substitute
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import PlanNode, Values
from qcore.plan.projections import project
from qcore.plan.set_operations import cast_columns, union_all

# Functions whose arguments may be columns as well as literals.
_OF_COLUMNS = frozenset({"list_value", "negate", "add", "subtract", "multiply", "divide", "modulo"})


def values_of(
    rows: Sequence[Sequence[Expr]],
    columns: Sequence[str],
    types: Sequence[pa.DataType],
    ids: NodeIds,
    names: ColumnNames,
) -> PlanNode:
    """A node of these rows of constant expressions, with columns of these names and types."""
    if all(isinstance(expr, Literal) for row in rows for expr in row):
        try:
            arrays = [
                pa.array([row[n].value for row in rows], type_)  # type: ignore[attr-defined]
                for n, type_ in enumerate(types)
            ]
        except (pa.ArrowException, TypeError, ValueError):
            pass  # Casts say what does not fit.
        else:
            data = pa.table(arrays, schema=pa.schema(list(zip(columns, types, strict=True))))
            return Values(ids.new(), data.schema, data)
    return _project_rows(rows, columns, types, ids, names)


def _project_rows(
    rows: Sequence[Sequence[Expr]],
    columns: Sequence[str],
    types: Sequence[pa.DataType],
    ids: NodeIds,
    names: ColumnNames,
) -> PlanNode:
    """Projections of these expressions.

    Rows that only differ in their literals are one projection over a table of the literals. So a thousand rows do not
    become a thousand inputs of a union.
    """
    groups: dict[str, tuple[list[Expr], list[list[Literal]]]] = {}
    for row in rows:
        literals: list[Literal] = []
        shape = [_replace_literals(expr, literals) for expr in row]
        key = repr((shape, [literal.type for literal in literals]))
        groups.setdefault(key, (shape, []))[1].append(literals)
    inputs: list[PlanNode] = []
    for shape, found in groups.values():
        own = [names.new(name) for name in columns] if inputs else list(columns)
        inputs.append(_projection(shape, found, own, ids, names))
    return union_all(ids, [cast_columns(ids, node, types) for node in inputs])


def _projection(
    shape: Sequence[Expr], rows: Sequence[Sequence[Literal]], own: Sequence[str], ids: NodeIds, names: ColumnNames
) -> PlanNode:
    """The expressions of `shape` over a table of their literals."""
    given = {
        names.new("value"): pa.array([literal.value for literal in of], of[0].type) for of in zip(*rows, strict=True)
    } or {names.new("row"): pa.nulls(len(rows), pa.bool_())}
    data = pa.table(given)
    columns: dict[str, Expr] = {str(position): col(name) for position, name in enumerate(given)}
    node = Values(ids.new(), data.schema, data)
    return project(ids.new(), node, own, [substitute(expr, columns) for expr in shape])


def _replace_literals(expr: Expr, literals: list[Literal]) -> Expr:
    """The expression with a column in place of each literal, named by the literal's position in `literals`."""
    if isinstance(expr, Literal):
        literals.append(expr)
        return col(str(len(literals) - 1))
    if isinstance(expr, Cast) or (isinstance(expr, Call) and expr.function in _OF_COLUMNS):
        return rebuild(expr, tuple(_replace_literals(part, literals) for part in children(expr)))
    return expr
