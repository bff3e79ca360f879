"""The kernel that sorts words, compared with numpy. SPEC Q2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from qcore_ext.ground.dispatch import use_level
from qcore_testing.units import has_sort_kernel, sort_words

RNG = np.random.default_rng(5)
MOST = np.uint64(2**64 - 1)
# Up to 64 words are sorted in registers. 32 words of each end are held while 32 at a time are divided. The pivot of
# 1,024 words or more is the median of 64 words.
SIZES = [*range(200), 255, 256, 257, 1023, 1024, 1025, 5000, 70_000]


@pytest.fixture
def kernel() -> Iterator[None]:
    """The kernel is used in one test."""
    if not use_level(4):
        pytest.skip("only x86-64-v4 has a kernel that sorts words")
    yield
    assert any(use_level(best) for best in (4, 3, 2))


def test_levels(level: int) -> None:
    assert has_sort_kernel() == (level == 4)


def make_words(shape: str, n: int) -> np.ndarray:
    """n words."""
    words = {
        "any": lambda: RNG.integers(0, 2**64, n, dtype=np.uint64),
        "signs": lambda: RNG.integers(2**63 - 5, 2**63 + 5, n, dtype=np.uint64),
        "few": lambda: RNG.integers(0, 3, n, dtype=np.uint64),
        "equal": lambda: np.full(n, 7, np.uint64),
        "most": lambda: np.full(n, MOST),
        "ends": lambda: RNG.choice(np.array([0, 1, MOST - np.uint64(1), MOST], np.uint64), n),
        "ascending": lambda: np.arange(n, dtype=np.uint64),
        "descending": lambda: np.arange(n, dtype=np.uint64)[::-1],
        "waves": lambda: np.arange(n, dtype=np.uint64) % np.uint64(17),
        "halves": lambda: np.append(np.arange(n // 2), np.arange(n - n // 2)).astype(np.uint64),
    }[shape]()
    return np.ascontiguousarray(words)


SHAPES = ["any", "signs", "few", "equal", "most", "ends", "ascending", "descending", "waves", "halves"]


def check_sorted(words: np.ndarray) -> None:
    """Fail unless the words are sorted, and the words around them are unchanged."""
    around = np.array([3, MOST, 0, 5, MOST, 1, 2, 9], np.uint64)
    given = np.concatenate([around, words, around])
    sort_words(given, len(around), len(words))
    np.testing.assert_array_equal(given, np.concatenate([around, np.sort(words), around]))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("shape", SHAPES)
def test_q2_words_of_each_number(shape: str) -> None:
    for n in SIZES:
        check_sorted(make_words(shape, n))


def divide(words: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The order of n words, which are numbers from 0 on, after the kernel has divided them. Naive twin of
    divide_words in native/sorting_body.h.
    """
    places, low, high = words.copy(), 0, len(words)
    begin, end = 32, len(words) - 32

    def put(lanes: np.ndarray) -> None:
        nonlocal low, high
        n_below = int(below[lanes].sum())
        places[low : low + n_below] = lanes[below[lanes]]
        places[high - len(lanes) + n_below : high] = lanes[~below[lanes]]
        low, high = low + n_below, high - len(lanes) + n_below

    held = np.concatenate([words[:32], words[end:]]).reshape(8, 8)
    while end - begin >= 32:
        if begin - low <= high - end:
            step, begin = words[begin : begin + 32], begin + 32
        else:
            step, end = words[end - 32 : end], end - 32
        for lanes in step.reshape(4, 8):
            put(lanes)
    n_whole = (end - begin) // 8 * 8
    put(words[begin + n_whole : end])
    for lanes in [*words[begin : begin + n_whole].reshape(-1, 8), *held]:
        put(lanes)
    return places


def find_bad_medians(n: int) -> np.ndarray:
    """n >= 1,024 different words, of which each median of a sample is one of the smallest."""
    values, left, n_valued = np.zeros(n, np.uint64), np.arange(n), 0
    while len(left) > n // 2:
        sampled = left[np.arange(64) * (len(left) // 64) + len(left) // 64 // 2]
        sampled = sampled[values[sampled] == 0]
        values[sampled] = np.arange(n_valued + 1, n_valued + 1 + len(sampled))
        n_valued += len(sampled)
        pivot = np.sort(values[left[np.arange(64) * (len(left) // 64) + len(left) // 64 // 2]])[32]
        below = (values > 0) & (values < pivot)
        left = divide(left, below)[int(below[left].sum()) :]
    values[values == 0] = np.arange(n_valued + 1, n + 1)
    return values


@pytest.mark.usefixtures("kernel")
def test_q2_divisions_at_bad_medians_come_to_an_end() -> None:
    """After a number of medians the kernel divides at the middle of the words' range, also if most are on one side."""
    words = find_bad_medians(4096)
    check_sorted(words)
    check_sorted(words << np.uint64(52))
    check_sorted(np.uint64(1) << (words % np.uint64(64)))
