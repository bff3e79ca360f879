"""Dense keys in a bitmap with ranks: word boundaries, gaps and duplicates. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from joins import hash_join

# Codes around the words of 64 bits; the smallest is code 0.
BORDERS = [0, 1, 62, 63, 64, 65, 126, 127, 128, 191, 192, 4095, 4096]


def payloads(build_keys: np.ndarray, probe_keys: np.ndarray, kind: str = "inner") -> list[tuple[int, int]]:
    """The numbers of the probe row and the build row of each pair, in order."""
    build = pa.table({"b": build_keys, "row": np.arange(len(build_keys))})
    probe = pa.table({"p": probe_keys, "id": np.arange(len(probe_keys))})
    batches = hash_join(probe, build, kind, ["p"], ["b"], batch_rows=1 << 20)
    return [pair for batch in batches for pair in zip(batch["id"].to_pylist(), batch["row"].to_pylist(), strict=True)]


@pytest.mark.parametrize("largest", BORDERS)
def test_the_last_code_of_a_word(largest: int) -> None:
    codes = np.array([code for code in BORDERS if code <= largest])
    probe = np.arange(-2, largest + 3)
    expected = [(code + 2, number) for number, code in enumerate(codes.tolist())]
    for first in (0, -(2**40), 17):
        assert payloads(codes + first, probe + first) == expected
        # If the rows are in another order, ranks are not row numbers.
        turned = [(probe_row, len(codes) - 1 - row) for probe_row, row in expected]
        assert payloads(codes[::-1] + first, probe + first) == turned


@pytest.mark.parametrize("n_rows", [0, 1, 2047, 2048, 2049, 70_000])
def test_unique_keys_with_gaps(n_rows: int) -> None:
    """70,000 rows over four million codes. The ranks are filled in several sections."""
    rng = np.random.default_rng(n_rows)
    span = 64 * max(n_rows, 1000) - 2
    build = rng.choice(span, n_rows, replace=False)
    probe = np.concatenate([rng.integers(-10, span + 10, 5000), build[:2000]])
    row_of = {code: row for row, code in enumerate(build.tolist())}
    expected = [(number, row_of[code]) for number, code in enumerate(probe.tolist()) if code in row_of]
    assert payloads(build, probe) == expected


def test_keys_that_repeat() -> None:
    rng = np.random.default_rng(4)
    build = rng.choice(np.array([*BORDERS, 100_000]), 3000)
    probe = np.array([*BORDERS, 100_000, 3, 99_999])
    expected = [(number, row) for number, code in enumerate(probe) for row in np.flatnonzero(build == code).tolist()]
    assert payloads(build, probe) == expected
    # Runs of equal keys in order: each group starts where its first row is.
    build = np.sort(build)
    expected = [(number, row) for number, code in enumerate(probe) for row in np.flatnonzero(build == code).tolist()]
    assert payloads(build, probe) == expected


@pytest.mark.parametrize("kind", ["left_semi", "left_anti"])
def test_only_whether_a_key_occurs(kind: str) -> None:
    rng = np.random.default_rng(5)
    build, probe = rng.integers(0, 9000, 4000), np.arange(-100, 9100)
    batches = hash_join(pa.table({"p": probe}), pa.table({"b": build}), kind, ["p"], ["b"])
    found = np.concatenate([batch["p"].to_numpy() for batch in batches])
    occurs = np.isin(probe, build)
    np.testing.assert_array_equal(found, probe[occurs if kind == "left_semi" else ~occurs])


@pytest.mark.parametrize("drivers", [2, 3])
@pytest.mark.parametrize("copies", [1, 2])
def test_codes_of_several_drivers(copies: int, drivers: int) -> None:
    """Each driver sets the bits of its rows in a bitmap of its own."""
    keys = np.tile(np.random.default_rng(drivers).permutation(60_000) * 3, copies)
    build = pa.table({"b": keys, "row": np.arange(len(keys))})
    probe = pa.table({"p": np.arange(0, 180_000, 2)})
    batches = hash_join(probe, build, "inner", ["p"], ["b"], drivers, 2000)
    got = sorted(row for batch in batches for row in batch["row"].to_pylist())
    assert got == np.flatnonzero(keys % 2 == 0).tolist()
