"""Constants: numbers, texts, bytes, truth values, null, intervals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.interval_values import parse_span
from qcore.expression.tree import Literal
from qcore.expression.types import DECIMAL_DIGITS_MAX, INTERVAL
from qcore.functions.calls import bind_call
from qcore.functions.casts import bind_cast
from qcore.sql.binder import Binder, ExpressionReader
from qcore.sql.reading import take
from qcore.sql.scope import BindContext

_INT64_MAX = (1 << 63) - 1
_UINT64_MAX = (1 << 64) - 1


def constant(value: Any, type_: pa.DataType) -> Bound:
    """A constant with its type."""
    return Bound(Literal(value, type_), type_)


def bind_literal(binder: Binder, node: Any, context: BindContext) -> Bound:
    """A number or a text."""
    text, is_text = take(node, "this", "is_string")
    return constant(text, pa.string()) if is_text else number(text)


def number(text: str) -> Bound:
    """A number without a sign: an integer, a decimal with the digits that are written, or with an exponent a float."""
    if text.isdigit():
        value = int(text)
        if value <= _INT64_MAX:
            return constant(value, pa.int64())
        if value <= _UINT64_MAX:
            return constant(value, pa.uint64())
    if "e" in text.lower():
        return constant(float(text), pa.float64())
    whole, _, fraction = text.partition(".")
    digits = max(len(whole.lstrip("0")) + len(fraction), 1)
    if digits > DECIMAL_DIGITS_MAX:
        return constant(float(text), pa.float64())
    if fraction and not whole.strip("0"):
        # 0.05 is a decimal(3, 2), as in DuckDB.
        digits = min(len(fraction) + 1, DECIMAL_DIGITS_MAX)
    return constant(Decimal(text), pa.decimal128(digits, len(fraction)))


def bind_boolean(binder: Binder, node: Any, context: BindContext) -> Bound:
    """TRUE or FALSE."""
    (value,) = take(node, "this")
    return constant(bool(value), pa.bool_())


def bind_null(binder: Binder, node: Any, context: BindContext) -> Bound:
    """NULL."""
    take(node)
    return constant(None, pa.null())


def bind_bytes(binder: Binder, node: Any, context: BindContext) -> Bound:
    """x'AB01'."""
    (text,) = take(node, "this")
    try:
        return constant(bytes.fromhex(text), pa.binary())
    except ValueError:
        raise PlanError(f"x'{text}' is not an even number of digits in base 16") from None


def bind_escaped_text(binder: Binder, node: Any, context: BindContext) -> Bound:
    """e'text' with escapes, and texts without escapes."""
    (text,) = take(node, "this")
    return constant(text, pa.string())


def bind_interval(binder: Binder, node: Any, context: BindContext) -> Bound:
    """INTERVAL '3' DAY, INTERVAL '1 month 3 days', INTERVAL (n) DAY."""
    # The parser marks a fraction such as '1.5 hours'. The text has it too, so the mark is ignored.
    value, unit, _ = take(node, "this", "unit", "fraction_in_string")
    word = "" if unit is None else str(take(unit, "this")[0]).lower()
    while type(value).__name__ == "Paren":
        (value,) = take(value, "this")
    if type(value).__name__ in ("Literal", "Neg") and _literal_text(value) is not None:
        return constant(_span(f"{_literal_text(value)} {word}".strip()), INTERVAL)
    given = binder.expression(value, context)
    if pa.types.is_string(given.type) and not word:
        return bind_cast(given, INTERVAL, binder.dialect)
    if pa.types.is_string(given.type):
        given = bind_cast(given, pa.float64(), binder.dialect)
    return bind_call("multiply", [given, constant(_span(f"1 {word}"), INTERVAL)], binder.dialect)


def _literal_text(node: Any) -> str | None:
    if type(node).__name__ == "Neg":
        text = _literal_text(node.this)
        return None if text is None else f"-{text}"
    return str(node.this) if type(node).__name__ == "Literal" else None


def _span(text: str) -> Any:
    try:
        return parse_span(text)
    except (ValueError, OverflowError) as error:
        raise PlanError(str(error)) from None


READERS: dict[str, ExpressionReader] = {
    "Literal": bind_literal,
    "Boolean": bind_boolean,
    "Null": bind_null,
    "HexString": bind_bytes,
    "ByteString": bind_escaped_text,
    "RawString": bind_escaped_text,
    "Interval": bind_interval,
}
