"""Threads that sleep until the engine wakes them, also within a driver's turn (SPEC V7)."""

from __future__ import annotations

import threading
import time

from qcore_ext.ground.memory_pool import MemoryPool
from qcore_ext.ground.thread_token import TokenLock
from qcore_testing.operators import Nap


def test_v7_a_driver_goes_on_from_when_it_is_woken() -> None:
    """V7: it counts as running before its thread is awake.

    Otherwise no driver would count as running if its waker stopped.
    """
    memory = MemoryPool(1 << 20)
    for _ in range(100):
        nap = Nap(memory)
        thread = threading.Thread(target=nap.sleep)
        thread.start()
        deadline = time.monotonic() + 60
        while not nap.asleep and time.monotonic() < deadline:
            time.sleep(0.0005)
        assert nap.asleep
        assert memory.n_going == 0
        assert nap.fire() == 1
        thread.join(60)
        assert not thread.is_alive()
        assert memory.n_going == 0


def test_a_token_lock_lets_one_thread_in() -> None:
    lock, inside, n_done = TokenLock(), [], []

    def work() -> None:
        for _ in range(500):
            lock.acquire()
            inside.append(None)
            n_done.append(len(inside))
            inside.pop()
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert n_done == [1] * 2000
    assert lock.try_acquire()
    assert not lock.try_acquire()
    lock.release()
    assert lock.try_acquire()
