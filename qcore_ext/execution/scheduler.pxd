"""Scheduling: a run queue, and worker threads that serve it.

A Runnable runs in slices and waits between them. It is its own wait token. Its state changes by atomic steps only, so
no wake-up is lost or counted twice:
    IDLE     waits for its token; notify: → QUEUED
    QUEUED   in the run queue, once; notify: nothing
    RUNNING  on a thread; notify: → NOTIFIED
    NOTIFIED on a thread, woken meanwhile; when it blocks: → QUEUED instead of IDLE
    DONE     never runs again; notify: nothing
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.ground.condition cimport Condition
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport Owner
from qcore_ext.ground.memory_pool cimport CMemoryPool
from qcore_ext.ground.placement cimport Seat, ThreadPlace
from qcore_ext.ground.wait_token cimport WaitToken


cdef enum RunState:
    RUN_IDLE = 0
    RUN_QUEUED = 1
    RUN_RUNNING = 2
    RUN_NOTIFIED = 3
    RUN_DONE = 4


cdef enum RunAnswer:
    RAN_AGAIN = 1               # append it to the queue
    RAN_BLOCKED = 2             # its token was registered
    RAN_DONE = 3


ctypedef struct Sleeper:
    # A thread that waits in run_queue_pop, on its stack.
    Condition woken
    Sleeper* next               # fell asleep before this one; or NULL
    bint is_woken               # under the queue's lock: no longer in its list
    int64_t is_signalled        # atomic; the thread that woke it no longer uses this struct
    ThreadPlace place


ctypedef struct RunQueue:
    Owner owner
    Mutex mutex
    Sleeper* sleepers           # threads in run_queue_pop, the last to fall asleep first
    bint is_waking              # a thread was woken and has not returned to run_queue_pop yet
    Runnable** ring             # each owned
    int64_t capacity            # at least the number of runnables of the queue, so that a push never fails
    int64_t head
    int64_t n_queued            # atomic, like closed: both are also read without the lock
    int64_t n_runnables
    int64_t n_substitutes       # atomic; threads that serve while threads of the scheduler are in long calls
    int64_t closed              # not 0: the threads leave
    int64_t process             # fork_number() of the process whose threads serve it

ctypedef struct Runnable:
    WaitToken token             # first: a Runnable* is a WaitToken*; token.state is its RunState
    RunQueue* queue             # owned
    CMemoryPool* pool           # owned; counts the runnables that are queued or running; or NULL
    int64_t turn_from           # RunState in which the turn began; a breach of the contract unless RUN_QUEUED
    RunAnswer (*run)(Runnable* self) noexcept nogil
    PyObject* context           # borrowed; kept alive by the Runnable's maker until RAN_DONE


ctypedef struct ServingThread:
    # The state of a thread that serves a queue.
    RunQueue* queue             # borrowed
    int64_t began               # wall_nanos at the begin of the turn
    Seat seat
    int64_t n_looks             # calls of give_way
    PyObject* substitute        # owned; the Worker that serves other drivers until the turn is over, or NULL


cdef RunQueue* run_queue_new() except NULL nogil
# The next runnable, owned by the caller. NULL: `nanos` are over, or the queue was closed.
cdef Runnable* run_queue_pop(RunQueue* queue, int64_t nanos) noexcept nogil
cdef void run_queue_close(RunQueue* queue) noexcept nogil
cdef Runnable* runnable_new(
    RunQueue* queue, RunAnswer (*run)(Runnable* self) noexcept nogil, PyObject* context,
) except NULL nogil
# Run a runnable from the queue once and put it where its answer says. Consumes the reference.
cdef void runnable_turn(Runnable* self) noexcept nogil


cdef class Scheduler:
    cdef object __weakref__
    cdef RunQueue* queue        # owned
    cdef readonly int n_threads
    cdef readonly int64_t process   # fork_number() of the process whose threads these are
    cdef list threads
    cdef readonly set active    # tasks, kept alive as long as their runnables
