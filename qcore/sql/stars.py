"""Stars of a select list: *, t.*, with EXCLUDE, REPLACE, RENAME and patterns; and COLUMNS(…)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Literal
from qcore.functions.calls import bind_call
from qcore.functions.dialect import Dialect
from qcore.plan.schema import unknown
from qcore.record import record
from qcore.sql.binder import Binder, ExpressionReader
from qcore.sql.columns import column_parts
from qcore.sql.read_columns import NeedsAllColumns
from qcore.sql.reading import NotBound, get, identifier, take
from qcore.sql.scope import BindContext, Named, Part, Scope

_PATTERNS = frozenset({"Like", "ILike", "SimilarTo", "Glob"})


@record
class Item:
    """An item of a select list: a node to bind, or a column of a star that is bound already."""

    shown: str
    node: Any
    value: Bound | None = None
    has_alias: bool = False


def is_star(node: Any) -> bool:
    """Whether an item of a select list is a star, perhaps with a pattern."""
    kind = type(node).__name__
    if kind in _PATTERNS or kind == "Not":
        return is_star(get(node, "this"))
    if kind == "Column":
        return type(node.this).__name__ == "Star"
    return kind == "Star"


def star_items(node: Any, scope: Scope, dialect: Dialect) -> list[Item]:
    """The columns of a star."""
    negated = False
    if type(node).__name__ == "Not":
        (node,) = take(node, "this")
        negated = True
    if type(node).__name__ in _PATTERNS:
        star, pattern, negate = take(node, "this", "expression", "negate")
        keep = _matcher(type(node).__name__, pattern, dialect)
        items = [item for item in _star_items(star, scope, dialect) if keep(item.shown) != (negated ^ bool(negate))]
        return _some(items, pattern)
    if negated:
        raise NotBound(node, "NOT *", "write NOT COLUMNS(*), or * NOT LIKE 'pattern'")
    return _star_items(node, scope, dialect)


def _star_items(node: Any, scope: Scope, dialect: Dialect) -> list[Item]:
    if not scope.has_all_columns:
        raise NeedsAllColumns
    star, columns, where = node, scope.rows.columns, "the query"
    if type(node).__name__ == "Column":
        star, table, schema, catalogue = take(node, "this", "table", "db", "catalog")
        parts = [identifier(part) for part in (catalogue, schema, table) if part is not None]
        found = scope.tables(parts)
        written = ".".join(part[0] for part in parts)
        if not found:
            fields = _fields_of(scope, parts)
            if fields is not None:
                return fields
            raise unknown("table", written, [one.parts[-1] for one in scope.rows.tables], "the query")
        scope.check_table(parts)
        columns = list(found[0].columns)
        where = f"table {written!r}"
    if not columns:
        raise PlanError("* needs a table: there is no FROM" if not scope.rows.tables else f"{where} has no columns")
    excluded, replaced, renamed, ilike = take(star, "except", "replace", "rename", "ilike")
    without = {_check(name, columns, where) for name in map(_name, excluded or ())}
    new = {_check(alias_name(one), columns, where): one for one in replaced or ()}
    other = {}
    for one in renamed or ():
        value, alias = take(one, "this", "alias")
        other[_check(_name(value), columns, where)] = identifier(alias)[0]
    for lower in (*new, *other):
        if sum(named.shown.lower() == lower for named in columns) > 1:
            raise PlanError(f"* with changes has {lower!r} of several tables; name the columns")
    keep = None if ilike is None else _matcher("ILike", ilike, dialect)
    items = []
    for named in columns:
        lower = named.shown.lower()
        if lower in without or (keep is not None and not keep(named.shown)):
            continue
        shown = other.get(lower, named.shown)
        if lower in new:
            value, _ = take(new[lower], "this", "alias")
            items.append(Item(shown, value, has_alias=True))
        else:
            items.append(Item(shown, node, scope.column(named.own)))
    if keep is not None:
        return _some(items, ilike)
    if not items:
        raise PlanError("* EXCLUDE removes all columns")
    return items


def _fields_of(scope: Scope, parts: Sequence[Part]) -> list[Item] | None:
    """The fields of a struct, as s.* names them."""
    value = scope.find(parts[0]) if len(parts) == 1 else None
    if value is None or not pa.types.is_struct(value.type):
        return None
    names = [field.name for field in value.type]
    return [
        Item(name, None, bind_call("struct_extract", [value, Bound(Literal(name, pa.string()), pa.string())]))
        for name in names
    ]


def _some(items: list[Item], pattern: Any) -> list[Item]:
    if not items:
        raise PlanError(f"no column's name matches the pattern of * {pattern.name!r}")
    return items


def _matcher(kind: str, pattern: Any, dialect: Dialect) -> Callable[[str], bool]:
    """Whether a name matches the pattern of a star."""
    if type(pattern).__name__ != "Literal" or not pattern.is_string:
        raise NotBound(pattern, "a pattern of * that is computed", "write a text: * LIKE 'a%'")
    text, flags = str(pattern.this), re.DOTALL
    if kind == "Glob":
        written = fnmatch.translate(text)
    elif kind == "SimilarTo" and dialect.similar_to == "regexp":
        written = text
    elif kind == "SimilarTo":
        written = text.replace("%", ".*").replace("_", ".")
    else:
        written = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in text)
        flags |= re.IGNORECASE if kind == "ILike" else 0
    try:
        compiled = re.compile(written, flags)
    except re.error as error:
        raise PlanError(f"SIMILAR TO {text!r}: {error}") from None
    return lambda name: compiled.fullmatch(name) is not None


# --- COLUMNS ---


def columns_calls(node: Any) -> list[Any]:
    """The calls of COLUMNS in an expression."""
    return [
        part
        for part in node.walk()
        if type(part).__name__ == "Anonymous" and isinstance(part.this, str) and part.this.lower() == "columns"
    ]


def each_column(node: Any, calls: Sequence[Any], scope: Scope, dialect: Dialect) -> list[tuple[str, Any]]:
    """The expression for each of the columns that its COLUMNS calls choose, and the column's name."""
    chosen = [_choose_columns(call, scope, dialect) for call in calls]
    if any(names != chosen[0] for names in chosen):
        written = "), COLUMNS(".join(sorted({call.expressions[0].sql() for call in calls}))
        raise PlanError(f"COLUMNS({written}) in one expression choose different columns")
    columns = [named.shown for named in scope.rows.columns]
    result = []
    for name, own in chosen[0]:
        if sum(shown.lower() == name.lower() for shown in columns) > 1:
            raise PlanError(f"COLUMNS chooses {name!r} of several tables; name the columns")
        result.append((name, _with_column(node, own)))
    return result


