"""A wait token on which a thread sleeps: it lets threads outside the engine, and sources in Python, wait for it."""

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
    CMemoryPool* asleep         # borrowed; pool of the driver that sleeps here, which n_going does not count; or NULL


cdef ThreadToken* thread_token_new() except NULL nogil
# Sleep until the token fires, and reset it. The GIL is released. Returns 1 when the token fired and 0 after `nanos`;
# nanos < 0: no bound. On the main thread Ctrl-C raises KeyboardInterrupt.
#
# If a driver runs on this thread, its pool does not count it as going (memory_pool) until the token fires: the thread
# may read another query of the pool, which must not wait for this one. It counts again from the firing on, because the
# thread that fires the token may run the last other driver that goes.
#
# Raises Cancelled if that driver's task is stopped (turn_check), unless `for_cleanup`. When the interpreter shuts down,
# a wait without bound ends: it raises QcoreError, or returns 0 if `for_cleanup`.
cdef int thread_token_wait(ThreadToken* self, int64_t nanos, bint for_cleanup) except -1


ctypedef struct Turn:
    const int64_t* stop         # borrowed; not 0 when the driver's task is stopped
    Turn* outer                 # the turn during which this one runs (its driver reads another query), or NULL

# Called at the begin and the end of a driver's turn on this thread. The caller owns `turn`.
cdef void turn_begin(Turn* turn, const int64_t* stop) noexcept nogil
cdef void turn_end(Turn* turn) noexcept nogil
cdef bint in_turn() noexcept nogil
# Whether this thread is in a turn of a driver of the task with this flag.
cdef bint in_turn_of(const int64_t* stop) noexcept nogil
# Raise Cancelled if the task of a driver whose turn runs on this thread was stopped.
cdef int turn_check() except -1 nogil


cdef class TokenLock:
    cdef Mutex mutex
    cdef bint held
    cdef int64_t process        # fork_number() of the process that made it
    cdef WaitList waiting
