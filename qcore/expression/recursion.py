"""Code that calls itself for each level of an expression or a query."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from qcore.errors import PlanError
from qcore_ext.ground.process import ProcessLock

# The limit of nested Python calls. A recursive call through map() or a generator takes about 600 bytes of the C stack,
# so 8 MB are enough for 13,000 calls.
_LIMIT = 8_000
# The limit for a parser. Its calls are pure Python and use no C stack. A level of brackets takes twenty calls.
PARSER_LIMIT = 20_000
_lock = ProcessLock()
#: The limit before the first context was opened, then the limits of the contexts that are open in all threads.
_limits: list[int] = []


@contextmanager
def deep_recursion(limit: int = _LIMIT) -> Iterator[None]:
    """A context in which Python calls may nest deeper. The process has one limit: the largest of its open contexts."""
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
