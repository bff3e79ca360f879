"""Rarely used functions of numbers, computed by NumPy or the standard library."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa

from qcore.expression.types import BOOL, FLOAT64, TypeMismatch, Types, as_decimal
from qcore.functions.arrow.scalar import ArrowFunction, Kernel, as_array, by_value, n_rows
from qcore.functions.signatures import Function, Signature, numbers, take_types
from qcore.late_module import late_module

hashlib = late_module("hashlib")


def _of_arrays(function: Callable[..., np.ndarray]) -> Kernel:
    """A kernel of a function of NumPy's arrays of floats; null where an argument is."""

    def kernel(*arguments: pa.Array | pa.Scalar) -> pa.Array:
        columns = [as_array(argument, n_rows(arguments)) for argument in arguments]
        missing = np.logical_or.reduce([column.is_null().to_numpy(zero_copy_only=False) for column in columns])
        values = [column.fill_null(0.0).to_numpy(zero_copy_only=False) for column in columns]
        with np.errstate(all="ignore"):
            return pa.array(function(*values), mask=missing)

    return kernel


def _by_digits(function: Callable[..., Decimal]) -> Kernel:
    """A kernel of a function of decimals of one row; null where an argument is."""

    def kernel(*arguments: pa.Array | pa.Scalar) -> pa.Array:
        columns = [as_array(argument, n_rows(arguments)) for argument in arguments]
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], columns[0].type)

    return kernel


def _even(values: np.ndarray) -> np.ndarray:
    """The next even number away from zero."""
    return np.copysign(np.ceil(np.abs(values) / 2) * 2, values)


def _remainder(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The remainder of a division that is rounded down."""
    return values - np.floor(values / by) * by


def _quotient(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.floor(values / by)


def _gamma(value: float) -> float:
    if value == 0:
        return math.copysign(math.inf, value)
    try:
        return math.gamma(value)
    except OverflowError:
        return math.inf


def _log_gamma(value: float) -> float:
    try:
        return math.lgamma(value)
    except ValueError:
        return math.inf  # at zero and the whole numbers below it


def _integer_quotient(number: Decimal | int, by: Decimal | int) -> Decimal:
    """The integer quotient of numbers without digits after the point."""
    if by == 0:
        raise ValueError("division by zero; divide by nullif(divisor, 0) to get null instead")
    quotient = abs(int(number)) // abs(int(by))
    return Decimal(quotient if (number < 0) == (by < 0) else -quotient)


def _hash_of(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")


def _whole_numbers(types: Types) -> Signature:
    whole = [as_decimal(type_) for type_ in numbers(types)]
    if not all(pa.types.is_decimal(type_) and type_.scale == 0 for type_ in whole):
        raise TypeMismatch("it takes numbers without digits after the point")
    return Signature(whole[0], tuple(whole))


_ONE = take_types(FLOAT64, FLOAT64)
_TWO = take_types(FLOAT64, FLOAT64, FLOAT64)
NUMBER_FUNCTIONS: dict[str, ArrowFunction] = {
    "even": ArrowFunction(_ONE, _of_arrays(_even)),
    "fdiv": ArrowFunction(_TWO, _of_arrays(_quotient)),
    "fmod": ArrowFunction(_TWO, _of_arrays(_remainder)),
    "integer_quotient": ArrowFunction(
        Function(2, 2, _whole_numbers, "integer or decimal, integer or decimal", "as the first, a decimal"),
        _by_digits(_integer_quotient),
    ),
    "hash_bytes": ArrowFunction(take_types(pa.uint64(), pa.binary()), by_value(_hash_of, pa.uint64())),
    "gamma": ArrowFunction(_ONE, by_value(_gamma, FLOAT64)),
    "lgamma": ArrowFunction(_ONE, by_value(_log_gamma, FLOAT64)),
    "nextafter": ArrowFunction(_TWO, _of_arrays(np.nextafter)),
    "signbit": ArrowFunction(take_types(BOOL, FLOAT64), _of_arrays(np.signbit)),
}
