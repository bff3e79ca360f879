"""Pairs are in the order of the probe rows, then of the build rows. A batch may end within a group. SPEC V13, Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from joins import hash_join

PAIRS_MAX = 65_536


def pairs_of(probe_keys: np.ndarray, build_keys: np.ndarray, kind: str = "inner") -> list[pa.RecordBatch]:
    """Batches with the row numbers of both sides. Keys below 0 are null."""
    sides = [
        pa.table({name: pa.array(keys, mask=keys < 0), f"{name}_row": np.arange(len(keys))})
        for name, keys in (("p", probe_keys), ("b", build_keys))
    ]
    return hash_join(*sides, kind, ["p"], ["b"])


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[int, int | None]]:
    return [
        pair for batch in batches for pair in zip(batch["p_row"].to_pylist(), batch["b_row"].to_pylist(), strict=True)
    ]


def expected_pairs(probe: np.ndarray, build: np.ndarray, keeps_probe: bool) -> list[tuple[int, int | None]]:
    rows: dict[int, list[int]] = {}
    for row, key in enumerate(build.tolist()):
        rows.setdefault(key, []).append(row)
    none: list[int | None] = [None] if keeps_probe else []
    return [
        (row, other)
        for row, key in enumerate(probe.tolist())
        for other in (rows.get(key) if key >= 0 else None) or none
    ]


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("n_rows", [0, 1, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("spread", [1, 1 << 40], ids=["ranks", "codes"])
@pytest.mark.parametrize("unique", [True, False])
def test_pairs_in_order(kind: str, n_rows: int, spread: int, unique: bool) -> None:
    rng = np.random.default_rng(n_rows)
    build = rng.permutation(1500) if unique else rng.integers(-2, 1500, 2500)
    probe = rng.integers(-50, 3000, n_rows)
    got = rows_of(pairs_of(probe * spread, build * spread, kind))
    assert got == expected_pairs(probe, build, kind == "left")


@pytest.mark.parametrize("kind", ["inner", "left"])
@pytest.mark.parametrize("n_matches", [PAIRS_MAX - 1, PAIRS_MAX, PAIRS_MAX + 1])
def test_a_batch_fills_within_a_group(kind: str, n_matches: int) -> None:
    """V13: the next batch continues after the last pair."""
    build = np.concatenate([np.full(n_matches, 7), [8, 8]])
    probe = np.array([8, 7, 9, 7, 8])
    batches = pairs_of(probe, build, kind)
    assert rows_of(batches) == expected_pairs(probe, build, kind == "left")
    assert {len(batch) for batch in batches[:-1]} == {PAIRS_MAX}


def test_small_batches_of_pairs_are_moved_to_small_buffers() -> None:
    """Few of many rows match. Their row numbers and values stay right."""
    probe = np.arange(50_000)
    for build in (np.arange(49_000, 60_000), np.array([49_999] * 3), np.arange(0, 50_000, 49)):
        assert rows_of(pairs_of(probe, build)) == expected_pairs(probe, build, False)


@pytest.mark.parametrize("kind", ["right", "full", "right_semi", "right_anti"])
@pytest.mark.parametrize("unique", [True, False])
def test_build_rows_are_marked_by_group(kind: str, unique: bool) -> None:
    """All rows of the groups that were found are marked, and no others."""
    rng = np.random.default_rng(3)
    build = rng.permutation(3000) if unique else rng.integers(0, 1500, 3000)
    probe = rng.integers(-5, 700, 2100)
    found = np.isin(build, probe)
    wanted = found if kind == "right_semi" else ~found
    batches = pairs_of(probe, build, kind)
    rows = [row for batch in batches for row in batch["b_row"].to_pylist()]
    if kind in ("right", "full"):
        given = rows_of(batches)
        assert given[: len(given) - wanted.sum()] == expected_pairs(probe, build, kind == "full")
        rows = rows[len(given) - wanted.sum() :]
    assert rows == np.flatnonzero(wanted).tolist()
