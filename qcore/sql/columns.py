"""Names in expressions → columns, fields of structs, aliases, parameters of lambdas, columns of outer queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Literal
from qcore.functions.calls import bind_call
from qcore.plan.schema import unknown
from qcore.sql.binder import Binder
from qcore.sql.read_columns import NeedsAllColumns
from qcore.sql.reading import NotBound, identifier, take
from qcore.sql.scope import BindContext, Part, Scope

_DEEPEST = 1 << 30


def bind_column(binder: Binder, node: Any, context: BindContext) -> Bound:
    """The value of a name with one to four parts."""
    parts = column_parts(node)
    found = resolve(binder, context, parts)
    if found is None:
        raise _unknown_column(context, parts)
    return found


def column_parts(node: Any) -> list[Part]:
    """The parts of a Column: catalogue, schema, table, column."""
    name, *around = take(node, "this", "table", "db", "catalog")
    if type(name).__name__ == "Star":
        raise PlanError("t.* is only allowed in a select list; elsewhere name the columns, or count rows with count(*)")
    if type(name).__name__ != "Identifier":
        raise NotBound(node, f"{name.name!r} as a column", "a column has a name; put other letters into double quotes")
    return [identifier(part) for part in reversed(around) if part is not None] + [identifier(name)]


def resolve(binder: Binder, context: BindContext, parts: Sequence[Part], below: int = _DEEPEST) -> Bound | None:
    """The value of a name in a context; None if there is none. Levels from the depth `below` on are skipped."""
    level = context.scope.level
    if level.depth < below:
        found = _in_place(binder, context, parts)
        if found is not None:
            return found
    if level.outer is None:
        return None
    value = resolve(binder, level.outer, parts, min(below, level.ceiling))
    return None if value is None else level.capture(value, binder.names)


def _in_place(binder: Binder, context: BindContext, parts: Sequence[Part]) -> Bound | None:
    first = parts[0]
    if context.parameters and first[0].lower() in context.parameters:
        return _fields(context.parameters[first[0].lower()], parts[1:], binder)
    if len(parts) == 1:
        for is_alias in (context.aliases_first, not context.aliases_first):
            if is_alias:
                found = (
                    None if context.aliases is None or _is_key(context, first) else context.aliases.find(first, context)
                )
            else:
                found = context.scope.find(first)
            if found is not None:
                return found
        return _whole_table(binder, context.scope, parts)
    scope = context.scope
    # With a table in front, then without: t.c before the field c of a column t.
    for n in range(len(parts) - 1, 0, -1):
        found = scope.table_column(parts[:n], parts[n])
        if found is not None:
            return _fields(found, parts[n + 1 :], binder)
    found = scope.find(first)
    if found is None and context.aliases is not None:
        found = context.aliases.find(first, context)
    if found is None or not pa.types.is_struct(found.type):
        return None
    return _fields(found, parts[1:], binder)


def _is_key(context: BindContext, part: Part) -> bool:
    """Whether a name is that of a grouping key, in a clause in which aliases have priority."""
    if not context.aliases_first or context.grouping is None:
        return False
    names = {key.expr.name for _, key in context.grouping.keys if isinstance(key.expr, Column)}
    return any(named.own in names for named in context.scope.rows.columns if named.shown.lower() == part[0].lower())


def _whole_table(binder: Binder, scope: Scope, parts: Sequence[Part]) -> Bound | None:
    """A table's row as a struct."""
    found = scope.tables(parts)
    if len(found) != 1 or not found[0].columns:
        return None
    if binder.is_narrowed:
        raise NeedsAllColumns
    arguments = []
    for named in found[0].columns:
        arguments += [Bound(Literal(named.shown, pa.string()), pa.string()), scope.column(named.own)]
    return bind_call("struct_pack", arguments)


def _fields(value: Bound, parts: Sequence[Part], binder: Binder) -> Bound:
    for name, _ in parts:
        value = bind_call("struct_extract", [value, Bound(Literal(name, pa.string()), pa.string())], binder.dialect)
    return value


def _unknown_column(context: BindContext, parts: Sequence[Part]) -> PlanError:
    written = ".".join(part[0] for part in parts)
    candidates: dict[str, None] = {}
    at: BindContext | None = context
    while at is not None:
        scope = at.scope
        if len(parts) > 1:
            tables = scope.tables(parts[:-1])
            if tables:
                columns = [named.shown for table in tables for named in table.columns]
                return unknown("column", parts[-1][0], columns, f"table {'.'.join(p[0] for p in parts[:-1])!r}")
            candidates |= dict.fromkeys(
                f"{table.parts[-1]}.{named.shown}" for table in scope.rows.tables for named in table.columns
            )
        else:
            candidates |= dict.fromkeys(named.shown for named in scope.rows.columns)
        at = scope.level.outer
    if not candidates:
        return PlanError(f"unknown column {written!r}: no table is named before it")
    where = "the query"
    if len(parts) > 1:
        where = f"the query: there is no table {'.'.join(p[0] for p in parts[:-1])!r} at that place"
    return unknown("column", written, candidates, where)
