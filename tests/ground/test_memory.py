"""Accounts: what is reserved, what the limit refuses."""

from __future__ import annotations

import subprocess
import sys

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
    exported = pa.record_batch(
        PyBatch.from_arrow(pa.record_batch({"a": pa.array(["b"] * 100_000).dictionary_encode()}))
    )
    del exported
    assert trim_pool() > 0
    assert live_counts()["idle_bytes"] == 0


def test_as_much_memory_stays_idle_as_was_in_use_at_once() -> None:
    """Above 256 MiB the pool keeps what a query needed, so that the next one gets no fresh pages, and not more."""
    code = """if True:
        import gc, pyarrow as pa
        from qcore_ext.data.capsule import PyBatch
        from qcore_ext.ground.memory import live_counts, trim_pool
        values = pa.array(range(4_000_000))                             # 32 MB each, in a block of 32 MiB
        values = pa.record_batch({"a": pa.DictionaryArray.from_arrays(pa.array(range(4_000_000), pa.int32()), values)})
        held = [pa.record_batch(PyBatch.from_arrow(values)) for _ in range(16)]
        del held[8:]
        assert live_counts()["idle_bytes"] >> 25 == 8, live_counts()
        del held
        assert live_counts()["idle_bytes"] >> 25 == 16, live_counts()    # not more than were in use
        trim_pool()
        assert live_counts()["idle_bytes"] == 0
        one = pa.record_batch(PyBatch.from_arrow(values))
        del one
        assert live_counts()["idle_bytes"] >> 25 == 1, live_counts()
        print("ok")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_idle_blocks_of_one_size_make_way_for_blocks_of_another() -> None:
    """Blocks in use and idle ones together are no more than were in use at once, beside the 256 MiB that stay."""
    code = """if True:
        import pyarrow as pa
        from qcore_ext.data.capsule import PyBatch
        from qcore_ext.ground.memory import live_counts

        def blocks(n, n_values):
            values = pa.array(range(n_values))
            column = pa.DictionaryArray.from_arrays(pa.array(range(n_values), pa.int32()), values)
            return [pa.record_batch(PyBatch.from_arrow(pa.record_batch({"a": column}))) for _ in range(n)]

        held = blocks(16, 4_000_000)            # of 32 MiB
        del held
        assert live_counts()["idle_bytes"] >> 25 == 16, live_counts()
        held = blocks(2, 8_000_000)             # of 64 MiB
        assert live_counts()["idle_bytes"] >> 25 == 12, live_counts()
        held += blocks(8, 8_000_000)
        assert live_counts()["idle_bytes"] >> 25 == 8, live_counts()
        print("ok")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
