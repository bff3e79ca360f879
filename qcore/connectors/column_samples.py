"""Statistics of columns in memory, estimated from a sample of their rows.

The sample is 256 blocks of 256 rows, spread evenly over the column. Blocks touch few pages of memory, which matters for
tables mapped from files. Rows near one another often have equal values, so equal values of one block count once. The
random sample of the estimator consists of the pairs of a block and a value in it.
"""

from __future__ import annotations

import bisect
import datetime
import itertools
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from qcore.connectors.base import ColumnStatistics
from qcore.connectors.column_order import is_ascending
from qcore.connectors.soundness import needs_a_pass
from qcore.errors import ExecutionError
from qcore.expression.types import UUID, is_numeric
from qcore.late_module import late_module
from qcore_ext.data.checked_stream import check_batch

pc = late_module("pyarrow.compute")

BLOCKS = 256
BLOCK_ROWS = 256
SAMPLE_ROWS = BLOCKS * BLOCK_ROWS
EPOCH = datetime.datetime(1970, 1, 1)
PER_MICROSECOND = {"s": 1e-6, "ms": 1e-3, "us": 1.0, "ns": 1e3}


class SampledStatistics(Mapping[str, ColumnStatistics]):
    """Statistics of each column of a Table in memory, computed at the first access. Any thread may use it.

    Statistics are exact if the sample covers the column. Columns of lists, structs and maps, and columns of several
    dictionaries, have only their number of nulls.
    """

    _known: ClassVar[dict[tuple[int, bool], tuple[weakref.ref[pa.Table], SampledStatistics]]] = {}

    def __init__(self, data: pa.Table, trusted: bool) -> None:
        self._data = data
        self._trusted = trusted
        self._found: dict[str, ColumnStatistics] = {}
        self._ordered: dict[str, bool] = {}

    @classmethod
    def of(cls, data: pa.Table, trusted: bool) -> SampledStatistics:
        """Return the statistics of a Table, the same object each time while the Table lives.

        Parameters
        ----------
        data : pyarrow.Table
            The table.
        trusted : bool
            Read it without checks. Otherwise the sampled rows are checked, and a malformed column has no statistics:
            the query that reads it gets the error.
        """
        key = id(data), trusted
        held = cls._known.get(key)
        if held is not None and held[0]() is data:
            return held[1]
        # Equal columns, but not the object itself, which would never be freed.
        statistics = cls(data.replace_schema_metadata(), trusted)
        cls._known[key] = weakref.ref(data, lambda _: cls._known.pop(key, None)), statistics
        return statistics

    def __getitem__(self, name: str) -> ColumnStatistics:
        found = self._found.get(name)
        if found is None:
            index = self._data.schema.get_field_index(name)
            if index < 0:
                raise KeyError(name)
            found = self._found[name] = sample_statistics(self._data.column(index), self._trusted)
        return found

    def is_ordered(self, name: str) -> bool:
        """Return whether the rows are in ascending order of a column without nulls. The first call reads the column."""
        found = self._ordered.get(name)
        if found is None:
            found = self._ordered[name] = is_ascending(self._data.column(name))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._data.column_names)

    def __len__(self) -> int:
        return int(self._data.num_columns)


def sample_statistics(values: pa.ChunkedArray, trusted: bool = True) -> ColumnStatistics:
    """Estimate the statistics of a column from at most SAMPLE_ROWS of its rows. The number of nulls is exact."""
    nulls = values.null_count
    n_values = len(values) - nulls
    if n_values == 0:
        return ColumnStatistics(null_count=nulls, distinct_count=0)
    if pa.types.is_nested(values.type) and not pa.types.is_run_end_encoded(values.type):
        return ColumnStatistics(null_count=nulls)
    whole = len(values) <= SAMPLE_ROWS
    try:
        sample = _sample(values, trusted)
        if sample is None:
            return ColumnStatistics(null_count=nulls)
        distinct, most_common_share = _count_values(sample, n_values, whole)
        low, high = (None, None) if pa.types.is_dictionary(values.type) else _bounds(sample)
    except (pa.ArrowException, ExecutionError):
        return ColumnStatistics(null_count=nulls)
    return ColumnStatistics(low, high, nulls, distinct, is_sampled=not whole, most_common_share=most_common_share)


