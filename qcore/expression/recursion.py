"""Code that calls itself for each level of an expression or a query."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from qcore.errors import PlanError
from qcore_ext.ground.process import ProcessLock

# Calls within calls that Python code may reach. One level of an expression takes up to twenty.
_LIMIT = 20_000
_lock = ProcessLock()
#: How many contexts are open in all threads, and the limit before the first.
_open = [0, 0]


@contextmanager
def deep_recursion() -> Iterator[None]:
    """In this context Python code may be nested deeper. The limit is one of the process."""
    with _lock:
        if _open[0] == 0:
            _open[1] = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_open[1], _LIMIT))
        _open[0] += 1
    try:
        yield
    finally:
        with _lock:
            _open[0] -= 1
            if _open[0] == 0:
                sys.setrecursionlimit(_open[1])


@contextmanager
def bounded_depth() -> Iterator[None]:
    """As deep_recursion(). A RecursionError inside this context becomes a PlanError."""
    try:
        with deep_recursion():
            yield
    except RecursionError:
        raise PlanError("the plan or one of its expressions is nested too deeply; compute parts of it first") from None
