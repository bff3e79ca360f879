"""Accounts: what is reserved, what the limit refuses."""

from __future__ import annotations

import pyarrow as pa

from qcore_ext.data.capsule import PyBatch
from qcore_ext.ground.memory import Account, live_counts, trim_pool


def test_nothing_is_counted_that_is_not_held() -> None:
    before = live_counts()
    batch = PyBatch.from_arrow(pa.record_batch({"a": pa.array([1, 2, 3]).slice(1)}))
    assert live_counts()["structs"] > before["structs"]
    del batch
    after = live_counts()
    assert (after["structs"], after["buffers"]) == (before["structs"], before["buffers"])


def test_accounts_start_empty() -> None:
    query = Account(None, 1 << 20)
    operator = Account(query)
    assert (query.reserved_bytes, operator.peak_bytes) == (0, 0)


def test_trim_pool_gives_idle_blocks_back() -> None:
    exported = pa.record_batch(PyBatch.from_arrow(pa.record_batch({"a": pa.array(range(100_000))})))
    del exported
    assert trim_pool() > 0
    assert live_counts()["idle_bytes"] == 0
