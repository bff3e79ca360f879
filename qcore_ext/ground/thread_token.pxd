"""A wait token that a thread sleeps on: how the world outside, and sources in Python, wait for the engine."""

from libc.stdint cimport int64_t

from qcore_ext.ground.condition cimport Condition
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory_pool cimport CMemoryPool
from qcore_ext.ground.wait_token cimport WaitList, WaitToken


ctypedef struct ThreadToken:
    WaitToken token             # first: a ThreadToken* is a WaitToken*
    Mutex mutex
    Condition condition
    bint fired
    int64_t process             # fork_number() of the process whose thread sleeps
    CMemoryPool* asleep         # borrowed; of the driver that sleeps here and so does not count as going on; or NULL


cdef ThreadToken* thread_token_new() except NULL nogil
# Sleep until the token fires, consuming that, with the GIL given up; in slices, so that Ctrl-C is heard on the main
# thread (KeyboardInterrupt is raised). Returns 1 when the token fired, 0 when `nanos` are over; nanos < 0: no bound.
# In a driver's turn, that driver does not go on meanwhile (memory_pool): the thread may be reading another query of
# the pool, which then must not wait for this one. It goes on again from the moment the token fires, not only from when
# the thread is awake: who fires it may be the last other driver that goes on.
# Cancelled is raised when that driver's task is stopped (turn_check), unless the wait is `for_cleanup`. A wait without
# bound ends when the interpreter is leaving: with a QcoreError, or for cleanup with 0.
cdef int thread_token_wait(ThreadToken* self, int64_t nanos, bint for_cleanup) except -1


ctypedef struct Turn:
    const int64_t* stop         # borrowed; not 0 when the driver's task is stopped
    Turn* outer                 # the turn within which this one is: that driver reads a query that runs on its thread

# Around a driver's turn on this thread; `turn` is in the caller's hands.
cdef void turn_begin(Turn* turn, const int64_t* stop) noexcept nogil
cdef void turn_end(Turn* turn) noexcept nogil
cdef bint in_turn() noexcept nogil
# Whether this thread is in a turn of a driver of the task with this flag.
cdef bint in_turn_of(const int64_t* stop) noexcept nogil
# Cancelled when the task of a driver whose turn it is on this thread was stopped.
cdef int turn_check() except -1 nogil


cdef class TokenLock:
    cdef Mutex mutex
    cdef bint held
    cdef int64_t process        # fork_number() of the process that made it
    cdef WaitList waiting
