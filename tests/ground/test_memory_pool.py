"""Memory that queries share: limits, bytes kept outside of queries, counts (SPEC V7)."""

from __future__ import annotations

import gc

import pytest

from qcore.errors import MemoryLimitError
from qcore_ext.ground.memory import Reservation
from qcore_ext.ground.memory_pool import MemoryPool

KIB = 1024


def test_queries_share_the_limit() -> None:
    """V7."""
    pool = MemoryPool(100 * KIB)
    one, two = Reservation(pool.account()), Reservation(pool.account())
    one.add(60 * KIB)
    two.add(40 * KIB)
    assert (pool.reserved_bytes, pool.peak_bytes) == (100 * KIB, 100 * KIB)
    with pytest.raises(MemoryLimitError):
        two.add(1)
    one.give_back()
    assert pool.reserved_bytes == 40 * KIB
    two.add(60 * KIB)
    two.give_back()
    assert (pool.reserved_bytes, pool.peak_bytes) == (0, 100 * KIB)


def test_a_query_may_have_a_limit_of_its_own() -> None:
    """V7."""
    pool = MemoryPool(100 * KIB)
    small = Reservation(pool.account(10 * KIB))
    small.add(10 * KIB)
    with pytest.raises(MemoryLimitError) as caught:
        small.add(1)
    assert not caught.value.is_shared
    assert pool.reserved_bytes == 10 * KIB
    small.give_back()


@pytest.mark.parametrize("limit", [20 * KIB, 200 * KIB])
def test_the_limit_may_change(limit: int) -> None:
    pool = MemoryPool(100 * KIB)
    pool.limit = limit
    assert pool.limit == limit
    reservation = Reservation(pool.account())
    reservation.add(limit)
    with pytest.raises(MemoryLimitError):
        reservation.add(1)
    reservation.give_back()


def test_kept_bytes_leave_queries_the_rest() -> None:
    """V7: until the object that keeps the bytes is freed."""
    pool = MemoryPool(100 * KIB)
    kept = pool.keep(70 * KIB)
    assert (kept.n_bytes, pool.kept_bytes, pool.reserved_bytes) == (70 * KIB, 70 * KIB, 0)
    reservation = Reservation(pool.account())
    reservation.add(30 * KIB)
    with pytest.raises(MemoryLimitError):
        reservation.add(1)
    with pytest.raises(MemoryLimitError, match="keeping 1 bytes beside 30720 of running queries and 71680 of tables"):
        pool.keep(1)
    assert pool.kept_bytes == 70 * KIB
    del kept
    gc.collect()
    assert pool.kept_bytes == 0
    reservation.add(70 * KIB)
    reservation.give_back()


def test_no_driver_waits_or_runs_in_a_new_pool() -> None:
    pool = MemoryPool(KIB)
    assert (pool.n_waiting, pool.n_going, pool.held_bytes) == (0, 0, 0)
