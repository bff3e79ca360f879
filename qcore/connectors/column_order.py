"""Whether the rows of a table in memory are in the order of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qcore.plan.planning_time import check_planning

# Values that are compared at a time: they stay in the first-level cache.
PIECE_VALUES = 4096
# Values between two looks whether planning has been stopped.
LOOK_VALUES = 1 << 22


def is_ascending(values: pa.ChunkedArray) -> bool:
    """Return whether no value is null or smaller than the value before it. It reads up to the first that is.

    False for all types but integers, dates of days and timestamps.
    """
    if values.null_count > 0 or not _is_counted(values.type):
        return False
    last: Any = None
    n_looked = 0
    for chunk in values.chunks:
        numbers = _numbers(chunk)
        if len(numbers) == 0:
            continue
        if last is not None and numbers[0] < last:
            return False
        last = numbers[-1]
        for at in range(0, len(numbers), PIECE_VALUES):
            piece = numbers[at : at + PIECE_VALUES + 1]
            if (piece[1:] < piece[:-1]).any():
                return False
            n_looked += len(piece)
            if n_looked >= LOOK_VALUES:
                check_planning()
                n_looked = 0
    return True


def _is_counted(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type))


def _numbers(chunk: pa.Array) -> npt.NDArray[np.integer[Any]]:
    """The values as integers, without a copy."""
    if not pa.types.is_integer(chunk.type):
        chunk = chunk.view(pa.int32() if pa.types.is_date32(chunk.type) else pa.int64())
    return np.asarray(chunk.to_numpy(zero_copy_only=True))
