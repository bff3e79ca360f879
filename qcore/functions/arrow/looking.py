"""Loops in Python that regularly check whether their query is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from qcore_ext.compute.arrow_call import look

# Rows, and elements of a list, of a loop between two calls of look().
LOOK_ROWS = 64
LOOK_ELEMENTS = 16384
# Bytes of an array that are converted to Python values in one call, which takes a few milliseconds.
_LIST_BYTES = 131072

Looking = TypeVar("Looking", bound=Callable[..., Any])


def that_looks(kernel: Looking) -> Looking:
    """The kernel, marked as one that calls look() itself: it gets whole batches, and is not cut into pieces by time."""
    kernel.looks = True  # type: ignore[attr-defined]
    return kernel


def look_between(values: Sequence[Any], between: int = LOOK_ELEMENTS) -> Iterator[Any]:
    """Iterate over the values, with a call of look() before every `step` of them."""
    for start in range(0, len(values), between):
        look()
        yield from values[start : start + between]


def pylist(array: pa.Array) -> list[Any]:
    """array.to_pylist(), with calls of look() between pieces."""
    look()
    if array.nbytes <= _LIST_BYTES or len(array) == 0:
        return list(array.to_pylist())
    if len(array) > 1:
        half = len(array) // 2
        return pylist(array[:half]) + pylist(array[half:])
    if (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)) and array.null_count == 0:
        return [pylist(array.flatten())]
    return list(array.to_pylist())
