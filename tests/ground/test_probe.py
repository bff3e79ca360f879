"""The look-up kernels of all instruction sets give the same results. SPEC H1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from joins import as_table, hash_join, oracle_join

from oracle import assert_same_rows


@pytest.mark.each_value
@pytest.mark.parametrize("spread", [1, 3, 10**15], ids=["dense", "sparse", "hashed"])
@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 2047, 2048, 2049, 5000])
def test_levels_agree(duck, level, n_rows, spread):
    rng = np.random.default_rng(n_rows)
    build = pa.table({"b": pa.array(rng.permutation(n_rows) * spread - 17), "v": range(n_rows)})
    keys = rng.integers(-5, n_rows + 5, n_rows) * spread - 17
    probe_side = pa.table({"p": pa.array(keys, mask=rng.random(n_rows) < 0.1)})
    for kind in ("inner", "left", "left_anti"):
        expected = oracle_join(duck, probe_side, build, kind, ["p"], ["b"])
        actual = hash_join(probe_side, build, kind, ["p"], ["b"])
        assert_same_rows(as_table(actual, expected), expected)


@pytest.mark.parametrize("n_each", [1, 3])
def test_a_key_of_zeros_is_in_no_free_slot(duck, level, n_each):
    """Free slots are zeros. With several rows a key, the slots have groups."""
    keys = (np.arange(1, 800) * 1_000_003_000_019).repeat(n_each)
    build = pa.table({"b": keys, "v": range(len(keys))})
    probe_side = pa.table({"p": np.concatenate([np.zeros(3000, np.int64), keys])})
    for kind in ("inner", "left", "left_semi", "left_anti"):
        expected = oracle_join(duck, probe_side, build, kind, ["p"], ["b"])
        actual = hash_join(probe_side, build, kind, ["p"], ["b"])
        assert_same_rows(as_table(actual, expected), expected)
