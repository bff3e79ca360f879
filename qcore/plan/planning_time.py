"""The timeout of a query while it is planned: steps whose number the query decides look at it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from qcore.errors import Timeout

# When planning has to be over, by the monotonic clock, and the timeout that says so.
_limit: ContextVar[tuple[float, float] | None] = ContextVar("planning_limit", default=None)


@contextmanager
def planned_within(timeout: float | None) -> Iterator[None]:
    """Within, check_planning() raises Timeout after so many seconds; a limit around this one stays as it is."""
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
    """Raises Timeout where planning takes longer than the query may."""
    limit = _limit.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise Timeout(f"planning the query took longer than its timeout of {limit[1]:g} s")
