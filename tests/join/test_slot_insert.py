"""Entries that find no slot in their own partition, and groups of many rows, keys and drivers. SPEC Q2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from joins import hash_join

MASK = 2**64 - 1
# Slots of a partition (table_build), and of a table of 40,000 rows.
PARTITION_SLOTS = 16_384
SLOTS = 262_144


def mix(numbers: np.ndarray) -> np.ndarray:
    """The hash of codes (ground/native/mix.h)."""
    numbers = numbers.astype(np.uint64)
    with np.errstate(over="ignore"):
        for _ in range(2):
            numbers = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return numbers ^ (numbers >> np.uint64(32))


def codes_of_last_line(n: int, n_slots: int) -> np.ndarray:
    """Codes whose home slot is in the last line of the slots of a partition, or of the table."""
    numbers = np.arange(1, 6_000_000, dtype=np.uint64) << np.uint64(20)
    home = mix(numbers) & np.uint64(SLOTS - 1)
    chosen = numbers[(home % n_slots) >= n_slots - 4][:n]
    assert len(chosen) == n
    return chosen.astype(np.int64)


def pairs(
    build: pa.Table, probe: pa.Table, keys: list[str], drivers: int, kind: str = "inner"
) -> list[tuple[int, int]]:
    """Number of the probe row and of the build row of each pair, in order."""
    found: list[tuple[int, int]] = []
    for batch in hash_join(probe, build, kind, keys, keys, drivers, 8192, build_columns=["row"]):
        found += zip(batch["id"].to_pylist(), batch["row"].to_pylist(), strict=True)
    return sorted(found)


def expected_pairs(build: np.ndarray, probe: np.ndarray) -> list[tuple[int, int]]:
    rows: dict[Any, list[int]] = {}
    for number, key in enumerate(build.tolist()):
        rows.setdefault(key, []).append(number)
    return [(id, row) for id, key in enumerate(probe.tolist()) for row in rows.get(key, ())]


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("n_slots", [PARTITION_SLOTS, SLOTS], ids=["partition", "table"])
def test_entries_that_overflow_their_partition(n_slots: int, copies: int, drivers: int) -> None:
    """Nine keys want each slot of four at the end of each partition, so more than half of them are deferred."""
    many = 9 * 4 * SLOTS // n_slots // 4
    codes = np.append(codes_of_last_line(max(many, 40), n_slots), 0)
    others = np.arange(1, 40_000 - copies * len(codes) + 1) * 2**40 + 7
    build = np.concatenate([codes] * copies + [others])
    np.random.default_rng(1).shuffle(build)
    probe = np.concatenate([codes, others[:3000], codes + 1])
    tables = [pa.table({"k": build, "row": np.arange(len(build))}), pa.table({"k": probe, "id": np.arange(len(probe))})]
    assert pairs(*tables, ["k"], drivers) == expected_pairs(build, probe)
    for kind in ("left_semi", "left_anti"):
        got = [id for batch in hash_join(*tables[::-1], kind, ["k"], ["k"], drivers) for id in batch["id"].to_pylist()]
        hit = np.isin(probe, build)
        assert sorted(got) == np.flatnonzero(hit if kind == "left_semi" else ~hit).tolist()


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("null_share", [0.0, 0.1])
@pytest.mark.parametrize("form", ["ranks", "codes", "wide codes", "text"])
def test_many_rows(form: str, null_share: float, copies: int, drivers: int) -> None:
    """All drivers have enough rows to take part in the build. Rows of a group may be in several of their inputs."""
    n_keys = 60_000
    rng = np.random.default_rng(copies)
    numbers = np.concatenate([rng.permutation(n_keys) for _ in range(copies)])
    probe_numbers = rng.integers(-5, n_keys + 5, 20_000)

    def columns(values: np.ndarray) -> dict[str, pa.Array]:
        nulls = rng.random(len(values)) < null_share
        if form == "text":
            return {"a": pa.array([f"the key {value}" for value in values.tolist()], mask=nulls)}
        if form == "wide codes":
            return {"a": pa.array(values * 2**40, mask=nulls), "b": pa.array(values % 2 * 2**40)}
        return {"a": pa.array(values * (2**40 if form == "codes" else 3), mask=nulls)}

    build, probe = columns(numbers), columns(probe_numbers)
    expected = expected_pairs(
        np.where(np.array(build["a"].is_null()), -100, numbers),
        np.where(np.array(probe["a"].is_null()), -200, probe_numbers),
    )
    got = pairs(
        pa.table({**build, "row": np.arange(len(numbers))}),
        pa.table({**probe, "id": np.arange(len(probe_numbers))}),
        list(build),
        drivers,
    )
    assert got == expected
