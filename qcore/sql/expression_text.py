"""Expressions written as SQL text, over the columns of one table. They need the `sql` extra; col() and lit() do not."""

from __future__ import annotations

import re

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.recursion import deep_recursion
from qcore.expression.tree import Column, Expr
from qcore.functions.dialect import QCORE
from qcore.plan.nodes import AggregateCall, Values
from qcore.plan.schema import unknown
from qcore.sql.bind import READERS
from qcore.sql.binder import Binder
from qcore.sql.grouping import Grouping
from qcore.sql.parse import import_parser, parse_items
from qcore.sql.scope import BindContext, Environment, Level, Named, Rows, Scope, TableNames
from qcore.sql.windows import Windows

# The name of the table that has the columns.
_INPUT = "input"
_ALIAS = re.compile(r"\s+as\s+(?:\"((?:[^\"]|\"\")+)\"|(\w+))\s*$", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_CONSTANTS = frozenset({"true", "false", "null"})


def split_alias(text: str) -> tuple[str, str | None]:
    """An expression's text and the name after its `as`, if there is one."""
    found = _ALIAS.search(text)
    if found is None:
        return text, None
    return text[: found.start()], (found.group(1) or found.group(2)).replace('""', '"')


def parse_expression(text: str, schema: pa.Schema, where: str) -> Expr:
    """The expression of a text over columns of `schema`.

    Raises
    ------
    PlanError
        A syntax error, an unknown column or function, an aggregate; the message names `where` and quotes the text.

    Examples
    --------
    >>> parse_expression("a * 2 > 3", pa.schema([("a", pa.int64())]), "filter")
    ((a * 2) > 3)
    """
    if text in schema.names:
        return Column(text)
    if _IDENTIFIER.fullmatch(text.strip()) and text.strip().lower() not in _CONSTANTS:
        # A name means a column, in any case, and never the whole table.
        _check_name(text.strip(), schema, where)
    value, context = _bound(text, schema, where)
    if context.grouping.calls:
        raise PlanError(f"{where}: {text!r} is an aggregate; use aggregate()")
    if context.subqueries or context.windows.outputs or context.windows.subqueries:
        raise PlanError(f"{where}: {text!r} is not a single expression over the input's columns")
    return value.expr


def parse_aggregate(text: str, name: str, schema: pa.Schema, where: str) -> AggregateCall:
    """The aggregate of a text such as "sum(x)", "count(distinct y)" or "sum(x) filter (where y > 1)".

    Raises
    ------
    PlanError
        A syntax error, an unknown column or function, or a text that is not one of the engine's aggregates.
    """
    value, context = _bound(text, schema, where)
    calls = context.grouping.calls
    is_more = context.subqueries or context.grouping.subqueries or context.windows.outputs
    if len(calls) != 1 or is_more or not isinstance(value.expr, Column) or value.expr.name != calls[0].name:
        raise PlanError(f"{where}: {text!r} must be one aggregate, such as sum(x); project() can compute with it")
    (call,) = calls
    return AggregateCall(name, call.function, call.arguments, call.distinct, call.filter, call.order)


def _check_name(name: str, schema: pa.Schema, where: str) -> None:
    if all(column.lower() != name.lower() for column in schema.names):
        raise unknown("column", name, schema.names, where)


def _bound(text: str, schema: pa.Schema, where: str) -> tuple[Bound, BindContext]:
    """The value of a text, and the BindContext with its aggregates, windows and subqueries."""
    import_parser(QCORE)
    with deep_recursion():
        try:
            items, source = parse_items(text, QCORE)
            if len(items) != 1 or type(items[0]).__name__ in ("Alias", "Aliases"):
                raise PlanError("it must be one expression, without a name")
            binder = Binder({}, {}, QCORE, source, READERS.expressions, READERS.queries, READERS.tables)
            context = _context(binder, schema)
            return binder.expression(items[0], context), context
        except PlanError as error:
            raise PlanError(f"{where}: {text!r}: {error}") from None
        except RecursionError:
            raise PlanError(f"{where}: {text[:200]!r}: the expression is nested too deeply") from None


def _context(binder: Binder, schema: pa.Schema) -> BindContext:
    for name in schema.names:
        binder.names.new(name)
    columns = [Named(name, name) for name in schema.names]
    rows = Rows(Values("", schema, None), [TableNames((_INPUT,), tuple(columns))], columns)
    scope = Scope(rows, Environment(Level(), {}), binder.dialect)
    return BindContext(scope, "an expression", [], Grouping(binder), Windows(binder, ()))
