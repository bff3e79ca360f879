"""Functions with which builders of functions combine expressions with their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Cast, Expr, Literal, lit
from qcore.functions.catalogue import expr_type, resolve, suit_literals

_NO_COLUMNS = pa.schema([])


def constant(value: Any, type_: pa.DataType | None = None) -> Bound:
    """A constant. The default type is that of lit(); null has the type null."""
    literal = lit(value, type_)
    assert isinstance(literal, Literal)
    return Bound(literal, literal.type)


def derive(expr: Expr, known: Sequence[Bound]) -> Bound:
    """The expression with its type, which follows from those of its parts `known`. It reads no other columns."""
    return Bound(expr, expr_type(expr, _NO_COLUMNS, {id(bound.expr): bound.type for bound in known}))


def derive_expr(build: Callable[..., Expr], *arguments: Bound) -> Bound:
    """The expression that `build` returns for the arguments' expressions, with its type."""
    return derive(build(*(argument.expr for argument in arguments)), arguments)


def engine_call(function: str, *arguments: Bound) -> Bound:
    """A call of a function by the engine's name for it. PlanError unless the types fit."""
    if function == "extract":
        return derive_expr(lambda *parts: Call(function, parts), *arguments)
    parts = tuple([argument.expr for argument in arguments])
    _, types = suit_literals(function, parts, [argument.type for argument in arguments])
    return Bound(Call(function, parts), resolve(function, types, parts).result)


def cast(value: Bound, to: pa.DataType) -> Bound:
    """The value as another type; the same object if it has the type."""
    if value.type == to:
        return value
    if isinstance(value.expr, Literal) and value.expr.value is None:
        return Bound(Literal(None, to), to)
    return Bound(Cast(value.expr, to), to)


def is_literal(value: Bound) -> bool:
    """Whether the value is a constant that is not null."""
    return isinstance(value.expr, Literal) and value.expr.value is not None


def literal_value(value: Bound) -> Any:
    """The value of a constant; None for null and for other expressions."""
    return value.expr.value if isinstance(value.expr, Literal) else None


def is_null(value: Bound) -> bool:
    """Whether the value is the constant null."""
    return isinstance(value.expr, Literal) and value.expr.value is None
