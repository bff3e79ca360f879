"""Numbers and bytes as text: hexadecimal, binary, and formats with placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.expression.types import FLOAT64, INT64, STRING, TypeMismatch, Types
from qcore.functions.arrow.scalar import BINARY, ArrowFunction, Kernel, by_value
from qcore.functions.signatures import MANY, Function, Signature, take_types

_WORD_BITS = 64
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _hex(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value % (1 << _WORD_BITS):X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _bin(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value % (1 << _WORD_BITS):b}"
    return "".join(f"{byte:08b}" for byte in (value.encode() if isinstance(value, str) else value))


def _to_base(value: int, radix: int, least: int = 1) -> str:
    if value < 0 or not 2 <= radix <= len(_DIGITS) or not 0 <= least <= _WORD_BITS:
        raise ValueError(f"to_base() takes a number from 0, a radix from 2 to 36 and a length to {_WORD_BITS}")
    digits: list[str] = []
    while value or not digits:
        value, digit = divmod(value, radix)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)).rjust(least, "0")


def _size(step: int, units: tuple[str, ...]) -> Callable[[int], str]:
    """A number of bytes in the largest unit up to it, with one digit after the point, rounded down."""

    def write_size(count: int) -> str:
        sign, size = "-" if count < 0 else "", abs(count)
        if size < step:
            return f"{sign}{size} byte{'' if size == 1 else 's'}"
        power = 1
        while power < len(units) and size >= step ** (power + 1):
            power += 1
        tenths = size * 10 // step**power
        return f"{sign}{tenths // 10}.{tenths % 10} {units[power - 1]}"

    return write_size


def _unhex(text: str) -> bytes:
    return bytes.fromhex("0" * (len(text) % 2) + text)


def _unbin(text: str) -> bytes:
    if set(text) - set("01"):
        raise ValueError(f"{text!r} has other characters than the digits 0 and 1")
    return int(text, 2).to_bytes((len(text) + 7) // 8, "big") if text else b""


def _bit_count(values: pa.Array) -> list[int | None]:
    width = values.type.bit_width
    return [None if value is None else (value % (1 << width)).bit_count() for value in values.to_pylist()]


def _format(form: str, *values: Any) -> str:
    return form.format(*map(_printf_value, values))


_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d*)(\.(?:\*|\d*))?([A-Za-z%])")


def _printf(form: str, *values: Any) -> str:
    shown = list(map(_printf_value, values))
    form = form.replace("%i", "%d")
    if any(isinstance(value, Decimal) for value in shown):
        form = _with_exact_decimals(form, shown)
    return form % tuple(shown)


def _with_exact_decimals(form: str, values: list[Any]) -> str:
    """The format with %s in place of %f for decimals, which are passed as text. %f would convert them to floats."""
    number = -1

    def text_instead(found: re.Match[str]) -> str:
        nonlocal number
        flags, width, decimals, letter = found.groups()
        if "*" in found[0]:
            raise ValueError("a width or precision of * is not supported for a decimal; write the number")
        number += letter != "%"
        if letter not in "fF" or not 0 <= number < len(values) or not isinstance(values[number], Decimal):
            return found[0]
        value, n = values[number], int((decimals or ".6")[1:] or 0)
        digits = f"{value.copy_abs():.{n}f}" + "." * ("#" in flags and n == 0)
        sign = "-" if value.is_signed() else "+" if "+" in flags else " " if " " in flags else ""
        wide = int(width or 0)
        if "-" in flags:
            values[number] = (sign + digits).ljust(wide)
        elif "0" in flags:
            values[number] = sign + digits.rjust(wide - len(sign), "0")
        else:
            values[number] = (sign + digits).rjust(wide)
        return "%s"

    return _CONVERSION.sub(text_instead, form)


def _printf_value(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _in_form(function: Any) -> Kernel:
    """A kernel of a function of a format and values. The format decides which values it takes."""

    def write_values(*arguments: Any) -> str:
        try:
            return str(function(*arguments))
        except (TypeError, IndexError, KeyError, AttributeError) as error:
            raise ValueError(f"the format does not fit the values: {error}") from None

    return by_value(write_values, STRING)


def _number_or_text(types: Types) -> Signature:
    given = types[0]
    if pa.types.is_null(given) or pa.types.is_string(given) or given == BINARY or given == pa.uint64():
        return Signature(STRING, (STRING if pa.types.is_null(given) else given,))
    if not pa.types.is_integer(given):
        raise TypeMismatch("it takes an integer, text or bytes")
    return Signature(STRING, (INT64,))


def _integer(types: Types) -> Signature:
    if not pa.types.is_integer(types[0]) and not pa.types.is_null(types[0]):
        raise TypeMismatch("it takes an integer")
    return Signature(INT64, (INT64 if pa.types.is_null(types[0]) else types[0],))


def _place_types(types: Types) -> Signature:
    if not pa.types.is_string(types[0]) and not pa.types.is_null(types[0]):
        raise TypeMismatch("the format must be text")
    return Signature(STRING, (STRING, *map(_place, types[1:])))


# The number of decimal digits that every float has.
_FLOAT_DIGITS = 15


def _place(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(type_) and type_.precision > _FLOAT_DIGITS:
        return type_
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return FLOAT64
    return type_ if pa.types.is_integer(type_) or pa.types.is_boolean(type_) else STRING


WRITTEN_FUNCTIONS: dict[str, ArrowFunction] = {
    "hex": ArrowFunction(Function(1, 1, _number_or_text, "integer, text or bytes", "text"), by_value(_hex, STRING)),
    "bin": ArrowFunction(Function(1, 1, _number_or_text, "integer, text or bytes", "text"), by_value(_bin, STRING)),
    "to_base": ArrowFunction(take_types(STRING, INT64, INT64, INT64, optional=1), by_value(_to_base, STRING)),
    "format_bytes": ArrowFunction(
        take_types(STRING, INT64), by_value(_size(1024, ("KiB", "MiB", "GiB", "TiB", "PiB")), STRING)
    ),
    "format_decimal_bytes": ArrowFunction(
        take_types(STRING, INT64), by_value(_size(1000, ("kB", "MB", "GB", "TB", "PB")), STRING)
    ),
    "unhex": ArrowFunction(take_types(BINARY, STRING), by_value(_unhex, BINARY)),
    "unbin": ArrowFunction(take_types(BINARY, STRING), by_value(_unbin, BINARY)),
    "bit_count": ArrowFunction(Function(1, 1, _integer, "integer", "integer"), _bit_count),
    "format": ArrowFunction(Function(1, MANY, _place_types, "text, any, …", "text"), _in_form(_format)),
    "printf": ArrowFunction(Function(1, MANY, _place_types, "text, any, …", "text"), _in_form(_printf)),
}
