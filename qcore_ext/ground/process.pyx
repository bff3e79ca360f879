"""The process that an object belongs to, and whether that process is shutting down.

A forked child has copies of its parent's objects and none of its threads. A wait for a thread of the parent would never
end. After Python's atexit functions have run, no thread can be started, and daemon threads never get the GIL again. So
code that runs queries checks both here first.
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
    """Return a number that differs between a process and its forked children."""
    return fork_number()


cpdef int check_process(int64_t made_in) except -1:
    """Raise QcoreError in a child of the process `made_in`, whose threads and open files are not the child's."""
    if made_in != fork_number():
        raise QcoreError(
            "this query belongs to the process that this one was forked from: its threads run there and its rows are "
            "read there; begin a query of this process's own (a Session and Result.to_arrow() do so in a child)"
        )
    return 0


cpdef int check_not_leaving() except -1:
    """Raise QcoreError if the interpreter is shutting down."""
    if is_leaving():
        raise QcoreError(
            "the Python interpreter is shutting down: no query can run any more; read results before the program ends, "
            "or in a function given to atexit.register() after qcore was imported"
        )
    return 0


def leave():
    """Declare that the interpreter is shutting down. No query can begin after this."""
    qc_store(&leaving, 1)


class ProcessLock:
    """A lock for the threads of one process. A forked child finds it unlocked, whoever held it in the parent."""

    def __init__(self):
        self._lock = threading.Lock()
        process_locks.add(self)

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *error):
        self._lock.release()


def begin_child():
    """Called in a forked child before any other code runs."""
    qc_store(&n_forks, n_forks + 1)
    renew_locks()
    for lock in list(process_locks):
        lock._lock = threading.Lock()


os.register_at_fork(after_in_child=begin_child)
