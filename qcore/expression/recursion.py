"""Code that calls itself for each level of an expression or a query."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from qcore.errors import PlanError
from qcore_ext.ground.process import ProcessLock

# Calls within calls that Python code may reach. Code that calls itself through map() or a generator takes about 600
# bytes of the C stack a call: 8 MB end after 13,000.
_LIMIT = 8_000
# That of a parser, whose calls are of Python alone and take nothing of it. A level of brackets takes twenty.
PARSER_LIMIT = 20_000
_lock = ProcessLock()
#: The limits of the contexts that are open in all threads, behind the limit before the first.
_limits: list[int] = []


@contextmanager
def deep_recursion(limit: int = _LIMIT) -> Iterator[None]:
    """In this context Python code may be nested deeper. The limit is one of the process: the largest that is open."""
    with _lock:
        if not _limits:
            _limits.append(sys.getrecursionlimit())
        _limits.append(limit)
        sys.setrecursionlimit(max(_limits))
    try:
        yield
    finally:
        with _lock:
            _limits.remove(limit)
            sys.setrecursionlimit(max(_limits))
            if len(_limits) == 1:
                _limits.clear()


@contextmanager
def bounded_depth() -> Iterator[None]:
    """As deep_recursion(). A RecursionError inside this context becomes a PlanError."""
    try:
        with deep_recursion():
            yield
    except RecursionError:
        raise PlanError("the plan or one of its expressions is nested too deeply; compute parts of it first") from None
