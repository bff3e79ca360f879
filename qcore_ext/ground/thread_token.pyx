"""A wait token on which a thread sleeps: it lets threads outside the engine, and sources in Python, wait for it."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.condition cimport condition_destroy, condition_init, condition_wait, condition_wake_all
from qcore_ext.ground.lock cimport LOCK_SLEEPER, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Owner, owner_unref, raise_stopped, struct_free, struct_new
from qcore_ext.ground.memory_pool cimport CMemoryPool, pool_going, pool_of_turn
from qcore_ext.ground.process cimport check_not_leaving, check_process, fork_number, is_leaving
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport (
    WaitToken, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add,
)

cdef extern from *:
    """
    static __thread void *qc_turn;
    """
    void* qc_turn

cdef enum:
    # The longest delay of Ctrl-C. Waking 20 times a second costs nothing.
    SIGNAL_SLICE_NANOS = 50000000
    # The longest delay until a sleeping driver sees that its task is stopped. Drivers of several queries may wait for
    # each other.
    STOP_SLICE_NANOS = 10000000


cdef void turn_begin(Turn* turn, const int64_t* stop) noexcept nogil:
    global qc_turn
    turn.stop = stop
    turn.outer = <Turn*> qc_turn
    qc_turn = turn


cdef void turn_end(Turn* turn) noexcept nogil:
    global qc_turn
    qc_turn = turn.outer


cdef bint in_turn() noexcept nogil:
    return qc_turn != NULL


cdef bint in_turn_of(const int64_t* stop) noexcept nogil:
    cdef Turn* turn = <Turn*> qc_turn
    while turn != NULL:
        if turn.stop == stop:
            return True
        turn = turn.outer
    return False


cdef int turn_check() except -1 nogil:
    cdef Turn* turn = <Turn*> qc_turn
    while turn != NULL:
        if qc_load(turn.stop) != 0:
            return raise_stopped()
        turn = turn.outer
    return 0


cdef void count_awake(ThreadToken* self) noexcept nogil:
    """Count the driver that sleeps here as going. May be called under the lock: one driver more fires no token."""
    if self.asleep != NULL:
        pool_going(self.asleep, 1)
        self.asleep = NULL


cdef void thread_token_notify(WaitToken* token) noexcept nogil:
    cdef ThreadToken* self = <ThreadToken*> token
    if self.process != fork_number():
        return      # in a forked child no thread sleeps here
    mutex_lock(&self.mutex)
    self.fired = True
    count_awake(self)
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
    self.process = fork_number()
    mutex_init(&self.mutex, LOCK_SLEEPER)
    condition_init(&self.condition)
    return self


cdef void count_asleep(ThreadToken* self) noexcept nogil:
    """Do not count this thread's driver, if there is one, as going until the token fires."""
    cdef CMemoryPool* pool = pool_of_turn()
    if pool == NULL:
        return
    mutex_lock(&self.mutex)
    if self.fired:
        pool = NULL
    else:
        self.asleep = pool
    mutex_unlock(&self.mutex)
    if pool != NULL:
        pool_going(pool, -1)        # may fire tokens, so it is called outside the lock


cdef bint thread_token_sleep(ThreadToken* self, int64_t nanos) noexcept nogil:
    """Sleep for one slice. Returns True when the token fired."""
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


cdef int thread_token_wait(ThreadToken* self, int64_t nanos, bint for_cleanup) except -1:
    cdef int64_t until = wall_nanos() + nanos
    cdef bint heeds_stop = in_turn() and not for_cleanup
    cdef int64_t slice_nanos = STOP_SLICE_NANOS if heeds_stop else SIGNAL_SLICE_NANOS
    cdef int64_t nap = slice_nanos
    cdef bint fired = False
    with nogil:
        count_asleep(self)
    try:
        while True:
            if nanos >= 0:
                nap = min(slice_nanos, until - wall_nanos())
            with nogil:
                fired = thread_token_sleep(self, nap)
            if fired:
                return 1
            PyErr_CheckSignals()
            if heeds_stop:
                turn_check()
            if nanos >= 0 and wall_nanos() >= until:
                return 0
            if nanos < 0 and is_leaving():
                # The thread that would fire the token may never get the GIL again.
                if not for_cleanup:
                    check_not_leaving()
                return 0
    finally:
        if not fired:
            with nogil:
                mutex_lock(&self.mutex)
                count_awake(self)
                mutex_unlock(&self.mutex)


cdef class TokenLock:
    """A lock for threads that wait for each other in Python. A driver that waits for it counts as waiting.

    Releasing it wakes all waiting threads. The releasing thread may take it again before they do.
    """

    def __cinit__(self):
        mutex_init(&self.mutex, LOCK_SLEEPER)
        self.process = fork_number()

    def __dealloc__(self):
        wait_list_clear(&self.waiting)
        mutex_destroy(&self.mutex)

    def try_acquire(self):
        """Take the lock if it is free. Returns whether it was free. Raises QcoreError in a forked child."""
        check_process(self.process)
        cdef bint taken
        mutex_lock(&self.mutex)
        taken = not self.held
        self.held = True
        mutex_unlock(&self.mutex)
        return taken

    def acquire(self):
        """Wait for the lock and take it. Raises Cancelled when the task of the calling driver is stopped."""
        cdef ThreadToken* token = thread_token_new()
        cdef const char* failed = NULL
        cdef bint taken = False
        try:
            while True:
                mutex_lock(&self.mutex)
                taken = not self.held
                if taken:
                    self.held = True
                else:
                    failed = wait_list_try_add(&self.waiting, &token.token)
                mutex_unlock(&self.mutex)
                if taken:
                    return
                if failed != NULL:
                    raise_memory_limit(failed)
                thread_token_wait(token, -1, False)
        finally:
            owner_unref(<Owner*> token)

    def release(self):
        """Release the lock. Called by its holder."""
        cdef WaitList taken
        with nogil:
            mutex_lock(&self.mutex)
            self.held = False
            wait_list_take(&self.waiting, &taken)
            mutex_unlock(&self.mutex)
            wait_list_fire(&taken)
