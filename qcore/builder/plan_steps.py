"""What every step of a PlanBuilder uses: expressions, names and sort keys as users give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Alias, Column, Expr, bounded_depth, children, column_names, lit, rebuild
from qcore.functions.catalogue import expr_type
from qcore.plan.nodes import PlanNode, SortKey
from qcore.plan.schema import check_column, check_columns

Expression = Expr | str
_SORT = re.compile(r"^(?P<column>.+?)(?:\s+(?P<order>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?$", re.IGNORECASE)


class PlanSteps:
    """Base of the parts of PlanBuilder."""

    if TYPE_CHECKING:

        def _input(self, step: str) -> PlanNode: ...
        def _expect_no_input(self, step: str) -> None: ...
        def _new_id(self, nodes: Sequence[PlanNode] = ()) -> str: ...
        def _continued(self, node: PlanNode) -> Self: ...
        def _with(self, node: PlanNode, free_ids: frozenset[str]) -> Self: ...
        def _both(
            self, step: str, other: Any, nodes: Sequence[PlanNode] = ()
        ) -> tuple[PlanNode, PlanNode, frozenset[str]]: ...

    def _expression(self, value: Expression, schema: pa.Schema, where: str) -> Expr:
        if isinstance(value, str):
            from qcore.frontends.expression_text import parse_expression

            expr = parse_expression(value, schema, where)
        elif isinstance(value, Expr):
            expr = in_step(where, lambda: _without_aliases(value))
        else:
            expr = lit(value)
        # The deepest first: what follows needs fewer levels of Python's.
        in_step(where, lambda: column_names(expr))
        check_columns(expr, schema, where)
        in_step(where, lambda: expr_type(expr, schema))
        return expr

    def _named(self, value: Expression, schema: pa.Schema, where: str) -> tuple[str, Expr]:
        """Name and expression of a column, an aliased expression, or text with `as`."""
        if isinstance(value, str):
            if value in schema.names:
                return value, Column(value)
            from qcore.frontends.expression_text import split_alias

            text, name = split_alias(value)
            return name if name is not None else value, self._expression(text, schema, where)
        if isinstance(value, Alias):
            return value.name, self._expression(value.argument, schema, where)
        if isinstance(value, Column):
            return value.name, self._expression(value, schema, where)
        raise PlanError(f"{where}: the expression {_short(value)} needs a name: .alias(…), or give a mapping")

    def _sort_keys(
        self, keys: Sequence[str | SortKey] | str | SortKey, schema: pa.Schema, where: str
    ) -> tuple[SortKey, ...]:
        listed = [keys] if isinstance(keys, (str, SortKey)) else list(keys)
        if not listed:
            raise PlanError(f"{where} needs a key")
        result = []
        for key in listed:
            if isinstance(key, str):
                key = _sort_key(key, schema)
            elif isinstance(key, Column):
                key = SortKey(key.name)
            if not isinstance(key, SortKey):
                raise PlanError(f'{where}: give "x desc" or SortKey("x", descending=True), not {key!r}')
            check_column(key.column, schema, where)
            result.append(key)
        return tuple(result)


def _sort_key(text: str, schema: pa.Schema) -> SortKey:
    if text in schema.names:
        return SortKey(text)
    found = _SORT.match(text.strip())
    assert found is not None
    descending = (found["order"] or "").lower() == "desc"
    return SortKey(found["column"].strip('"'), descending, (found["nulls"] or "").lower() == "first")


def listed(keys: Sequence[Expression] | Expression) -> list[Expression]:
    return [keys] if isinstance(keys, (str, Expr)) else list(keys)


def check_boolean(expr: Expr, schema: pa.Schema, where: str) -> None:
    type_ = expr_type(expr, schema)
    if not pa.types.is_boolean(type_) and not pa.types.is_null(type_):
        raise PlanError(f"{where}: {expr!r} is of type {type_}, not boolean")


def in_step(where: str, compute: Callable[[], Any]) -> Any:
    """The result of `compute`; its PlanError, and one of more levels than Python has, says where it happened."""
    try:
        with bounded_depth():
            return compute()
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None


def _short(value: Any) -> str:
    """The value as text, of a length to read."""
    try:
        shown = repr(value)
    except RecursionError:
        return "of very many levels"
    return shown if len(shown) <= 200 else f"{shown[:200]} …"


def _without_aliases(expr: Expr) -> Expr:
    if isinstance(expr, Alias):
        return _without_aliases(expr.argument)
    parts = children(expr)
    return rebuild(expr, tuple(map(_without_aliases, parts))) if parts else expr
