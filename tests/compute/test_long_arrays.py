"""Long arrays are concatenated in pieces, with the result of pyarrow's concatenation (SPEC V7)."""

from __future__ import annotations

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pytest

from qcore_ext.compute.long_arrays import concatenate

N_BYTES = 5 << 20


def _lists(values: pa.Array, lengths: list[int], kind: type = pa.ListArray) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    return kind.from_arrays(pa.array([*offsets[:-1], offsets[-1]], pa.int32()), values[: offsets[-1]])


N = N_BYTES // 8
NUMBERS = pa.array(np.arange(N), pa.int64())
SOME_NULL = pa.array(np.arange(N), pa.int64(), mask=np.arange(N) % 7 == 3)
TEXTS = pa.array([str(i) * 40 for i in range(40_000)] + [None, ""])
MAPS = pa.MapArray.from_arrays(pa.array([0, 3, 3, N // 2, N], pa.int32()), NUMBERS, SOME_NULL)
ARRAYS = {
    "numbers": NUMBERS,
    "nulls": SOME_NULL,
    "booleans": pa.array(np.arange(N_BYTES * 8 + 8) % 3 == 0),
    "texts": TEXTS,
    "large texts": TEXTS.cast(pa.large_string()),
    "bytes": TEXTS.cast(pa.binary()),
    "decimals": SOME_NULL.cast(pa.decimal128(30, 2)),
    "times": pa.array([datetime.datetime(2020, 1, 1)] * 8).take(pa.array(np.arange(N) % 8)),
    "lists": _lists(SOME_NULL, [5, 0, N - 10, 5]),
    "null lists": pa.array([None, [1, None], [], list(range(N))] * 2, pa.list_(pa.int64())),
    "lists of texts": _lists(TEXTS, [5, 0, 30_000]),
    "large lists": _lists(NUMBERS, [5, 0, N - 10]).cast(pa.large_list(pa.int64())),
    "maps": MAPS,
    "structs": pa.StructArray.from_arrays([SOME_NULL, NUMBERS], ["a", "b"], mask=SOME_NULL.is_null()),
    "lists of maps": _lists(MAPS, [1, 3]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_v7_long_arrays_are_joined_in_parts(name: str) -> None:
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    whole = ARRAYS[name]
    n = len(whole)
    cuts = sorted({0, 1, n // 3, n // 2, n - 1, n})
    parts = [whole[start:end] for start, end in itertools.pairwise(cuts)] + [whole[n:]]
    made = concatenate(parts, look)
    made.validate(full=True)
    assert made.equals(pa.concat_arrays(parts))
    assert made.type == whole.type
    assert looks >= (1 if name in ("booleans", "large texts") else 2)


def test_v7_joining_stops_half_way() -> None:
    class Stopped(Exception):
        pass

    looks = iter(range(2))

    def look() -> None:
        if next(looks, None) is None:
            raise Stopped

    with pytest.raises(Stopped):
        concatenate([NUMBERS, NUMBERS], look)


def test_few_bytes_and_no_rows() -> None:
    assert concatenate([pa.array([1]), pa.array([], pa.int64()), pa.array([2])], int).to_pylist() == [1, 2]
    assert concatenate([pa.array([], pa.int64())], int).to_pylist() == []
