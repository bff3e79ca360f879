"""Statistics of the elements of lists. Aggregates that the engine does not have are computed with them.

Null elements are ignored. Moments are taken about the mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from qcore.expression.types import FLOAT64, STRING, TypeMismatch, Types, is_list_of_any_layout, is_numeric
from qcore.functions.arrow.list_layouts import large_lists
from qcore.functions.arrow.looking import LOOK_ROWS, look_between, pylist
from qcore.functions.arrow.nested_values import encode_value
from qcore.functions.arrow.scalar import ArrowFunction, Kernel
from qcore.functions.signatures import Function, Signature


def _of_numbers(statistic: Callable[[np.ndarray], float | None]) -> Kernel:
    """A kernel of a function of a list's numbers. The result is null for a null list and for a list of only nulls."""

    def kernel(lists: pa.Array | pa.Scalar) -> list[float | None]:
        lists = lists if isinstance(lists, pa.Array) else pa.array([lists.as_py()], lists.type)
        given = large_lists(lists).cast(pa.large_list(FLOAT64))
        made: list[float | None] = []
        for elements in given:
            values = elements.values
            present = None if values is None else values.drop_null().to_numpy(zero_copy_only=False)
            made.append(None if present is None or len(present) == 0 else statistic(present))
        return made

    return kernel


def _product(values: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.prod(values))


def _moments(values: np.ndarray) -> tuple[float, float, float]:
    """The second to fourth moments about the mean."""
    with np.errstate(over="ignore", invalid="ignore"):
        apart = values - values.mean()
        return float((apart**2).mean()), float((apart**3).mean()), float((apart**4).mean())


def _is_constant(values: np.ndarray) -> bool:
    return bool(values.min() == values.max())


def _skewness(values: np.ndarray) -> float | None:
    n = len(values)
    if n < 3 or _is_constant(values):
        return None
    second, third, _ = _moments(values)
    return math.sqrt(n * (n - 1)) / (n - 2) * third / second**1.5


def _kurtosis(values: np.ndarray) -> float | None:
    n = len(values)
    if n < 4 or _is_constant(values):
        return None
    second, _, fourth = _moments(values)
    return (n - 1) * ((n + 1) * fourth / second**2 - 3 * (n - 1)) / ((n - 2) * (n - 3))


def _kurtosis_of_all(values: np.ndarray) -> float | None:
    if _is_constant(values):
        return None
    second, _, fourth = _moments(values)
    return fourth / second**2 - 3


def _deviation(values: np.ndarray) -> float:
    """The median of the distances of values from their median."""
    return float(np.median(np.abs(values - np.median(values))))


def _mean(values: np.ndarray) -> float:
    return float(values.mean())


def _exact_sum(values: np.ndarray) -> float:
    """The sum, rounded once."""
    if not np.isfinite(values).all():
        return float(values.sum())
    return math.fsum(values.tolist())


def _median(values: np.ndarray) -> float:
    return float(np.median(values))


def _deviation_of_all(values: np.ndarray) -> float:
    return float(values.std())


def _variance_of_all(values: np.ndarray) -> float:
    return float(values.var())


def _variance(values: np.ndarray) -> float | None:
    return None if len(values) < 2 else float(values.var(ddof=1))


def _error_of_mean(values: np.ndarray) -> float:
    return float(values.std()) / math.sqrt(len(values))


def _spread(values: np.ndarray) -> float | None:
    return None if len(values) < 2 else float(values.std(ddof=1))


def _counts(elements: Any, type_: pa.DataType) -> dict[bytes, list[Any]]:
    """The distinct values and their counts, by bytes that are equal and ordered as the values are."""
    counted: dict[bytes, list[Any]] = {}
    for value in look_between(elements, LOOK_ROWS):
        if value is not None:
            counted.setdefault(encode_value(value, type_), [value, 0])[1] += 1
    return counted


def _entropy(lists: pa.Array) -> list[float | None]:
    made: list[float | None] = []
    for elements in look_between(pylist(lists), 1):
        counts = Counter(
            encode_value(value, lists.type.value_type) for value in look_between(elements or ()) if value is not None
        )
        total = counts.total()
        parts = [-count / total * math.log2(count / total) for count in counts.values()]
        made.append(None if elements is None else math.fsum(parts) + 0.0)
    return made


def _histogram(lists: pa.Array) -> list[Any]:
    made: list[Any] = []
    for elements in look_between(pylist(lists), 1):
        counted = _counts(elements or (), lists.type.value_type)
        made.append([tuple(counted[key]) for key in sorted(counted)] or None)
    return made


def _numbers(types: Types) -> Signature:
    (lists,) = types
    if not is_list_of_any_layout(lists) or not (is_numeric(lists.value_type) or pa.types.is_null(lists.value_type)):
        raise TypeMismatch("it takes numbers")
    return Signature(FLOAT64, (lists,))


def _any_list(result: Callable[[pa.DataType], pa.DataType]) -> Callable[[Types], Signature]:
    def resolve(types: Types) -> Signature:
        if not is_list_of_any_layout(types[0]):
            raise TypeMismatch("it takes a list")
        return Signature(result(types[0].value_type), (types[0],))

    return resolve


def _histogram_type(type_: pa.DataType) -> pa.DataType:
    # Arrow has no maps with keys of the null type. Nulls are not counted, so such a map has no key.
    return pa.map_(STRING if pa.types.is_null(type_) else type_, pa.uint64())


LIST_STATISTICS: dict[str, ArrowFunction] = {
    f"list_{name}": ArrowFunction(Function(1, 1, _numbers, "list of numbers", "number"), _of_numbers(statistic))
    for name, statistic in {
        "product": _product, "fsum": _exact_sum, "skewness": _skewness, "kurtosis": _kurtosis,
        "kurtosis_pop": _kurtosis_of_all,
        "mad": _deviation, "avg": _mean, "median": _median, "stddev_pop": _deviation_of_all, "stddev_samp": _spread,
        "var_pop": _variance_of_all, "var_samp": _variance, "sem": _error_of_mean,
    }.items()
}  # fmt: skip
LIST_STATISTICS["list_entropy"] = ArrowFunction(
    Function(1, 1, _any_list(lambda _: FLOAT64), "list", "number"), _entropy
)
LIST_STATISTICS["list_histogram"] = ArrowFunction(Function(1, 1, _any_list(_histogram_type), "list", "map"), _histogram)
