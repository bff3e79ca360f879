"""Accounts, their limits, and the pool of memory blocks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from qcore.errors import MemoryLimitError
from qcore_ext.data.capsule import PyBatch
from qcore_ext.ground.memory import Account, live_counts, trim_pool
from qcore_testing.units import GrowingBuffer


def run_alone(code: str) -> None:
    """Run a program that prints "ok" at its end, in a process with a fresh pool."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


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
    """Above 256 MiB the pool keeps as much memory as was used at once. The next query then needs no fresh pages."""
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
    run_alone(code)


@pytest.mark.sweep
def test_idle_blocks_of_one_size_make_way_for_blocks_of_another() -> None:
    """Used and idle blocks together have at most 512 MiB more than the peak of use."""
    code = """if True:
        from qcore_ext.ground.memory import Account, live_counts
        from qcore_testing.units import GrowingBuffer

        MB = 1 << 20
        account = Account(None)
        held = [GrowingBuffer(account, 32 * MB) for _ in range(32)]
        del held
        assert live_counts()["idle_bytes"] == 1024 * MB, live_counts()
        held = [GrowingBuffer(account, 64 * MB) for _ in range(8)]
        assert live_counts()["idle_bytes"] == 1024 * MB, live_counts()
        held += [GrowingBuffer(account, 64 * MB) for _ in range(4)]
        assert live_counts()["idle_bytes"] == 768 * MB, live_counts()
        held += [GrowingBuffer(account, 64 * MB) for _ in range(12)]
        assert live_counts()["idle_bytes"] == 512 * MB, live_counts()
        print("ok")
    """
    run_alone(code)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space that the system keeps")
def test_idle_blocks_are_freed_if_the_system_gives_no_more() -> None:
    code = """if True:
        import resource
        from qcore.errors import MemoryLimitError
        from qcore_ext.ground.memory import Account, live_counts
        from qcore_testing.units import GrowingBuffer

        MB = 1 << 20
        account = Account(None)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 640 * MB,) * 2)
        held = [GrowingBuffer(account, 64 * MB) for _ in range(8)]
        del held
        assert live_counts()["idle_bytes"] == 512 * MB, live_counts()
        large = GrowingBuffer(account, 256 * MB)
        assert live_counts()["idle_bytes"] == 0, live_counts()
        other = GrowingBuffer(account, 256 * MB)
        try:
            GrowingBuffer(account, 256 * MB)
        except MemoryLimitError as error:
            assert "the machine has no memory left" in str(error), error
            print("ok")
    """
    run_alone(code)


def test_a_buffer_that_grows_takes_a_larger_idle_block_and_grows_in_it() -> None:
    """A structure that doubles its buffers finds the block of its last run, and copies its bytes once."""
    code = """if True:
        from qcore_ext.ground.memory import Account, live_counts
        from qcore_testing.units import GrowingBuffer

        MB = 1 << 20
        account = Account(None)
        first = GrowingBuffer(account, 8 * MB)
        address = first.address
        del first
        assert live_counts()["idle_bytes"] == 8 * MB, live_counts()
        buffer = GrowingBuffer(account, MB // 2)
        assert buffer.grow(MB) == MB // 2
        assert (buffer.address, buffer.size, account.reserved_bytes) == (address, MB, MB)
        assert live_counts()["idle_bytes"] == MB // 2, live_counts()
        for size in (2, 4, 8):
            assert buffer.grow(size * MB) == size * MB // 2
            assert (buffer.address, buffer.size, account.reserved_bytes) == (address, size * MB, size * MB)
        assert buffer.grow(16 * MB) == 8 * MB
        assert buffer.address != address and account.reserved_bytes == 16 * MB
        del buffer
        assert account.reserved_bytes == 0
        print("ok")
    """
    run_alone(code)


SANITIZED = Path("/proc/self/maps").exists() and re.search("lib[at]san", Path("/proc/self/maps").read_text())


