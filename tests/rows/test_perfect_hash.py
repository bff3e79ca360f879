"""Groups found by a perfect hash of their keys, and groups whose keys came later. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, check_second_start, check_sums

STEP = 1_000_003_000_019


@pytest.mark.each_value
@pytest.mark.parametrize("n_groups", [1, 2, 3, 9, 16, 63, 1000, 3001])
@pytest.mark.parametrize("n_rows", [1, 2047, 2048, 2049, 100_000])
@pytest.mark.parametrize("null_share", [0.0, 0.0001, 0.3])
@pytest.mark.parametrize("skew", [False, True])
def test_q2_few_groups_and_many(n_groups: int, n_rows: int, null_share: float, skew: bool) -> None:
    rng = np.random.default_rng(31)
    numbers = rng.zipf(1.2, n_rows) % n_groups if skew else rng.integers(0, n_groups, n_rows)
    missing = rng.random(n_rows) < null_share
    check_sums(pa.array((numbers - n_groups // 2) * STEP, mask=missing))
    check_sums(pa.array([f"{number:x}" for number in numbers], mask=missing))


def test_q2_keys_that_come_after_the_hash_was_made() -> None:
    """A few at a time, then as many again, then other keys only."""
    rng = np.random.default_rng(32)
    parts = [rng.integers(0, 500 + 3 * i, 2048) for i in range(100)]
    parts += [rng.integers(0, 3000, 50_000), rng.integers(5000, 5500, 50_000)]
    check_sums(pa.array(np.concatenate(parts) * STEP))


@pytest.mark.each_value
@pytest.mark.parametrize("n_groups", range(1, 19))
def test_q2_few_keys_then_others(n_groups: int) -> None:
    """The hash of up to 16 keys is held in registers. Each other key is compared with the key of its position."""
    rng = np.random.default_rng(36)
    few = rng.integers(0, n_groups, 5003)
    for others in (rng.integers(n_groups, 2000, 1001), np.arange(2000)):
        check_sums(pa.array(np.concatenate([few, others, few]) * STEP))


@pytest.mark.parametrize("n_more", [0, 1, 17])
def test_q2_many_keys_then_others(n_more: int) -> None:
    """The hash of 20,000 keys does not fit the first-level cache. Later vectors have other keys too."""
    rng = np.random.default_rng(37)
    known = rng.integers(0, 20_000, 420_000 + n_more)
    for others in (np.array([20_001]), np.arange(20_000, 21_500)):
        check_sums(pa.array(np.concatenate([known, others, known[:5003]]) * STEP))


def test_q2_a_partial_step_that_starts_again() -> None:
    """The hash of earlier groups is forgotten with the groups, though the same keys come again."""
    check_second_start(lambda numbers: pa.array(numbers * STEP))


def test_q2_null_and_zero() -> None:
    """Both have the same word. The hash is made of the one, of the other, and of both."""
    for first, later in (([None], [0]), ([0], [None]), ([None, 0], [STEP]), ([None, STEP], [0])):
        check_sums(pa.array(first * 5000 + [*first, *later] * 5000, pa.int64()))
    pair = {"a": pa.array([5] * 20_000, pa.int32()), "b": pa.array(([None] * 5000 + [0] * 5000) * 2, pa.int32())}
    rows = [Call("count", -1, pa.int64(), len), Call("sum", 2, pa.decimal128(38, 0), sum)]
    check(pa.table({**pair, "x": np.arange(20_000)}), 2, rows)


def test_q2_hashes_in_the_parts_of_a_partitioned_table() -> None:
    """9,000 groups in 256 parts, each with enough rows for a hash, and other keys behind them."""
    rng = np.random.default_rng(34)
    keys = np.concatenate([rng.permutation(np.repeat(np.arange(9000), 40)), rng.integers(8000, 12_000, 100_000)])
    check_sums(pa.array(keys * STEP), radix_groups_min=4096)


@pytest.mark.parametrize("n_groups", [2, 40, 1000])
def test_q2_keys_of_one_bucket(n_groups: int) -> None:
    """The products of these keys with the first factor are small, so that another factor must be found."""
    word = (1 << 64) - 1
    value = 1
    for _ in range(2):
        value = (value ^ value >> 32) * 0xD6E8FEB86659FD93 & word
    factor = (value ^ value >> 32) | 1
    keys = np.array([number * pow(factor, -1, 1 << 64) & word for number in range(n_groups)], np.uint64)
    order = np.random.default_rng(33).integers(0, n_groups, 60_000)
    check_sums(pa.array(keys[order]))
    check_sums(pa.array(keys[order].view(np.int64)))
