"""No search for garbage while modules are imported, and among what they made.

Modules make many objects that stay. Python's search for cycles finds nothing among them, and takes a twentieth of the
time of a process's first query. (While queries are planned it takes 1 to 2 %.)
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """The contexts of this process that pause the search. The first one turns it off, the last one on again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n = 0
        #: Whether the search was on before the first context, so that the last one turns it on again.
        self.resumes = False

    def resume(self) -> None:
        """Turn the search on again if it was on before."""
        if self.resumes:
            gc.enable()
            self.resumes = False


_pauses = _Pauses()

# How many modules were imported when objects were last exempt.
_exempt_modules = 0


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """In this context the process looks for no cycles. Any number of threads may be in such contexts.

    Where the search is off already it stays off.
    """
    pauses = _pauses
    is_counted = False
    try:
        with pauses.lock:
            pauses.n, is_counted = pauses.n + 1, True
            if pauses.n == 1 and gc.isenabled():
                pauses.resumes = True
                gc.disable()
        yield
    finally:
        # In a child that was forked in this context the pause is over, and the lock may be one that nobody releases.
        if is_counted and pauses is _pauses:
            with pauses.lock:
                if pauses.n == 1:
                    pauses.resume()
                pauses.n -= 1


def exempt_modules() -> None:
    """Exempt the objects that exist now from all later searches, if modules were imported since the last call.

    For a process that has just ended a task. A Python worker of Spark searches after each one: 19 ms among the objects
    of the modules of qcore, pyarrow and pyspark.
    """
    global _exempt_modules
    if len(sys.modules) != _exempt_modules:
        _exempt_modules = len(sys.modules)
        gc.collect()
        gc.freeze()


def _resume_in_child() -> None:
    """The threads that paused the search may not be in a forked child."""
    global _pauses
    before, _pauses = _pauses, _Pauses()
    before.resume()


os.register_at_fork(after_in_child=_resume_in_child)
