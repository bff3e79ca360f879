"""Unused memory of pyarrow's allocator is returned to the system. SPEC V7."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from qcore_testing.units import release_arrow


class Pool:
    """Replaces pyarrow's default pool, and counts calls."""

    def __init__(self, error: Exception | None = None) -> None:
        self.n_calls = 0
        self.error = error

    def release_unused(self) -> None:
        self.n_calls += 1
        if self.error is not None:
            raise self.error


def test_the_default_pool_is_told_once_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    monkeypatch.setattr(pa, "default_memory_pool", lambda: pool)
    release_arrow()
    release_arrow()
    assert pool.n_calls == 2


def test_the_real_pool_keeps_what_is_in_use() -> None:
    kept = pa.array(range(100_000))
    before = pa.total_allocated_bytes()
    release_arrow()
    assert pa.total_allocated_bytes() == before
    assert kept[99_999].as_py() == 99_999


@pytest.mark.parametrize("error", [OSError("another pool"), MemoryError(), AttributeError("half imported")])
def test_a_pool_that_raises_does_no_harm(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    pool = Pool(error)
    monkeypatch.setattr(pa, "default_memory_pool", lambda: pool)
    release_arrow()
    assert pool.n_calls == 1


def test_pyarrow_is_not_imported_for_it() -> None:
    program = (
        "import sys; from qcore_testing.units import release_arrow; release_arrow(); print('pyarrow' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout == "False\n"


def test_a_half_imported_pyarrow_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", object())
    release_arrow()
