"""The radix sort of words and of entries, with and without partitioning, compared with numpy. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sorted_rows import sort

RNG = np.random.default_rng(7)
N = 150_000


def make_skewed_words(n: int) -> np.ndarray:
    return (RNG.zipf(1.3, n) % 10_000).astype(np.int64)


SHAPES = {
    "uniform": RNG.integers(-(2**62), 2**62, N),
    "all bits": RNG.integers(-(2**63), 2**63 - 1, N),
    "dense": RNG.permutation(N),
    "few": RNG.integers(0, 3, N),
    "constant": np.full(N, 7),
    "skewed": make_skewed_words(N),
    "one far away": np.append(RNG.permutation(N - 1), 2**62),
    "ascending": np.arange(N),
    "descending": np.arange(N)[::-1].copy(),
    "ascending but for the last": np.append(np.arange(1, N), 0),
    "descending but for the last": np.append(np.arange(1, N)[::-1], N),
    "low bits alike": RNG.integers(0, 2**20, N) << 40,
    "two clusters": np.where(RNG.random(N) < 0.5, RNG.integers(0, 100, N), 2**60 + RNG.integers(0, 100, N)),
    "close": 2**40 + RNG.integers(0, 2**13, N) * (2**30) + RNG.integers(0, 2, N),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_rows", [1, 24, 25, 2047, 40_000, N])
@pytest.mark.parametrize("descending", [False, True])
def test_q2_words(shape: str, n_rows: int, descending: bool) -> None:
    values = SHAPES[shape][-n_rows:]
    got = sort(pa.table({"k": values}), [("k", descending, False)])["k"].to_numpy()
    wanted = np.sort(values)
    np.testing.assert_array_equal(got, wanted[::-1] if descending else wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_q2_words_and_entries_without_a_kernel(level: int, shape: str) -> None:
    """Below x86-64-v4 words are sorted by radix, and so are few entries."""
    for n_rows in (65, 2048, 2049, N):
        values = SHAPES[shape][-n_rows:]
        np.testing.assert_array_equal(sort(pa.table({"k": values}), [("k", False, False)])["k"], np.sort(values))
        got = sort(pa.table({"k": values, "row": np.arange(n_rows)}), [("k", False, False)])
        np.testing.assert_array_equal(got["row"], np.argsort(values, kind="stable"))


@pytest.mark.each_value
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_rows", [1, 24, 25, 2047, 2048, 2049, 40_000, N])
@pytest.mark.parametrize("descending", [False, True])
def test_q2_entries_are_stable(shape: str, n_rows: int, descending: bool) -> None:
    values = SHAPES[shape][-n_rows:]
    got = sort(pa.table({"k": values, "row": np.arange(n_rows)}), [("k", descending, False)])
    order = np.argsort(-values.astype(object) if descending else values, kind="stable")
    np.testing.assert_array_equal(got["row"].to_numpy(), order)
    np.testing.assert_array_equal(got["k"].to_numpy(), values[order])
