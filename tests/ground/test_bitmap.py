"""Bits that are gathered, counted, listed and cleared many at a time, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from qcore_testing.units import clear_missing, gather_bits, set_rows


def pack(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits, bitorder="little")


def unpack(data: bytes) -> np.ndarray:
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(bool)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 63, 64, 65, 128, 2048, 5000])
def test_bits_of_rows(n: int) -> None:
    rng = np.random.default_rng(n)
    bits = rng.random(3001) < 0.7
    rows = rng.integers(0, 3001, n).astype(np.uint32)
    found = unpack(gather_bits(pack(bits), rows))
    assert (found[:n] == bits[rows]).all()
    assert found[n:].all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 2048, 5000])
def test_rows_whose_bits_are_set(n: int, share: float) -> None:
    """Bits behind the last row are set too, and do not count."""
    bits = np.random.default_rng(n).random(n) < share
    given = pack(np.concatenate([bits, np.ones(-n % 8, bool)]))
    expected = np.flatnonzero(bits).tolist()
    assert set_rows(given, n) == (expected, len(expected))
    assert set_rows(None, n) == (list(range(n)), n)


def test_bits_that_are_cleared_where_others_are() -> None:
    rng = np.random.default_rng(1)
    for at in range(17):
        for start in range(17):
            for n in (0, 1, 5, 8, 9, 16, 23, 64, 101):
                bits, before = rng.random(start + n) < 0.6, rng.random(at + n + 9) < 0.8
                expected = before.copy()
                expected[at : at + n] &= bits[start:]
                given = pack(bits) if len(bits) else np.zeros(1, np.uint8)
                found = unpack(clear_missing(pack(before), at, given, start, n))
                assert (found[: len(before)] == expected).all(), (at, start, n)
