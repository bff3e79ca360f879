"""Check of text arguments of functions that take a number or a time.

In SQL they need a cast; PlanBuilder needs none.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Literal
from qcore.expression.types import is_numeric, is_text, plain, shown_type
from qcore.functions.calls import bind_call
from qcore.functions.catalogue import resolve
from qcore.functions.dialect import Dialect


def bind_written(name: str, arguments: Sequence[Bound], dialect: Dialect) -> Bound:
    """The call of a function or operator in the text of a query.

    Raises
    ------
    PlanError
        As bind_call. Also if an argument is text that is not a constant, and the function takes a number.
    """
    made = bind_call(name, arguments, dialect)
    if dialect.syntax == "standard" and not pa.types.is_boolean(made.type):
        _check(name, made, arguments)
    return made


def _check(name: str, made: Bound, arguments: Sequence[Bound]) -> None:
    """Raise PlanError if the function would convert a text to a number. Comparisons may do this."""
    is_open = [not isinstance(value.expr, Literal) and is_text(value.type) for value in arguments]
    expr = made.expr
    if not any(is_open) or not isinstance(expr, Call) or len(expr.arguments) != len(arguments):
        return
    if any(part is not value.expr for part, value in zip(expr.arguments, arguments, strict=True)):
        return
    wanted = resolve(expr.function, [value.type for value in arguments], expr.arguments).arguments
    if any(text and is_numeric(type_) for text, type_ in zip(is_open, wanted, strict=False)):
        shown = ", ".join(str(value.type) for value in arguments)
        raise PlanError(f"{name}({shown}) is not defined: it takes numbers; cast the text, as in cast(x as double)")


def check_pattern(name: str, arguments: Sequence[Bound], dialect: Dialect) -> None:
    """Raise PlanError for LIKE and similar operators over a number or a time."""
    for value in arguments:
        type_ = plain(value.type)
        if dialect.syntax == "standard" and not (
            is_text(type_) or pa.types.is_null(type_) or pa.types.is_binary(type_)
        ):
            given = shown_type(value.type)
            raise PlanError(f"{name} takes text, not {given}; cast the value, as in cast(x as varchar)")
