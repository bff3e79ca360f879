"""The process that a thing belongs to, and whether that process is leaving.

A forked child has copies of its parent's objects, but none of its threads: what waits for a thread of the parent would
wait for ever. And once Python's atexit functions have run, no thread can be started, and daemon threads never get the
GIL again. So what runs queries asks here first.
"""

import os
import threading
import weakref

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load, qc_store

from qcore_ext.ground.lock import renew_locks
from qcore_ext.ground.status import QcoreError

cdef int64_t n_forks = 0        # atomic; forks between the first process and this one, since the module was loaded
cdef int64_t leaving = 0        # atomic

process_locks = weakref.WeakSet()


cdef int64_t fork_number() noexcept nogil:
    return qc_load(&n_forks)


cpdef bint is_leaving() noexcept nogil:
    """Whether the interpreter is shutting down."""
    return qc_load(&leaving) != 0


def current_process():
    """A number that differs between a process and the children forked from it."""
    return fork_number()


cpdef int check_process(int64_t made_in) except -1:
    """QcoreError in a child of the process `made_in`, whose threads and open files are not the child's."""
    if made_in != fork_number():
        raise QcoreError(
            "this query belongs to the process that this one was forked from: its threads run there and its rows are "
            "read there; begin a query of this process's own (a Session and Result.to_arrow() do so in a child)"
        )
    return 0


cpdef int check_not_leaving() except -1:
    """QcoreError once the interpreter is leaving."""
    if is_leaving():
        raise QcoreError(
            "the Python interpreter is shutting down: no query can run any more; read results before the program ends, "
            "or in a function given to atexit.register() after qcore was imported"
        )
    return 0


def leave():
    """From here on no query is begun."""
    qc_store(&leaving, 1)


class ProcessLock:
    """A lock for the threads of one process. A forked child finds it free, whoever of its parent's threads had it."""

    def __init__(self):
        self._lock = threading.Lock()
        process_locks.add(self)

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *error):
        self._lock.release()


def begin_child():
    """In a forked child, before anything else of it runs."""
    qc_store(&n_forks, n_forks + 1)
    renew_locks()
    for lock in list(process_locks):
        lock._lock = threading.Lock()


os.register_at_fork(after_in_child=begin_child)