def duj1(n_values: float, n_sampled: int, distinct: int, once: int) -> float:
    """Estimate the distinct values among `n_values` from a random sample (Haas and Stokes, 1998: estimator Duj1).

    Parameters
    ----------
    n_values : float
        Number of values in all.
    n_sampled : int
        Number of values in the sample.
    distinct : int
        Number of distinct values in the sample.
    once : int
        Number of values that occur once in the sample. Without any, the sample has all distinct values.
    """
    missed = max(0.0, 1.0 - n_sampled / n_values)
    return distinct / (1.0 - missed * once / n_sampled)


def _sample(values: pa.ChunkedArray, trusted: bool) -> pa.Array | None:
    """The sampled rows, in order; None for a column whose chunks have different dictionaries."""
    blocks = list(_blocks(values))
    if not trusted and needs_a_pass(values.type):
        for block in blocks:
            check_batch(pa.RecordBatch.from_arrays([block], ["sample"]))
    if pa.types.is_dictionary(values.type):
        # Codes are equal if and only if their values are.
        if len({_address(block.dictionary) for block in blocks}) > 1:
            return None
        blocks = [block.indices for block in blocks]
    if pa.types.is_run_end_encoded(values.type):
        blocks = [pc.run_end_decode(block) for block in blocks]
    return pa.concat_arrays(blocks)


def _address(array: pa.Array) -> tuple[Any, ...]:
    """The addresses of an array's buffers."""
    buffers = [None if buffer is None else buffer.address for buffer in array.buffers()]
    return array.offset, len(array), *buffers


def _blocks(values: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Slices of the chunks; a block that begins in one chunk and ends in another is several slices."""
    n_rows = len(values)
    if n_rows <= SAMPLE_ROWS:
        yield from values.chunks
        return
    chunks = values.chunks
    starts = list(itertools.accumulate(map(len, chunks), initial=0))
    for block in range(BLOCKS):
        start = block * (n_rows - BLOCK_ROWS) // (BLOCKS - 1)
        end = start + BLOCK_ROWS
        number = bisect.bisect_right(starts, start) - 1
        while start < end:
            piece = chunks[number].slice(start - starts[number], end - start)
            start += len(piece)
            number += 1
            if len(piece):
                yield piece


def _count_values(sample: pa.Array, n_values: int, whole: bool) -> tuple[int, float | None]:
    """Estimate the number of distinct values, and the share of the most common one: None if the sample has none."""
    # pyarrow encodes the bytes of UUIDs, but no UUIDs.
    encoded = (sample.storage if sample.type == UUID else sample).dictionary_encode()
    distinct = len(encoded.dictionary)
    if distinct == 0:
        return 0, None
    n_sampled = len(sample) - sample.null_count
    codes = np.asarray(encoded.indices.fill_null(distinct))
    share = float(np.bincount(codes)[:distinct].max()) / n_sampled
    if whole:
        return distinct, share
    codes = np.sort(codes.reshape(BLOCKS, BLOCK_ROWS), axis=1)
    is_first = np.ones(codes.shape, bool)
    is_first[:, 1:] = codes[:, 1:] != codes[:, :-1]
    blocks = np.bincount(codes[is_first], minlength=distinct)[:distinct]
    n_pairs = int(blocks.sum())
    found = duj1(n_values * (n_pairs / n_sampled), n_pairs, distinct, int((blocks == 1).sum()))
    return min(n_values, max(distinct, round(found))), share


def _bounds(sample: pa.Array) -> tuple[Any, Any]:
    """The smallest and largest value, for types whose values are ordered like numbers."""
    type = sample.type
    is_instant = pa.types.is_timestamp(type)
    if not (is_instant or pa.types.is_date(type) or is_numeric(type)):
        return None, None
    ends = pc.min_max(sample.cast(pa.int64()) if is_instant else sample)
    try:
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if is_instant:
            unit = PER_MICROSECOND[type.unit]
            low, high = (EPOCH + datetime.timedelta(microseconds=end / unit) for end in (low, high))
    except (OverflowError, ValueError):  # outside of Python's dates
        return None, None
    return (low, high) if low == low and high == high else (None, None)