def _choose_columns(call: Any, scope: Scope, dialect: Dialect) -> list[tuple[str, str]]:
    """The names, shown and in the plan, of the columns that one COLUMNS call chooses."""
    (arguments,) = take(call, "this", "expressions")[1:]
    if len(arguments) != 1:
        raise PlanError("COLUMNS takes one argument: a pattern, a list of names or a star")
    (argument,) = arguments
    columns = [(named.shown, named.own) for named in scope.rows.columns]
    if is_star(argument):
        items = star_items(argument, scope, dialect)
        if any(item.value is None for item in items):
            raise PlanError("COLUMNS(* REPLACE (…)) is not supported; write * REPLACE (…)")
        return [(item.shown, item.value.expr.name) for item in items]  # type: ignore[union-attr]
    if type(argument).__name__ == "Literal" and argument.is_string:
        try:
            pattern = re.compile(argument.this)
        except re.error as error:
            raise PlanError(f"COLUMNS({argument.this!r}): {error}") from None
        found = [one for one in columns if pattern.search(one[0])]
        if not found:
            known = ", ".join(name for name, _ in columns)
            raise PlanError(f"COLUMNS({argument.this!r}) matches no column; there are {known}")
        return found
    if type(argument).__name__ == "Array":
        wanted = {str(one.name).lower() for one in argument.expressions}
        for name in wanted:
            if all(shown.lower() != name for shown, _ in columns):
                raise unknown("column", name, [shown for shown, _ in columns], "COLUMNS")
        return [one for one in columns if one[0].lower() in wanted]
    if type(argument).__name__ == "Lambda":
        raise NotBound(call, "COLUMNS of a lambda", "COLUMNS('regex') and COLUMNS(* LIKE 'a%') choose by name")
    raise PlanError("COLUMNS takes a pattern, a list of names or a star")


def _with_column(node: Any, own: str) -> Any:
    """A copy of the expression with a column of the plan in place of its COLUMNS calls."""
    from sqlglot import exp

    result = node.copy()
    for call in columns_calls(result):
        column = exp.Placeholder(this=own)
        column.meta.update(call.meta)
        if call is result:
            return column
        call.replace(column)
    return result


def bind_chosen(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A column that COLUMNS has chosen."""
    own, kind = take(node, "this", "kind")
    if kind is not None or own not in context.scope.node.schema.names:
        raise PlanError("parameters in the text of a query are not supported; put the values into it")
    return context.scope.column(own)


READERS: dict[str, ExpressionReader] = {"Placeholder": bind_chosen}


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
