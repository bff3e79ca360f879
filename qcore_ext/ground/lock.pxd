"""A mutex whose acquisitions are counted, by thread and by what it guards. SPEC G3.

Who holds one takes no other, and does not wait for the GIL: raises nothing, calls nothing of Python's, fires no token
and drops no reference that may be the last. So there is no order of locks to keep, and a thread that has the GIL may
take one. lock_misuses() counts who did otherwise.
"""

from libc.stdint cimport int64_t


cdef enum LockSite:
    LOCK_STRUCTURE = 0          # what drivers share: queues, bridges, merges
    LOCK_SCHEDULER = 1          # run queue: taken by whoever wakes a driver
    LOCK_SLEEPER = 2            # a thread outside the engine that sleeps until it is woken
    LOCK_TASK = 3

cdef enum:
    N_LOCK_SITES = 4


cdef extern from "native/lock.h" nogil:
    ctypedef struct Mutex "QcMutex":
        int64_t site        # LockSite, and above it what mutex_lock keeps

    void mutex_init "qc_mutex_init"(Mutex* mutex, int64_t site)
    void mutex_destroy "qc_mutex_destroy"(Mutex* mutex)

cdef void mutex_lock(Mutex* mutex) noexcept nogil
cdef void mutex_unlock(Mutex* mutex) noexcept nogil
# Called where a lock or the GIL is waited for: the calling thread should hold no lock.
cdef void locks_not_held() noexcept nogil
# By LockSite, how often the calling thread took a lock; the array is the thread's own.
cdef const int64_t* locks_taken() noexcept nogil
