"""A mutex whose acquisitions are counted, by thread and by the kind of structure it guards.

A thread that holds a mutex takes no other one and does not wait for the GIL: it raises nothing, calls no Python code,
fires no token and drops no reference that may be the last. So no order of locks is needed, and a thread that has the
GIL may take a mutex. lock_misuses() counts violations.
"""

from libc.stdint cimport int64_t


cdef enum LockSite:
    LOCK_STRUCTURE = 0          # structures that drivers share: queues, bridges, merges
    LOCK_SCHEDULER = 1          # the run queue; a thread that wakes a driver takes it
    LOCK_SLEEPER = 2            # a sleeping thread outside the engine; the thread that wakes it takes it
    LOCK_TASK = 3

cdef enum:
    N_LOCK_SITES = 4


cdef extern from "native/lock.h" nogil:
    ctypedef struct Mutex "QcMutex":
        int64_t site        # a LockSite in the low bits; the bits above it belong to mutex_lock

    void mutex_init "qc_mutex_init"(Mutex* mutex, int64_t site)
    void mutex_destroy "qc_mutex_destroy"(Mutex* mutex)

cdef void mutex_lock(Mutex* mutex) noexcept nogil
cdef void mutex_unlock(Mutex* mutex) noexcept nogil
# Called before a wait for a lock or the GIL: counts a misuse if the calling thread holds a lock.
cdef void locks_not_held() noexcept nogil
# How often the calling thread took locks, by LockSite. The array belongs to the thread.
cdef const int64_t* locks_taken() noexcept nogil
