"""A mutex whose acquisitions are counted, by thread and by what it guards. Floor E0. SPEC G3."""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_add, qc_load

cdef extern from "native/lock.h" nogil:
    void qc_mutex_lock(Mutex* mutex)
    void qc_mutex_unlock(Mutex* mutex)

cdef extern from *:
    """
    static __thread int64_t qc_locks_taken[4];
    static __thread int64_t qc_locks_held;
    """
    int64_t* qc_locks_taken
    int64_t qc_locks_held

cdef int64_t misuses = 0        # atomic

LOCK_NAMES = ("structure", "scheduler", "sleeper", "task")


# Not inline: the count must be one for all modules. No lock is taken so often that the call would be felt.
cdef void mutex_lock(Mutex* mutex) noexcept nogil:
    global qc_locks_held
    locks_not_held()
    qc_mutex_lock(mutex)
    qc_locks_held += 1
    qc_locks_taken[mutex.site] += 1


cdef void mutex_unlock(Mutex* mutex) noexcept nogil:
    global qc_locks_held
    qc_locks_held -= 1
    qc_mutex_unlock(mutex)


cdef void locks_not_held() noexcept nogil:
    if qc_locks_held > 0:
        qc_add(&misuses, 1)


def lock_misuses():
    """How often so far a thread that held a lock asked for another, or for the GIL to raise an error."""
    return qc_load(&misuses)


cdef const int64_t* locks_taken() noexcept nogil:
    return qc_locks_taken
