"""Signatures: what a function takes and gives, found from the types at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.expression.tree import Expr, Literal
from qcore.expression.types import FLOAT64, INT64, STRING, TypeMismatch, Types, is_numeric
from qcore.record import record

# Of arguments: no limit.
MANY = 1 << 20


@record(frozen=True)
class Signature:
    """What a call gives, and what its arguments become first."""

    result: pa.DataType
    arguments: tuple[pa.DataType, ...]


@record(frozen=True)
class Function:
    """A scalar function: how many arguments it takes, and how its signature follows from their types.

    `takes` and `gives` say so to a reader (docs/FUNCTIONS.md).
    """

    arguments_min: int
    arguments_max: int
    resolve: Callable[[Types], Signature]
    takes: str = ""
    gives: str = ""
    resolve_literals: Callable[[Types, Sequence[Any]], Signature] | None = None

    def signature(self, types: Types, arguments: Sequence[Expr] = ()) -> Signature:
        """The signature for arguments of these types. TypeMismatch when there is none."""
        if self.resolve_literals is None:
            return self.resolve(types)
        values = [argument.value if isinstance(argument, Literal) else None for argument in arguments]
        return self.resolve_literals(types, values or [None] * len(types))


def literal_function(
    fewest: int, most: int, resolve: Callable[[Types, Sequence[Any]], Signature], takes: str, gives: str
) -> Function:
    """A function whose result's type depends on the values of arguments that are literals; the others come as None."""
    return Function(fewest, most, lambda types: resolve(types, [None] * len(types)), takes, gives, resolve)


def numbers(types: Types) -> list[pa.DataType]:
    """Argument types of arithmetic: null and text become what the other side is."""
    others = [type_ for type_ in types if not pa.types.is_null(type_) and not pa.types.is_string(type_)]
    stand_in = others[0] if others else FLOAT64 if any(map(pa.types.is_string, types)) else INT64
    result = [stand_in if pa.types.is_null(type_) or pa.types.is_string(type_) else type_ for type_ in types]
    if not all(map(is_numeric, result)):
        raise TypeMismatch("it takes numbers")
    return result


def converts(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a function of `wanted` takes `given`: null anything, integers each other, floats any number."""
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_floating(wanted):
        return is_numeric(given) or pa.types.is_string(given)
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        return pa.types.is_date(given) or pa.types.is_timestamp(given) or pa.types.is_string(given)
    return pa.types.is_integer(given) and wanted == INT64


def fixed(result: pa.DataType, *wanted: pa.DataType, optional: int = 0) -> Function:
    """A function of these types; the last `optional` may be left out."""

    def resolve(types: Types) -> Signature:
        taken = wanted[: len(types)]
        if not all(map(converts, types, taken)):
            raise TypeMismatch(f"it takes {', '.join(map(type_word, wanted))}")
        return Signature(result, taken)

    words = [type_word(type_) for type_ in wanted]
    n_needed = len(wanted) - optional
    takes = ", ".join([*words[:n_needed], *(f"[{word}]" for word in words[n_needed:])])
    return Function(n_needed, len(wanted), resolve, takes, type_word(result))


_WORDS = {
    "int64": "integer", "double": "number", "bool": "boolean", "binary": "bytes",
    "date32[day]": "date", "timestamp[us]": "timestamp",
}  # fmt: skip


def type_word(type_: pa.DataType) -> str:
    """A type as users call it."""
    if pa.types.is_interval(type_):
        return "interval"
    return _WORDS.get(str(type_), "text" if type_ == STRING else str(type_))


def n_arguments(fewest: int, most: int) -> str:
    """How many arguments a function takes, in words."""
    if most == MANY:
        return f"at least {fewest} argument{'s' if fewest != 1 else ''}"
    return f"{fewest} argument{'s' if fewest != 1 else ''}" if fewest == most else f"{fewest} to {most} arguments"
