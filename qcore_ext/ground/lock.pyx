"""A mutex whose acquisitions are counted, by thread and by the kind of structure it guards."""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_add, qc_cas, qc_load, qc_store

cdef extern from "native/lock.h" nogil:
    void qc_mutex_lock(Mutex* mutex)
    void qc_mutex_unlock(Mutex* mutex)

cdef extern from *:
    """
    static __thread int64_t qc_locks_taken[4];
    static __thread int64_t qc_locks_held;
    static void qc_mutex_renew(QcMutex *m) { pthread_mutex_init(&m->mutex, 0); }
    """
    void qc_mutex_renew(Mutex* mutex) nogil
    int64_t* qc_locks_taken
    int64_t qc_locks_held

cdef enum:
    SITE_BITS = 8
    SITE_MASK = (1 << SITE_BITS) - 1
    RENEWING = -1               # the generation of a mutex while a thread renews it

cdef int64_t misuses = 0        # atomic
# Forks between the first process and this one. A mutex keeps, above its site, the generation in which it was locked.
cdef int64_t generation = 0     # atomic

LOCK_NAMES = ("structure", "scheduler", "sleeper", "task")


cdef void renew(Mutex* mutex) noexcept nogil:
    """In a forked child, unlock a mutex that a thread of the parent may have held."""
    cdef int64_t now = qc_load(&generation)
    cdef int64_t site
    while True:
        site = qc_load(&mutex.site)
        if site >> SITE_BITS == now:
            return
        if site >> SITE_BITS != RENEWING and qc_cas(&mutex.site, site, (RENEWING << SITE_BITS) | (site & SITE_MASK)):
            qc_mutex_renew(mutex)
            qc_store(&mutex.site, (now << SITE_BITS) | (site & SITE_MASK))
            return


# Not inline, so that all modules share one count. Locks are not taken often enough for the call to matter.
cdef void mutex_lock(Mutex* mutex) noexcept nogil:
    global qc_locks_held
    locks_not_held()
    if qc_load(&mutex.site) >> SITE_BITS != qc_load(&generation):
        renew(mutex)
    qc_mutex_lock(mutex)
    qc_locks_held += 1
    qc_locks_taken[mutex.site & SITE_MASK] += 1


cdef void mutex_unlock(Mutex* mutex) noexcept nogil:
    global qc_locks_held
    qc_locks_held -= 1
    qc_mutex_unlock(mutex)


cdef void locks_not_held() noexcept nogil:
    if qc_locks_held > 0:
        qc_add(&misuses, 1)


def renew_locks():
    """In a forked child: begin a new generation, because no thread that held a lock exists here."""
    qc_store(&generation, generation + 1)


def lock_misuses():
    """How often a thread that held a lock asked for another lock, or for the GIL to raise an error, so far."""
    return qc_load(&misuses)


cdef const int64_t* locks_taken() noexcept nogil:
    return qc_locks_taken
