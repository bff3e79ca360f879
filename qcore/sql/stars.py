"""Stars of a select list: *, t.*, with EXCLUDE, REPLACE, RENAME and patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.plan.schema import unknown
from qcore.sql.columns import column_parts
from qcore.sql.reading import NotBound, get, identifier, take
from qcore.sql.scope import Named, Scope


@dataclass
class Item:
    """An item of a select list: a node to bind, or a column of a star that is bound already."""

    shown: str
    node: Any
    value: Bound | None = None
    has_alias: bool = False


def is_star(node: Any) -> bool:
    """Whether an item of a select list is a star."""
    if type(node).__name__ == "Column":
        return type(node.this).__name__ == "Star"
    return type(node).__name__ == "Star"


def star_items(node: Any, scope: Scope) -> list[Item]:
    """The columns of a star."""
    star, columns, where = node, scope.rows.columns, "the query"
    if type(node).__name__ == "Column":
        star, table, schema, catalogue = take(node, "this", "table", "db", "catalog")
        parts = [identifier(part) for part in (catalogue, schema, table) if part is not None]
        found = scope.tables(parts)
        written = ".".join(part[0] for part in parts)
        if not found:
            raise unknown("table", written, [one.parts[-1] for one in scope.rows.tables], "the query")
        columns = [named for one in found for named in one.columns]
        where = f"table {written!r}"
    if not columns:
        raise PlanError("* needs a table: there is no FROM" if not scope.rows.tables else f"{where} has no columns")
    excluded, replaced, renamed = take(star, "except", "replace", "rename")
    if get(star, "ilike") is not None:
        raise NotBound(star, "* ILIKE")
    without = {_check(name, columns, where) for name in map(_name, excluded or ())}
    new = {_check(alias_name(one), columns, where): one for one in replaced or ()}
    other = {}
    for one in renamed or ():
        value, alias = take(one, "this", "alias")
        other[_check(_name(value), columns, where)] = identifier(alias)[0]
    items = []
    for named in columns:
        lower = named.shown.lower()
        if lower in without:
            continue
        shown = other.get(lower, named.shown)
        if lower in new:
            (value,) = take(new[lower], "this", "alias")[:1]
            items.append(Item(shown, value, has_alias=True))
        else:
            items.append(Item(shown, node, scope.column(named.own)))
    if not items:
        raise PlanError("* EXCLUDE leaves no column")
    return items


def _name(node: Any) -> str:
    if type(node).__name__ == "Column":
        return column_parts(node)[-1][0]
    return identifier(node)[0] if type(node).__name__ == "Identifier" else str(node.name)


def alias_name(node: Any) -> str:
    """The alias of an Alias node."""
    return identifier(get(node, "alias"))[0]


def _check(name: str, columns: Sequence[Named], where: str) -> str:
    if all(named.shown.lower() != name.lower() for named in columns):
        raise unknown("column", name, [named.shown for named in columns], where)
    return name.lower()
