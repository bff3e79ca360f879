"""A wait token that a thread sleeps on: how the world outside waits for the engine. Floor E0."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

from qcore_ext.ground.condition cimport condition_destroy, condition_init, condition_wait, condition_wake_all
from qcore_ext.ground.lock cimport LOCK_SLEEPER, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Owner, struct_free, struct_new
from qcore_ext.ground.memory_pool cimport CMemoryPool, pool_turn_pauses, pool_turn_resumes
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.wait_token cimport WaitToken

cdef enum:
    # How late Ctrl-C may be heard; waking 20 times a second costs nothing.
    SIGNAL_SLICE_NANOS = 50000000


cdef void thread_token_notify(WaitToken* token) noexcept nogil:
    cdef ThreadToken* self = <ThreadToken*> token
    mutex_lock(&self.mutex)
    self.fired = True
    condition_wake_all(&self.condition)
    mutex_unlock(&self.mutex)


cdef void thread_token_free(Owner* owner) noexcept nogil:
    cdef ThreadToken* self = <ThreadToken*> owner
    condition_destroy(&self.condition)
    mutex_destroy(&self.mutex)
    struct_free(self)


cdef ThreadToken* thread_token_new() except NULL nogil:
    cdef ThreadToken* self = <ThreadToken*> struct_new(sizeof(ThreadToken))
    self.token.owner.references = 1
    self.token.owner.release = thread_token_free
    self.token.notify = thread_token_notify
    mutex_init(&self.mutex, LOCK_SLEEPER)
    condition_init(&self.condition)
    return self


cdef bint thread_token_sleep(ThreadToken* self, int64_t nanos) noexcept nogil:
    cdef int64_t until = wall_nanos() + nanos
    cdef bint fired
    mutex_lock(&self.mutex)
    while not self.fired and nanos > 0:
        condition_wait(&self.condition, &self.mutex, nanos)
        nanos = until - wall_nanos()
    fired = self.fired
    self.fired = False
    mutex_unlock(&self.mutex)
    return fired


cdef int thread_token_wait(ThreadToken* self, int64_t nanos) except -1:
    cdef int64_t until = wall_nanos() + nanos
    cdef int64_t nap = SIGNAL_SLICE_NANOS
    cdef CMemoryPool* paused
    cdef bint fired
    while True:
        if nanos >= 0:
            nap = min(<int64_t> SIGNAL_SLICE_NANOS, until - wall_nanos())
        with nogil:
            paused = pool_turn_pauses()
            fired = thread_token_sleep(self, nap)
            pool_turn_resumes(paused)
        if fired:
            return 1
        PyErr_CheckSignals()
        if nanos >= 0 and wall_nanos() >= until:
            return 0
