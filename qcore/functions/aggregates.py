"""Aggregate functions: their names and result types."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import (
    BOOL,
    DECIMAL_DIGITS_MAX,
    FLOAT64,
    INT64,
    STRING,
    TypeMismatch,
    Types,
    is_numeric,
    plain,
)
from qcore.functions.signatures import MANY, n_arguments, shown_call


def _sum(types: Types) -> pa.DataType:
    (type_,) = types
    if type_ == pa.uint64():
        return type_
    if pa.types.is_null(type_) or pa.types.is_integer(type_):
        return INT64
    if pa.types.is_decimal(type_):
        return pa.decimal128(DECIMAL_DIGITS_MAX, type_.scale)
    if pa.types.is_floating(type_):
        return FLOAT64
    raise TypeMismatch("it takes numbers")


def _average(types: Types) -> pa.DataType:
    if any(not is_numeric(type_) and not pa.types.is_null(type_) for type_ in types):
        raise TypeMismatch("it takes numbers")
    return FLOAT64


def _pairs(types: Types) -> pa.DataType:
    _average(types)
    return INT64


def _truth(types: Types) -> pa.DataType:
    if any(not (pa.types.is_boolean(type_) or pa.types.is_null(type_)) for type_ in types):
        raise TypeMismatch("it takes conditions")
    return BOOL


def _bits(types: Types) -> pa.DataType:
    if not pa.types.is_integer(types[0]):
        raise TypeMismatch("it takes integers")
    return types[0]


def _text(types: Types) -> pa.DataType:
    if any(pa.types.is_nested(type_) for type_ in types):
        raise TypeMismatch("it takes text")
    return STRING


def _quantile_of(types: Types) -> pa.DataType:
    if len(types) > 1 and not is_numeric(types[1]):
        raise TypeMismatch("the fraction is a number from 0 to 1")
    return types[0]


_AGGREGATES: dict[str, tuple[int, int, Callable[[Types], pa.DataType]]] = {
    "count": (0, MANY, lambda types: INT64),
    "sum": (1, 1, _sum),
    "min": (1, 1, lambda types: types[0]),
    "max": (1, 1, lambda types: types[0]),
    "any_value": (1, 1, lambda types: types[0]),
    "first": (1, 1, lambda types: types[0]),
    "last": (1, 1, lambda types: types[0]),
    "bool_and": (1, 1, _truth),
    "bool_or": (1, 1, _truth),
    "bit_and": (1, 1, _bits),
    "bit_or": (1, 1, _bits),
    "bit_xor": (1, 1, _bits),
    "string_agg": (1, 2, _text),
    "array_agg": (1, 1, lambda types: pa.list_(types[0])),
    "median": (1, 1, _average),
    "quantile_cont": (2, 2, _average),
    "quantile_disc": (2, 2, _quantile_of),
    "mode": (1, 1, lambda types: types[0]),
}
for _name in ("avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop"):
    _AGGREGATES[_name] = (1, 1, _average)
# Aggregates that need all values of a group together.
KEEP_VALUES = frozenset({"string_agg", "array_agg", "median", "quantile_cont", "quantile_disc", "mode"})
# Aggregates of pairs (y, x) of numbers.
PAIRS = frozenset({
    "covar_pop", "covar_samp", "corr", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy",
    "regr_slope", "regr_intercept", "regr_r2",
})  # fmt: skip
for _name in PAIRS:
    _AGGREGATES[_name] = (2, 2, _pairs if _name == "regr_count" else _average)


def aggregate_functions() -> tuple[str, ...]:
    """The names of all aggregate functions."""
    return tuple(sorted(_AGGREGATES))


def is_aggregate(name: str) -> bool:
    """Whether `name` is an aggregate function."""
    return name in _AGGREGATES


def aggregate_type(name: str, arg_types: Types) -> pa.DataType:
    """Result type of an aggregate function; `count` without arguments counts rows.

    Raises
    ------
    PlanError
        The function is unknown or does not take these types; the message names both.
    """
    if name not in _AGGREGATES:
        raise PlanError(f"unknown aggregate {shown_call(name, arg_types)}; there are {', '.join(sorted(_AGGREGATES))}")
    fewest, most, result = _AGGREGATES[name]
    if not fewest <= len(arg_types) <= most:
        raise PlanError(f"{shown_call(name, arg_types)}: {name} takes {n_arguments(fewest, most)}")
    try:
        return result([plain(type_) for type_ in arg_types])
    except TypeMismatch as reason:
        raise PlanError(f"{shown_call(name, arg_types)} is not defined: {reason}") from None
