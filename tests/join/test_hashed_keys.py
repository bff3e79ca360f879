"""A perfect hash of the keys of a join table: when many probe rows meet few keys. SPEC Q2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from joins import KINDS, as_table, hash_join, oracle_join, split

from oracle import assert_same_rows
from qcore.errors import MemoryLimitError
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_testing.operators import run_chain

# Keys so far apart that they are not ranks.
STEP = 1_000_003_000_019
N_PROBE = 60_000


def keys(numbers: np.ndarray, null_share: float, seed: int) -> pa.Array:
    missing = np.random.default_rng(seed).random(len(numbers)) < null_share
    return pa.array((numbers - 40) * STEP, mask=missing)


def sides(n_keys: int, copies: int, null_share: float) -> tuple[pa.Table, pa.Table]:
    """A probe side of which most rows match, and a build side with each key some times."""
    rng = np.random.default_rng(n_keys)
    build = rng.permutation(np.repeat(np.arange(n_keys), copies))
    probe = rng.integers(0, n_keys + n_keys // 4 + 1, N_PROBE)
    return (
        pa.table({"p": keys(probe, null_share, 1), "p_row": np.arange(N_PROBE)}),
        pa.table({"b": keys(build, null_share, 2), "b_row": np.arange(len(build))}),
    )


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_keys", [3, 200])
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("null_share", [0.0, 0.1])
def test_q2_rows_before_and_after_the_hash(duck, kind, n_keys, copies, null_share) -> None:
    probe, build = sides(n_keys, copies, null_share)
    expected = oracle_join(duck, probe, build, kind, ["p"], ["b"])
    batches = hash_join(probe, build, kind, ["p"], ["b"], 2, 5000)
    assert_same_rows(as_table(batches, expected), expected)


def rows_hashed(n_keys: int, n_probe: int, step: int = STEP, limit: int | None = None) -> int:
    """The probe rows that were looked up by it."""
    rng = np.random.default_rng(3)
    probe = pa.table({"p": rng.integers(0, n_keys, n_probe) * step})
    build = pa.table({"b": np.arange(n_keys) * step})
    memory = Account(None, limit) if limit else Account()
    bridge = JoinBridge("inner", 1, 1, False, build.schema, probe.schema)
    run_chain([HashBuild("build", memory, bridge, ["b"], ["b"])], split(build, 1, None)[0])
    operator = HashProbe("probe", memory, bridge, ["p"], [("build", "b", "b")])
    found = pa.Table.from_batches(run_chain([operator], split(probe, 1, 5000)[0]))
    assert found["b"].to_pylist() == probe["p"].to_pylist()
    return operator.stats_snapshot()["join"]["hashed"]


def test_only_keys_that_many_rows_meet_are_hashed() -> None:
    assert rows_hashed(1000, 31_000) == 0
    # After 32 rows a row of the table, at the end of a vector.
    assert 64_000 < rows_hashed(1000, 100_000) < 68_000
    assert rows_hashed(1000, 100_000, step=1) == 0  # ranks
    assert rows_hashed(17_000, 700_000) == 0  # too many rows


def test_no_hash_is_made_when_memory_is_short() -> None:
    """A join that needs all memory of its limit runs without them."""
    for limit in range(1 << 18, 1 << 24, 1 << 16):
        try:
            n_hashed = rows_hashed(10_000, 400_000, limit=limit)
        except MemoryLimitError:
            continue
        break
    assert n_hashed == 0
    assert rows_hashed(10_000, 400_000, limit=1 << 26) > 0
