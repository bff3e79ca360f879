"""Scheduling: a run queue, and worker threads that serve it."""

import atexit
import os
import threading
import time
import weakref

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, realloc

from qcore_ext.ground cimport memory
from qcore_ext.ground.arrow_memory cimport release_arrow_memory
from qcore_ext.ground.atomic cimport qc_add, qc_cas, qc_load, qc_store, qc_swap
from qcore_ext.ground.condition cimport condition_destroy, condition_init, condition_wait, condition_wake_one
from qcore_ext.ground.lock cimport LOCK_SCHEDULER, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport (
    Owner, memory_is_worth_trimming, memory_offer, memory_trim, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.memory_pool cimport CMemoryPool, pool_going, pool_turn
from qcore_ext.ground.placement cimport (
    place_anywhere, place_apart, place_note, qc_pause, seat_init, seat_keep, seat_leave,
)
from qcore_ext.ground.process cimport check_not_leaving, fork_number, is_leaving
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport WaitToken

from qcore_ext.ground.process import ProcessLock, leave
from qcore_ext.ground.status import QcoreError

cdef extern from *:
    """
    static __thread void *qc_serving;
    """
    void* qc_serving

# Time from the last turn of any driver until the system may take idle memory when it is short of memory (as long as
# jemalloc keeps unused pages), and until all idle memory is returned. Queries that follow each other reuse the memory:
# a result of 320 MB in fresh pages takes three times as long.
cdef int64_t IDLE_NANOS = 10000000000
cdef int64_t TRIM_NANOS = 30000000000

cdef enum:
    # Longest sleep of a worker without work. It is woken at once when work comes.
    NAP_NANOS = 1000000000
    # Longest sleep of a substitute, which checks more often whether it is still needed.
    SUBSTITUTE_NAP_NANOS = 20000000
    # A turn of twice a driver's slice is in a long call.
    LONG_TURN_NANOS = 20000000
    # Calls of account_check, which come every 2,048 rows or more, from one look at the seat to the next.
    LOOKS_PER_SEAT = 16
    # The most long calls of one scheduler beside which other drivers are served. Each call keeps a thread.
    SUBSTITUTES_MAX = 16

cdef int64_t n_turns = 0        # atomic; number of turns now, on all threads
cdef int64_t last_turn = 0      # atomic; wall_nanos at the end of the last turn
cdef int64_t offered_for = 0    # atomic; the value of last_turn for which all idle memory was offered to the system

# The longest wait for tasks when the interpreter shuts down. Drivers stop within their batch, but a user's operator
# that sleeps cannot be stopped.
LEAVE_SECONDS = 1.0


cdef void run_queue_free(Owner* owner) noexcept nogil:
    cdef RunQueue* queue = <RunQueue*> owner
    mutex_destroy(&queue.mutex)
    free(queue.ring)
    free(queue)


cdef RunQueue* run_queue_new() except NULL nogil:
    # Not counted by struct_new: a scheduler's queue lives as long as its threads.
    cdef RunQueue* queue = <RunQueue*> calloc(1, sizeof(RunQueue))
    if queue == NULL:
        raise_memory_limit(b"the machine has no memory left")
        return NULL
    queue.owner.references = 1
    queue.owner.release = run_queue_free
    queue.process = fork_number()
    mutex_init(&queue.mutex, LOCK_SCHEDULER)
    return queue


cdef bint run_queue_reserve(RunQueue* queue) noexcept nogil:
    """Make space for one more runnable, under the lock. False: the machine has no memory left."""
    cdef Runnable** ring
    cdef int64_t i, n_tail
    cdef int64_t capacity = queue.capacity * 2 + 16
    if queue.n_runnables < queue.capacity:
        return True
    ring = <Runnable**> realloc(queue.ring, capacity * sizeof(Runnable*))
    if ring == NULL:
        return False
    # The entries from head on move to the end of the larger ring.
    n_tail = queue.capacity - queue.head
    for i in range(1, n_tail + 1):
        ring[capacity - i] = ring[queue.capacity - i]
    queue.head = capacity - n_tail if n_tail > 0 else 0
    queue.ring = ring
    queue.capacity = capacity
    return True


cdef Sleeper* run_queue_sleeper(RunQueue* queue) noexcept nogil:
    """Take the thread that the caller, who holds the lock, must wake when it has released the lock; or NULL.

    One thread is woken at a time, and wakes the next when it has taken its runnable, so that each is placed apart from
    the thread that wakes it.
    """
    cdef Sleeper* sleeper = queue.sleepers
    if queue.n_queued == 0 or sleeper == NULL or queue.is_waking:
        return NULL
    queue.is_waking = True
    queue.sleepers = sleeper.next
    sleeper.is_woken = True
    return sleeper


cdef void sleeper_wake(Sleeper* sleeper) noexcept nogil:
    if sleeper == NULL:
        return
    place_apart(&sleeper.place)
    condition_wake_one(&sleeper.woken)
    qc_store(&sleeper.is_signalled, 1)


cdef void run_queue_sleep(RunQueue* queue, int64_t nanos) noexcept nogil:
    """Wait, under the lock, until a runnable was pushed, the queue is closed or `nanos` are over."""
    cdef Sleeper sleeper
    cdef Sleeper** link
    condition_init(&sleeper.woken)
    sleeper.is_woken = False
    sleeper.is_signalled = 0
    place_note(&sleeper.place)
    sleeper.next = queue.sleepers
    queue.sleepers = &sleeper
    while not sleeper.is_woken and not queue.closed and condition_wait(&sleeper.woken, &queue.mutex, nanos):
        pass
    if sleeper.is_woken:
        queue.is_waking = False
        mutex_unlock(&queue.mutex)
        while not qc_load(&sleeper.is_signalled):
            qc_pause()
        place_anywhere(&sleeper.place)
        mutex_lock(&queue.mutex)
    else:
        link = &queue.sleepers
        while link[0] != &sleeper:
            link = &link[0].next
        link[0] = sleeper.next
    condition_destroy(&sleeper.woken)


cdef void run_queue_push(RunQueue* queue, Runnable* runnable) noexcept nogil:
    """Append the runnable. Takes its own reference."""
    cdef int64_t tail
    cdef Sleeper* sleeper
    owner_ref(<Owner*> runnable)
    mutex_lock(&queue.mutex)
    tail = queue.head + queue.n_queued
    if tail >= queue.capacity:
        tail -= queue.capacity
    queue.ring[tail] = runnable
    qc_store(&queue.n_queued, queue.n_queued + 1)
    sleeper = run_queue_sleeper(queue)
    mutex_unlock(&queue.mutex)
    sleeper_wake(sleeper)


cdef Runnable* run_queue_pop(RunQueue* queue, int64_t nanos) noexcept nogil:
    cdef Runnable* runnable = NULL
    cdef Sleeper* sleeper
    cdef int64_t until = wall_nanos() + nanos
    mutex_lock(&queue.mutex)
    while queue.n_queued == 0 and not queue.closed and nanos > 0:
        run_queue_sleep(queue, nanos)
        nanos = until - wall_nanos()
    if queue.n_queued > 0 and not queue.closed:
        runnable = queue.ring[queue.head]
        queue.head = queue.head + 1 if queue.head + 1 < queue.capacity else 0
        qc_store(&queue.n_queued, queue.n_queued - 1)
    sleeper = run_queue_sleeper(queue)
    mutex_unlock(&queue.mutex)
    sleeper_wake(sleeper)
    return runnable


cdef void run_queue_close(RunQueue* queue) noexcept nogil:
    cdef Sleeper* sleeper
    mutex_lock(&queue.mutex)
    qc_store(&queue.closed, 1)
    sleeper = queue.sleepers
    while sleeper != NULL:
        condition_wake_one(&sleeper.woken)
        sleeper = sleeper.next
    mutex_unlock(&queue.mutex)


cdef void runnable_notify(WaitToken* token) noexcept nogil:
    cdef int64_t state
    cdef CMemoryPool* pool = (<Runnable*> token).pool
    if (<Runnable*> token).queue.process != fork_number():
        return      # in a forked child: the threads of that queue do not exist here
    while True:
        state = qc_load(&token.state)
        if state == RUN_IDLE:
            if pool != NULL:
                pool_going(pool, 1)     # before it can run and block
            if qc_cas(&token.state, RUN_IDLE, RUN_QUEUED):
                run_queue_push((<Runnable*> token).queue, <Runnable*> token)
                return
            if pool != NULL:
                pool_going(pool, -1)
        elif state == RUN_RUNNING:
            if qc_cas(&token.state, RUN_RUNNING, RUN_NOTIFIED):
                return
        else:
            return


cdef void runnable_free(Owner* owner) noexcept nogil:
    cdef Runnable* self = <Runnable*> owner
    mutex_lock(&self.queue.mutex)
    self.queue.n_runnables -= 1
    mutex_unlock(&self.queue.mutex)
    owner_unref(<Owner*> self.queue)
    owner_unref(<Owner*> self.pool)
    struct_free(self)


cdef Runnable* runnable_new(
    RunQueue* queue, RunAnswer (*run)(Runnable* self) noexcept nogil, PyObject* context,
) except NULL nogil:
    cdef Runnable* self = <Runnable*> struct_new(sizeof(Runnable))
    cdef bint reserved
    mutex_lock(&queue.mutex)
    reserved = run_queue_reserve(queue)
    queue.n_runnables += reserved
    mutex_unlock(&queue.mutex)
    if not reserved:
        struct_free(self)
        raise_memory_limit(b"the machine has no memory left")
        return NULL
    self.token.owner.references = 1
    self.token.owner.release = runnable_free
    self.token.notify = runnable_notify
    self.queue = <RunQueue*> owner_ref(<Owner*> queue)
    self.run = run
    self.context = context
    return self


cdef void runnable_turn(Runnable* self) noexcept nogil:
    cdef RunAnswer answer
    cdef CMemoryPool* outer = NULL
    cdef bint going = False
    if self.pool != NULL:
        outer = pool_turn(self.pool)
    # A swap, which later reads cannot overtake: a thread that sets a flag and then finds QUEUED here does not wake the
    # runnable again, so this turn must see the flag.
    self.turn_from = qc_swap(&self.token.state, RUN_RUNNING)
    qc_add(&n_turns, 1)
    answer = self.run(self)
    qc_store(&last_turn, wall_nanos())
    qc_add(&n_turns, -1)
    if self.pool != NULL:
        pool_turn(outer)
    if answer == RAN_DONE:
        qc_store(&self.token.state, RUN_DONE)
    elif answer == RAN_AGAIN or not qc_cas(&self.token.state, RUN_RUNNING, RUN_IDLE):
        qc_store(&self.token.state, RUN_QUEUED)
        run_queue_push(self.queue, self)
        going = True
    if self.pool != NULL and not going:
        pool_going(self.pool, -1)
    owner_unref(<Owner*> self)


cdef void serve(RunQueue* queue, int64_t nap_nanos, const int64_t* dismissed) noexcept nogil:
    """The loop of a worker thread."""
    global qc_serving
    cdef Runnable* runnable
    cdef int64_t idle_since
    cdef bint worked = False
    cdef ServingThread serving
    serving.queue = queue
    serving.substitute = NULL
    serving.n_looks = 0
    seat_init(&serving.seat)
    qc_serving = &serving
    while not qc_load(&queue.closed) and not qc_load(dismissed):
        runnable = run_queue_pop(queue, nap_nanos)
        if runnable != NULL:
            serving.began = wall_nanos()
            seat_keep(&serving.seat)
            runnable_turn(runnable)
            seat_leave(&serving.seat)
            worked = True
            if serving.substitute != NULL:
                dismiss_substitute(&serving)
        elif qc_load(&n_turns) == 0 and wall_nanos() - qc_load(&last_turn) > IDLE_NANOS:
            idle_since = qc_load(&last_turn)
            if qc_load(&offered_for) != idle_since and memory_offer(&n_turns):
                qc_store(&offered_for, idle_since)
            if memory_is_worth_trimming() and wall_nanos() - idle_since > TRIM_NANOS:
                memory_trim()
            if worked and not is_leaving():
                worked = False
                release_arrow_memory()
    qc_serving = NULL


cdef void serve_others() noexcept nogil:
    """Start a substitute thread if this turn is long and other drivers wait (memory.give_way). Called in long calls.

    Without it, drivers in the queue would wait for the end of the turn. The operating system shares the processors.
    """
    cdef ServingThread* serving = <ServingThread*> qc_serving
    if serving == NULL:
        return
    serving.n_looks += 1
    if serving.n_looks % LOOKS_PER_SEAT == 0:
        seat_keep(&serving.seat)
    if serving.substitute != NULL or qc_load(&serving.queue.n_queued) == 0:
        return
    if wall_nanos() - serving.began < LONG_TURN_NANOS:
        return
    if qc_add(&serving.queue.n_substitutes, 1) > SUBSTITUTES_MAX or not call_substitute(serving):
        qc_add(&serving.queue.n_substitutes, -1)
        serving.began = wall_nanos()      # try again later

memory.give_way = serve_others


cdef class Worker:
    """Runs a worker thread. Holds the queue, not the scheduler, so that the threads of a freed scheduler end."""
    cdef RunQueue* queue
    cdef int64_t nap_nanos
    cdef int64_t dismissed      # atomic

    cdef bint for_long_call     # counted in queue.n_substitutes

    def __dealloc__(self):
        owner_unref(<Owner*> self.queue)

    def __call__(self):
        this_thread.worker = self
        with nogil:
            serve(self.queue, self.nap_nanos, &self.dismissed)
        if self.for_long_call:
            qc_add(&self.queue.n_substitutes, -1)


cdef Worker worker_of(RunQueue* queue, int64_t nap_nanos):
    cdef Worker worker = Worker()
    worker.queue = <RunQueue*> owner_ref(<Owner*> queue)
    worker.nap_nanos = nap_nanos
    return worker


cdef int start_substitute(Worker substitute) except -1:
    thread = threading.Thread(target=substitute, name="qcore-substitute", daemon=True)
    thread.start()
    substitutes.add(thread)
    return 0


cdef bint call_substitute(ServingThread* serving) noexcept with gil:
    """Start a substitute for this thread's turn. False: no thread can be started."""
    cdef Worker substitute
    if is_leaving():
        return False        # starting a thread would block for ever
    try:
        substitute = worker_of(serving.queue, SUBSTITUTE_NAP_NANOS)
        substitute.for_long_call = True
        start_substitute(substitute)
    except Exception:
        return False        # too many threads, or the interpreter is shutting down; the drivers wait for this turn
    Py_INCREF(substitute)
    serving.substitute = <PyObject*> substitute
    return True


cdef void dismiss_substitute(ServingThread* serving) noexcept with gil:
    """The substitute leaves at the end of its own turn."""
    substitute = <Worker> serving.substitute
    serving.substitute = NULL
    qc_store(&substitute.dismissed, 1)
    Py_DECREF(substitute)


cdef class WaitingForOthers:
    """A context in which a thread waits, in Python, for the work of other drivers.

    A worker may wait in a source that is another query's result, or for a lock that a reader of such a source holds.
    The other query's drivers could then never get the worker's thread. So a substitute serves while the worker waits.
    Other threads just wait.
    """
    cdef Worker substitute

    def __enter__(self):
        cdef Worker worker = getattr(this_thread, "worker", None)
        # During shutdown starting a thread would block for ever.
        if worker is not None and not qc_load(&worker.queue.closed) and not is_leaving():
            self.substitute = worker_of(worker.queue, SUBSTITUTE_NAP_NANOS)
            start_substitute(self.substitute)
        return self

    def __exit__(self, *error):
        if self.substitute is not None:
            qc_store(&self.substitute.dismissed, 1)
            self.substitute = None


cdef class Scheduler:
    """Worker threads that any number of tasks share. Drivers run in the order in which they became ready.

    Parameters
    ----------
    n_threads : int, optional
        Worker threads. By default as many as processors that this process may use.
    """

    def __cinit__(self, n_threads=None):
        if n_threads is None:
            n_threads = usable_processors()
        if n_threads < 1:
            raise ValueError(f"a scheduler needs at least one thread, not {n_threads}")
        self.n_threads = n_threads
        check_not_leaving()
        self.process = fork_number()
        self.threads = []
        self.active = set()
        self.queue = run_queue_new()

    def __init__(self, n_threads=None):
        cdef Worker worker
        for i in range(self.n_threads):
            worker = worker_of(self.queue, NAP_NANOS)
            thread = threading.Thread(target=worker, name=f"qcore-worker-{i}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise QcoreError(f"a worker thread cannot be started: {error}") from error
            self.threads.append(thread)
        running_schedulers.add(self)

    def __dealloc__(self):
        # In a forked child the threads do not exist, and the lock may be held for ever: nothing is touched.
        if self.queue != NULL and self.process == fork_number():
            run_queue_close(self.queue)
            owner_unref(<Owner*> self.queue)

    @property
    def usable(self):
        """Whether tasks can run: it was not shut down, and this is the process that made it."""
        return not qc_load(&self.queue.closed) and self.process == fork_number()

    @property
    def n_queued(self):
        """Number of runnables that wait for a thread now."""
        return qc_load(&self.queue.n_queued)

    def shutdown(self, timeout=5.0):
        """Cancel the running tasks, wait at most `timeout` seconds for them, and end the threads."""
        deadline = time.monotonic() + timeout
        if not self.usable:
            return
        for task in list(self.active):
            task.cancel("the scheduler was shut down")
        for task in list(self.active):
            task.settle(max(0.0, deadline - time.monotonic()))
        with nogil:
            run_queue_close(self.queue)
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        self.threads = []


this_thread = threading.local()
running_schedulers = weakref.WeakSet()
substitutes = weakref.WeakSet()
# The schedulers that tasks share, by number of threads.
shared_schedulers = {}
shared_lock = ProcessLock()
of_parent = []


def usable_processors():
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scheduler_of(n_threads=None):
    """Return the process's scheduler with this number of threads, which all tasks with the number share.

    The first call makes it, and so does the first call after a shutdown or in a forked child.

    Parameters
    ----------
    n_threads : int, optional
        By default the number of processors that this process may use.
    """
    if n_threads is None:
        n_threads = usable_processors()
    with shared_lock:
        scheduler = shared_schedulers.get(n_threads)
        if scheduler is None or not scheduler.usable:
            scheduler = shared_schedulers[n_threads] = Scheduler(n_threads)
        return scheduler


def shut_down_schedulers():
    """Shut down every scheduler of this process while Python can still run the close of tasks."""
    leave()
    deadline = time.monotonic() + LEAVE_SECONDS
    for scheduler in list(running_schedulers):
        for task in list(scheduler.active):
            task.cancel("the interpreter is leaving")       # cancel all before waiting for one
    for scheduler in list(running_schedulers):
        scheduler.shutdown(max(0.0, deadline - time.monotonic()))
    for thread in list(substitutes):
        thread.join(max(0.0, deadline - time.monotonic()))


def forget_after_fork():
    """In a forked child no worker exists: forget the parent's schedulers."""
    shared_schedulers.clear()
    qc_store(&n_turns, 0)       # drop the turns of the parent's threads
    # The parent's schedulers are never freed here: that would take locks that threads of the parent may have held.
    of_parent.extend(running_schedulers)
    running_schedulers.clear()
    substitutes.clear()


atexit.register(shut_down_schedulers)
os.register_at_fork(after_in_child=forget_after_fork)
