"""A mutex whose acquisitions are counted, by thread and by what it guards. Floor E0. SPEC G3."""

from libc.stdint cimport int64_t

cdef extern from "native/lock.h" nogil:
    void qc_mutex_lock(Mutex* mutex)

cdef extern from *:
    """
    static __thread int64_t qc_locks_taken[4];
    """
    int64_t* qc_locks_taken

LOCK_NAMES = ("structure", "scheduler", "sleeper", "task")


# Not inline: the count must be one for all modules. No lock is taken so often that the call would be felt.
cdef void mutex_lock(Mutex* mutex) noexcept nogil:
    qc_mutex_lock(mutex)
    qc_locks_taken[mutex.site] += 1


cdef const int64_t* locks_taken() noexcept nogil:
    return qc_locks_taken
