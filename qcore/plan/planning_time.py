"""The timeout of a query while it is planned, and whether the plan contains the time of planning.

Steps that a query can repeat without limit check the timeout.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from qcore.errors import Timeout

# The end of the time for planning, on the monotonic clock, and the timeout.
_limit: ContextVar[tuple[float, float] | None] = ContextVar("planning_limit", default=None)
_moments: ContextVar[list[int] | None] = ContextVar("moments_of_plan", default=None)


@contextmanager
def limit_planning(timeout: float | None) -> Iterator[None]:
    """A context in which check_planning() raises Timeout after so many seconds. An outer limit remains in force."""
    if timeout is None or _limit.get() is not None:
        yield
        return
    token = _limit.set((time.monotonic() + timeout, timeout))
    try:
        yield
        check_planning()
    finally:
        _limit.reset(token)


def check_planning() -> None:
    """Raise Timeout if planning has taken longer than the query's timeout."""
    limit = _limit.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise Timeout(f"planning the query took longer than its timeout of {limit[1]:g} s")


@contextmanager
def watch_moments() -> Iterator[list[int]]:
    """A context that collects the times, in ns since 1970, that plans contain as constants, such as now().

    A plan with one belongs to one query.
    """
    found: list[int] = []
    token = _moments.set(found)
    try:
        yield found
    finally:
        _moments.reset(token)


def note_moment(nanos: int) -> int:
    """Record and return `nanos`, a time that a plan will contain as a constant."""
    found = _moments.get()
    if found is not None:
        found.append(nanos)
    return nanos
