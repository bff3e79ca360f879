"""Whether the rows of a table in memory are in the order of a column."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from qcore.connectors.arrow import ArrowTable
from qcore.connectors.column_order import PIECE_VALUES, is_ascending

I64 = pa.int64()
TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), I64, pa.uint64()]


def chunks_of(values: Sequence[Any], *cuts: int, type: pa.DataType = I64) -> pa.ChunkedArray:
    ends = [0, *cuts, len(values)]
    return pa.chunked_array([pa.array(values[a:b], type) for a, b in itertools.pairwise(ends)], type)


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_integers_of_each_width(type: pa.DataType) -> None:
    low = -(2 ** (type.bit_width - 1)) if pa.types.is_signed_integer(type) else 0
    high = low + 2**type.bit_width - 1
    assert is_ascending(chunks_of([low, low, 0, 1, 1, high], type=type))
    assert not is_ascending(chunks_of([low, high, low], type=type))
    assert not is_ascending(chunks_of([low, high, low], 2, type=type))


@pytest.mark.parametrize("type", [pa.date32(), pa.timestamp("s"), pa.timestamp("ns", "UTC")], ids=str)
def test_dates_and_timestamps(type: pa.DataType) -> None:
    stored = pa.int32() if pa.types.is_date32(type) else I64
    assert is_ascending(pa.chunked_array([pa.array([-5, 0, 7], stored).view(type)]))
    assert not is_ascending(pa.chunked_array([pa.array([-5, -6, 7], stored).view(type)]))


@pytest.mark.parametrize("at", [0, 1, PIECE_VALUES - 1, PIECE_VALUES, PIECE_VALUES + 1, 3 * PIECE_VALUES])
@pytest.mark.parametrize("cuts", [(), (1,), (PIECE_VALUES,), (5, 5, 2 * PIECE_VALUES + 1)])
def test_one_value_that_is_smaller_than_the_one_before(at: int, cuts: tuple[int, ...]) -> None:
    values = np.arange(3 * PIECE_VALUES + 2)
    assert is_ascending(chunks_of(values, *cuts))
    values[at + 1] = values[at] - 1
    assert not is_ascending(chunks_of(values, *cuts))


def test_slices_are_read_from_their_start() -> None:
    values = chunks_of([9, 1, 2, 3, 0], 2)
    assert is_ascending(values.slice(1, 3))
    assert not is_ascending(values)


def test_nulls_and_other_types_have_no_order() -> None:
    assert not is_ascending(chunks_of([1, None, 2]))
    for values in ([1.0, 2.0], ["a", "b"], [True, True], [None, None]):
        assert not is_ascending(pa.chunked_array([pa.array(values)]))
    assert is_ascending(chunks_of([]))


def test_a_table_reads_a_column_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from qcore.connectors import column_samples

    read: list[int] = []
    monkeypatch.setattr(column_samples, "is_ascending", lambda values: not read.append(len(values)))
    data = pa.table({"k": [1, 2, 3]})
    assert ArrowTable(data).row_order("k") and ArrowTable(data).row_order("k")
    assert read == [3]
