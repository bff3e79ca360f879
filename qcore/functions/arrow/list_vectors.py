"""Lists of numbers as vectors: products, lengths and angles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from qcore.expression.types import FLOAT64, TypeMismatch, Types, is_list_of_any_layout, is_numeric
from qcore.functions.arrow.list_layouts import large_lists, spans
from qcore.functions.arrow.scalar import ArrowFunction, Kernel, as_array, n_rows
from qcore.functions.signatures import Function, Signature

_VECTOR = pa.list_(FLOAT64)
_DIMENSIONS = 3


def _pairs(one: pa.Array | pa.Scalar, other: pa.Array | pa.Scalar) -> tuple[np.ndarray, ...]:
    """The concatenated numbers of the first and of the second lists, the row of each number, and whether each row has
    two lists. ValueError for lists of different lengths, and for nulls in them.
    """
    n = n_rows([one, other])
    arrays = [as_array(value, n).cast(_VECTOR) for value in (one, other)]
    known = np.logical_and(*(array.is_valid().to_numpy(zero_copy_only=False) for array in arrays))
    lists = [large_lists(array.filter(pa.array(known))) for array in arrays]
    lengths, others = (spans(array)[1] for array in lists)
    if (lengths != others).any():
        at = int(np.flatnonzero(lengths != others)[0])
        raise ValueError(f"the lists must have the same length, not {lengths[at]} and {others[at]}")
    values = [array.flatten() for array in lists]
    if any(array.null_count for array in values):
        raise ValueError("a list has a null; remove nulls with list_filter")
    a, b = (array.to_numpy(zero_copy_only=False) for array in values)
    return a, b, np.repeat(np.flatnonzero(known), lengths), known


def _sums(measure: Callable[[np.ndarray, np.ndarray], np.ndarray], finish: Callable[..., np.ndarray]) -> Kernel:
    """A kernel that sums `measure` over the pairs of numbers of each row, and applies `finish` to the sums."""

    def kernel(one: pa.Array | pa.Scalar, other: pa.Array | pa.Scalar) -> pa.Array:
        a, b, rows, known = _pairs(one, other)
        return pa.array(finish(np.bincount(rows, measure(a, b), len(known))), FLOAT64, mask=~known)

    return kernel


def _cosine(one: pa.Array | pa.Scalar, other: pa.Array | pa.Scalar) -> tuple[np.ndarray, np.ndarray]:
    """The cosine of the angle, and a mask of rows without one: nulls and empty lists."""
    a, b, rows, known = _pairs(one, other)
    together, first, second = (np.bincount(rows, product, len(known)) for product in (a * b, a * a, b * b))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.clip(together / (np.sqrt(first) * np.sqrt(second)), -1.0, 1.0)
    return cosine, ~known | (np.bincount(rows, minlength=len(known)) == 0)


def _cosine_similarity(one: pa.Array | pa.Scalar, other: pa.Array | pa.Scalar) -> pa.Array:
    cosine, missing = _cosine(one, other)
    return pa.array(cosine, FLOAT64, mask=missing)


def _cosine_distance(one: pa.Array | pa.Scalar, other: pa.Array | pa.Scalar) -> pa.Array:
    cosine, missing = _cosine(one, other)
    return pa.array(1 - cosine, FLOAT64, mask=missing)


def _cross_product(one: pa.Array | pa.Scalar, other: pa.Array | pa.Scalar) -> pa.Array:
    a, b, _, known = _pairs(one, other)
    if len(a) != _DIMENSIONS * known.sum():
        raise ValueError(f"each list must have {_DIMENSIONS} numbers")
    made = np.zeros((len(known), _DIMENSIONS))
    made[known] = np.cross(a.reshape(-1, _DIMENSIONS), b.reshape(-1, _DIMENSIONS))
    offsets = pa.array(np.arange(len(known) + 1, dtype=np.int32) * _DIMENSIONS)
    return pa.ListArray.from_arrays(offsets, pa.array(made.ravel()), mask=pa.array(~known))


def _two_vectors(result: pa.DataType) -> Function:
    def resolve(types: Types) -> Signature:
        for type_ in types:
            is_vector = is_list_of_any_layout(type_) and (
                is_numeric(type_.value_type) or pa.types.is_null(type_.value_type)
            )
            if not is_vector and not pa.types.is_null(type_):
                raise TypeMismatch("it takes two lists of numbers")
        return Signature(result, (_VECTOR, _VECTOR))

    return Function(2, 2, resolve, "list of numbers, list of numbers", "number" if result == FLOAT64 else "list")


_KERNELS: dict[str, Kernel] = {
    "list_distance": _sums(lambda a, b: (a - b) ** 2, np.sqrt),
    "list_inner_product": _sums(np.multiply, lambda sums: sums),
    "list_negative_inner_product": _sums(np.multiply, np.negative),
    "list_cosine_similarity": _cosine_similarity,
    "list_cosine_distance": _cosine_distance,
}
LIST_VECTORS: dict[str, ArrowFunction] = {
    **{name: ArrowFunction(_two_vectors(FLOAT64), kernel) for name, kernel in _KERNELS.items()},
    "array_cross_product": ArrowFunction(_two_vectors(_VECTOR), _cross_product),
}