@pytest.mark.skipif(sys.platform != "linux" or SANITIZED is not None, reason="malloc has all blocks there")
def test_a_block_is_lengthened_if_no_larger_one_is_idle() -> None:
    """No byte is copied, and no block of a smaller size is left."""
    code = """if True:
        from qcore.errors import MemoryLimitError
        from qcore_ext.ground.fault import Faults
        from qcore_ext.ground.memory import Account, live_counts, trim_pool
        from qcore_testing.units import GrowingBuffer

        MB = 1 << 20
        account = Account(None, 300 * MB)
        buffer = GrowingBuffer(account, MB)
        other = GrowingBuffer(account, MB)      # behind or before it
        for size in (2, 4, 8, 128):
            used = buffer.size
            assert buffer.grow(size * MB) == used
            assert (buffer.size, account.reserved_bytes) == (size * MB, (size + 1) * MB)
            assert live_counts()["idle_bytes"] == 0, live_counts()
        for size, refused in ((512 * MB, "limit"), (256 * MB, "injected")):
            try:
                with Faults("reserve" if refused == "injected" else None, 1):
                    buffer.grow(size)
            except MemoryLimitError as error:
                assert refused in str(error), error
            else:
                raise AssertionError(refused)
            assert (buffer.size, account.reserved_bytes) == (128 * MB, 129 * MB)
        assert buffer.grow(256 * MB) == 128 * MB
        del buffer
        assert (live_counts()["idle_bytes"], account.reserved_bytes) == (256 * MB, MB)
        assert trim_pool() == 256 * MB
        print("ok")
    """
    run_alone(code)


def test_a_buffer_that_cannot_grow_in_its_block_stays_as_it_is() -> None:
    query = Account(None, 3 << 20)
    GrowingBuffer(query, 3 << 19)  # leaves an idle block of 2 MiB
    buffer = GrowingBuffer(query, 1 << 19)
    buffer.grow(1 << 20)
    other = GrowingBuffer(query, 1 << 20)
    with pytest.raises(MemoryLimitError, match="memory limit of 3145728"):
        buffer.grow((1 << 21) + 1)
    assert (buffer.size, query.reserved_bytes) == (1 << 20, 1 << 21)
    del other
    assert buffer.grow(1 << 21) == 1 << 20
    assert query.reserved_bytes == 1 << 21


def test_a_large_idle_block_is_not_freed_for_a_few_kilobytes() -> None:
    """A block is freed only if at least half of it exceeds the bytes that are kept."""
    code = """if True:
        from qcore_ext.ground.memory import Account, live_counts
        from qcore_testing.units import GrowingBuffer

        account = Account(None)
        held = [GrowingBuffer(account, 1 << 28) for _ in range(4)]
        del held
        assert live_counts()["idle_bytes"] == 1 << 30, live_counts()
        others = [GrowingBuffer(account, size) for size in (1 << 20, *[1 << 27] * 4)]
        assert live_counts()["idle_bytes"] == 1 << 30, live_counts()     # 1 MiB more than is kept
        others.append(GrowingBuffer(account, 1 << 27))
        assert live_counts()["idle_bytes"] == 3 << 28, live_counts()
        print("ok")
    """
    run_alone(code)


def test_bytes_of_blocks_that_buffers_have_not_grown_into_are_bounded() -> None:
    """These bytes cannot be used for other blocks, so there are at most 256 MiB of them."""
    code = """if True:
        from qcore_ext.ground.memory import Account
        from qcore_testing.units import GrowingBuffer

        MB = 1 << 20
        account = Account(None)
        held = [GrowingBuffer(account, 16 * MB) for _ in range(20)]
        idle = {buffer.address for buffer in held}
        del held
        buffers = [GrowingBuffer(account, MB // 2) for _ in range(20)]
        for buffer in buffers:
            buffer.grow(MB)
        # Each of them leaves 15 MiB of its block unused.
        assert sum(buffer.address in idle for buffer in buffers) == 17, len(idle)
        print("ok")
    """
    run_alone(code)
