"""The timeout of a query while it is planned. Steps that a query can repeat without limit check it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from qcore.errors import Timeout

# The end of the time for planning, on the monotonic clock, and the timeout.
_limit: ContextVar[tuple[float, float] | None] = ContextVar("planning_limit", default=None)


@contextmanager
def limit_planning(timeout: float | None) -> Iterator[None]:
    """In this context check_planning() raises Timeout after so many seconds. An outer limit stays in force instead."""
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
