"""Functions of numbers, and of conditions and values of any type, by their names in SQL."""

from __future__ import annotations

import math

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Expr, call
from qcore.expression.types import FLOAT64, STRING
from qcore.functions.dialect import Dialect
from qcore.functions.entries import Table, entry, expr_entry
from qcore.functions.type_names import type_name
from qcore.functions.typed import constant, derive_expr, engine_call, is_null
from qcore.functions.variants import dialect_call


def _log(dialect: Dialect, *arguments: Bound) -> Bound:
    """log(x), or log(base, x)."""
    if len(arguments) == 2:
        return dialect_call(dialect, "log", *arguments)
    return dialect_call(dialect, "ln" if dialect.log_base == "e" else "log10", *arguments)


def _fallback(dialect: Dialect, *values: Bound) -> Bound:
    """coalesce. Null constants do not affect the type."""
    present = [value for value in values if not is_null(value)]
    return engine_call("coalesce", *present) if present else values[0]


def _if(dialect: Dialect, condition: Bound, then: Bound, otherwise: Bound) -> Bound:
    return derive_expr(lambda a, b, c: Case(((a, b),), c), condition, then, otherwise)


def _typeof(dialect: Dialect, value: Bound) -> Bound:
    return constant(type_name(value.type), STRING)


def _version(dialect: Dialect) -> Bound:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return constant(f"qcore {version('qcore')}")
    except PackageNotFoundError:
        raise PlanError("version(): the package qcore is not installed") from None


def _not_number(value: Expr, instead: Expr) -> Expr:
    """nanvl(x, y): y where x is NaN."""
    return Case(((Call("is_nan", (value,)), instead),), value)


def _if_present(value: Expr, present: Expr, absent: Expr) -> Expr:
    """nvl2(x, y, z): y where x is not null, otherwise z."""
    return Case(((Call("is_not_null", (value,)), present),), absent)


def _constant_or_null(value: Expr, test: Expr) -> Expr:
    return Case(((Call("is_not_null", (test,)), value),))


def _is_zero(value: Expr) -> Expr:
    return call("equal", value, 0)


def _hash(*values: Expr) -> Expr:
    """A number of 64 bits, equal for equal values of one type. Other engines return other numbers."""
    return Call("hash_bytes", (Call("nested_bytes", (Call("row", values),)),))


VALUES: Table = {
    "hash": expr_entry("any, …", "integer", _hash),
    "coalesce": entry("any, …", "as the arguments", _fallback),
    "ifnull": entry("any, any", "as the arguments", _fallback),
    "nvl": "ifnull",
    "nvl2": expr_entry("any, any, any", "as the second and third", _if_present),
    "if": entry("boolean, any, any", "as the second and third", _if),
    "iff": "if",
    "constant_or_null": expr_entry("any, any", "as the first", _constant_or_null),
    "nanvl": expr_entry("number, number", "number", _not_number),
    "typeof": entry("any", "text", _typeof),
    "version": entry("", "text", _version),
}  # fmt: skip
NUMBERS: Table = {
    "mod": "%",
    "modulo": "%",
    "modulus": "%",
    "divide": "/",
    "negate": entry("number or interval", "as the argument", lambda dialect, value: engine_call("negate", value)),
    "log": entry("number, [number]", "number", _log),
    "log_e": "ln",
    "pow": "power",
    "signum": "sign",
    "ceiling": "ceil",
    "xor": "bitwise_xor",
    "isnan": "is_nan",
    "isinf": "is_infinite",
    "isfinite": "is_finite",
    "iszero": expr_entry("number", "boolean", _is_zero),
    "pi": entry("", "number", lambda dialect: constant(math.pi, FLOAT64)),
    "greatest_common_divisor": "gcd",
    "least_common_multiple": "lcm",
    "formatreadablesize": "format_bytes",
    "formatreadabledecimalsize": "format_decimal_bytes",
}  # fmt: skip
