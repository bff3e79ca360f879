"""Workers go to processors of their own."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from qcore_testing.units import WorkerSeat

if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
    pytest.skip("this needs Linux and two processors", allow_module_level=True)

ALLOWED = os.sched_getaffinity(0)


def keeps_its_seat(first: int) -> tuple[bool, set[int]]:
    """Keep a seat for 20 ms in a thread that begins on the processor `first` and may use all.

    Returns whether it went to another one, and the processors that it may use at the end.
    """
    found: list[tuple[bool, set[int]]] = []

    def work() -> None:
        os.sched_setaffinity(0, {first})
        seat = WorkerSeat()
        seat.keep()
        os.sched_setaffinity(0, ALLOWED)
        went, ends = False, time.monotonic() + 0.02
        while time.monotonic() < ends:
            went |= seat.keep()
        seat.leave()
        found.append((went, os.sched_getaffinity(0)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    return found[0]


@pytest.fixture
def taken() -> Iterator[int]:
    """A processor on which this thread has the seat. The thread waits elsewhere."""
    first = min(ALLOWED)
    os.sched_setaffinity(0, {first})
    seat = WorkerSeat()
    seat.keep()
    os.sched_setaffinity(0, ALLOWED - {first})
    yield first
    seat.leave()
    os.sched_setaffinity(0, ALLOWED)


def test_a_worker_leaves_the_processor_of_another_one(taken: int) -> None:
    # The system may move the thread first if other processes run.
    found = [keeps_its_seat(taken) for _ in range(20)]
    assert any(went for went, _ in found)
    assert all(allowed == ALLOWED for _, allowed in found)


def test_with_more_workers_than_processors_none_goes(taken: int) -> None:
    others = []
    for place in sorted(ALLOWED - {taken}):
        os.sched_setaffinity(0, {place})
        others.append(WorkerSeat())
        others[-1].keep()
    os.sched_setaffinity(0, ALLOWED - {taken})
    try:
        assert [keeps_its_seat(taken) for _ in range(5)] == [(False, ALLOWED)] * 5
    finally:
        for seat in others:
            seat.leave()
