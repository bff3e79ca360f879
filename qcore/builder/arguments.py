"""Arguments of PlanBuilder's steps: expressions, named columns and sort keys, in the forms that users may give."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.recursion import bounded_depth
from qcore.expression.tree import Alias, Column, Expr, children, column_names, lit, rebuild
from qcore.functions.calls import with_engine_calls
from qcore.functions.catalogue import expr_type
from qcore.plan.nodes import SortKey
from qcore.plan.schema import check_column, check_columns

Expression = Expr | str
SortKeys = Sequence[str | SortKey] | str | SortKey
_SORT = re.compile(r"^(?P<column>.+?)(?:\s+(?P<order>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?$", re.IGNORECASE)


def read_expression(value: Expression, schema: pa.Schema, where: str) -> Expr:
    """The expression of an Expr, a column's name, SQL text or a constant. PlanError unless it fits `schema`."""
    if isinstance(value, str):
        from qcore.sql.expression_text import parse_expression

        expr = parse_expression(value, schema, where)
    elif isinstance(value, Expr):
        expr = in_step(where, lambda: _drop_aliases(value))
    else:
        expr = lit(value)
    # column_names recurses deepest. It comes first, so that it reports an expression of too many levels.
    in_step(where, lambda: column_names(expr))
    check_columns(expr, schema, where)
    expr = in_step(where, lambda: with_engine_calls(expr, schema))
    in_step(where, lambda: expr_type(expr, schema))
    return expr


def read_condition(value: Expression, schema: pa.Schema, where: str) -> Expr:
    """A boolean expression. PlanError for another type."""
    expr = read_expression(value, schema, where)
    type_ = in_step(where, lambda: expr_type(expr, schema))
    if not pa.types.is_boolean(type_) and not pa.types.is_null(type_):
        raise PlanError(f"{where}: {expr!r} is of type {type_}, not boolean")
    return expr


def read_named(value: Expression, schema: pa.Schema, where: str) -> tuple[str, Expr]:
    """Name and expression of a column, an aliased expression, or text with `as`."""
    if isinstance(value, str):
        if value in schema.names:
            return value, Column(value)
        from qcore.sql.expression_text import split_alias

        text, name = split_alias(value)
        return name if name is not None else value, read_expression(text, schema, where)
    if isinstance(value, Alias):
        return value.name, read_expression(value.argument, schema, where)
    if isinstance(value, Column):
        return value.name, read_expression(value, schema, where)
    raise PlanError(f"{where}: the expression {_shorten(value)} needs a name: .alias(…), or give a mapping")


def read_sort_keys(keys: SortKeys, schema: pa.Schema, where: str) -> tuple[SortKey, ...]:
    """Sort keys of texts such as "x desc", columns and SortKeys. PlanError if there is none."""
    given = [keys] if isinstance(keys, (str, SortKey)) else list(keys)
    if not given:
        raise PlanError(f"{where} needs a key")
    result = []
    for key in given:
        if isinstance(key, str):
            key = _parse_sort_key(key, schema)
        elif isinstance(key, Column):
            key = SortKey(key.name)
        if not isinstance(key, SortKey):
            raise PlanError(f'{where}: give "x desc" or SortKey("x", descending=True), not {key!r}')
        check_column(key.column, schema, where)
        result.append(key)
    return tuple(result)


def _parse_sort_key(text: str, schema: pa.Schema) -> SortKey:
    if text in schema.names:
        return SortKey(text)
    found = _SORT.match(text.strip())
    assert found is not None
    descending = (found["order"] or "").lower() == "desc"
    return SortKey(found["column"].strip('"'), descending, (found["nulls"] or "").lower() == "first")


def as_list(keys: Sequence[Expression] | Expression) -> list[Expression]:
    """One key or several, as a list."""
    return [keys] if isinstance(keys, (str, Expr)) else list(keys)


def in_step(where: str, compute: Callable[[], Any]) -> Any:
    """The result of `compute`. Its PlanErrors get `where` in front; too deep an expression is a PlanError too."""
    try:
        with bounded_depth():
            return compute()
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None


def _shorten(value: Any) -> str:
    """The value's repr, cut at 200 characters."""
    try:
        text = repr(value)
    except RecursionError:
        return "of very many levels"
    return text if len(text) <= 200 else f"{text[:200]} …"


def _drop_aliases(expr: Expr) -> Expr:
    if isinstance(expr, Alias):
        return _drop_aliases(expr.argument)
    parts = children(expr)
    return rebuild(expr, tuple(map(_drop_aliases, parts))) if parts else expr
