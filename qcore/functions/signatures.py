"""Signatures: the argument types and the result type of a call, found from the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.expression.tree import Expr, Literal
from qcore.expression.types import FLOAT64, INT64, STRING, TypeMismatch, Types, is_numeric, shown_type
from qcore.record import record

# The maximum number of arguments of a function without a limit.
MANY = 1 << 20


@record(frozen=True)
class Signature:
    """The result type of a call, and the types to which its arguments are converted."""

    result: pa.DataType
    arguments: tuple[pa.DataType, ...]


@record(frozen=True)
class Function:
    """A scalar function: its number of arguments, and the function that finds its signature from their types.

    `takes` and `gives` describe its arguments and its result for documentation.
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
    """A function whose result type depends on the values of literal arguments. Other arguments are passed as None."""
    return Function(fewest, most, lambda types: resolve(types, [None] * len(types)), takes, gives, resolve)


def numbers(types: Types) -> list[pa.DataType]:
    """Argument types of arithmetic. Null and text are converted to the type of the other side."""
    others = [type_ for type_ in types if not pa.types.is_null(type_) and not pa.types.is_string(type_)]
    stand_in = others[0] if others else FLOAT64 if any(map(pa.types.is_string, types)) else INT64
    result = [stand_in if pa.types.is_null(type_) or pa.types.is_string(type_) else type_ for type_ in types]
    if not all(map(is_numeric, result)):
        raise TypeMismatch("it takes numbers")
    return result


def converts(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether an argument of type `given` can be converted to `wanted`: null to any type, an integer to other integers,
    a number to a float.
    """
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_floating(wanted):
        return is_numeric(given) or pa.types.is_string(given)
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        return pa.types.is_date(given) or pa.types.is_timestamp(given) or pa.types.is_string(given)
    return pa.types.is_integer(given) and wanted == INT64


def take_types(result: pa.DataType, *wanted: pa.DataType, optional: int = 0) -> Function:
    """A function of these types. The last `optional` arguments may be omitted."""

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
    """The name of a type for users."""
    if pa.types.is_interval(type_):
        return "interval"
    return _WORDS.get(str(type_), "text" if type_ == STRING else str(type_))


def n_arguments(fewest: int, most: int) -> str:
    """The number of arguments that a function takes, in words."""
    if most == MANY:
        return f"at least {fewest} argument{'s' if fewest != 1 else ''}"
    return f"{fewest} argument{'s' if fewest != 1 else ''}" if fewest == most else f"{fewest} to {most} arguments"


def shown_call(name: str, types: Types) -> str:
    """A call as errors show it: add(int64, string)."""
    return f"{name}({', '.join(map(shown_type, types))})"
