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
def test_the_code_zero_is_in_no_free_slot(level, n_each):
    """The code of two columns is zero if both are least. With several rows a key, slots have groups, and zeros if they
    are free. The filter lets the code pass in some tables.
    """
    for n_keys in range(100, 164):
        a = (np.arange(n_keys) * 1_000_000 + 5).repeat(n_each)
        b = a[::-1] * 3
        build = pa.table({"c": a, "d": b, "v": range(len(a))})
        probe_side = pa.table({"a": np.full(3000, a.min()), "b": np.full(3000, b.min())})
        for kind, n_rows in (("inner", 0), ("left_semi", 0), ("left_anti", 3000)):
            found = hash_join(probe_side, build, kind, ["a", "b"], ["c", "d"])
            assert sum(batch.num_rows for batch in found) == n_rows, (kind, n_keys)
