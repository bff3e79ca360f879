"""Who runs when: a run queue, and worker threads that serve it. SPEC V7, G5."""

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
from qcore_ext.ground.condition cimport (
    condition_destroy, condition_init, condition_wait, condition_wake_all, condition_wake_one,
)
from qcore_ext.ground.lock cimport LOCK_SCHEDULER, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport (
    Owner, memory_is_worth_trimming, memory_trim, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.memory_pool cimport CMemoryPool, pool_going, pool_turn
from qcore_ext.ground.process cimport check_not_leaving, fork_number, is_leaving
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport WaitToken

from qcore_ext.ground.process import ProcessLock, leave
from qcore_ext.ground.status import QcoreError

cdef extern from *:
    """
    static __thread void *qc_place;
    """
    void* qc_place

cdef enum:
    # A worker without work looks up this often; it is woken at once when work comes.
    NAP_NANOS = 1000000000
    # A substitute looks up more often, whether it is still wanted.
    SUBSTITUTE_NAP_NANOS = 20000000
    # So long after the last turn of any driver, memory kept for the next query goes back to the system: queries that
    # follow each other find it warm.
    IDLE_NANOS = 2000000000

    # A turn that takes as long, twice a driver's slice, is in a call that does not come back soon.
    LONG_TURN_NANOS = 20000000
    # Long calls of one scheduler that others are served beside. Each keeps a thread, and processors are shared by all.
    SUBSTITUTES_MAX = 16

cdef int64_t n_turns = 0        # atomic; turns under way, on any thread
cdef int64_t last_turn = 0      # atomic; when one was over last

# How long leaving the interpreter takes at most: drivers stop within the batch they work on, but a user's operator that
# sleeps cannot be stopped.
LEAVE_SECONDS = 1.0


cdef void run_queue_free(Owner* owner) noexcept nogil:
    cdef RunQueue* queue = <RunQueue*> owner
    condition_destroy(&queue.ready)
    mutex_destroy(&queue.mutex)
    free(queue.ring)
    free(queue)


cdef RunQueue* run_queue_new() except NULL nogil:
    # Not among the counted structs: a scheduler's queue lives as long as its threads.
    cdef RunQueue* queue = <RunQueue*> calloc(1, sizeof(RunQueue))
    if queue == NULL:
        raise_memory_limit(b"the machine has no memory left")
        return NULL
    queue.owner.references = 1
    queue.owner.release = run_queue_free
    queue.process = fork_number()
    mutex_init(&queue.mutex, LOCK_SCHEDULER)
    condition_init(&queue.ready)
    return queue


cdef bint run_queue_reserve(RunQueue* queue) noexcept nogil:
    """Room for one runnable more, under the lock; False: the machine has no memory left."""
    cdef Runnable** ring
    cdef int64_t i, n_tail
    cdef int64_t capacity = queue.capacity * 2 + 16
    if queue.n_runnables < queue.capacity:
        return True
    ring = <Runnable**> realloc(queue.ring, capacity * sizeof(Runnable*))
    if ring == NULL:
        return False
    # Entries from head on move to the end of the larger ring.
    n_tail = queue.capacity - queue.head
    for i in range(1, n_tail + 1):
        ring[capacity - i] = ring[queue.capacity - i]
    queue.head = capacity - n_tail if n_tail > 0 else 0
    queue.ring = ring
    queue.capacity = capacity
    return True


cdef void run_queue_push(RunQueue* queue, Runnable* runnable) noexcept nogil:
    """Append; takes a reference of its own."""
    cdef int64_t tail
    cdef bint wake
    owner_ref(<Owner*> runnable)
    mutex_lock(&queue.mutex)
    tail = queue.head + queue.n_queued
    if tail >= queue.capacity:
        tail -= queue.capacity
    queue.ring[tail] = runnable
    qc_store(&queue.n_queued, queue.n_queued + 1)
    wake = queue.n_sleeping > 0
    mutex_unlock(&queue.mutex)
    if wake:
        condition_wake_one(&queue.ready)


cdef Runnable* run_queue_pop(RunQueue* queue, int64_t nanos) noexcept nogil:
    cdef Runnable* runnable = NULL
    cdef int64_t until = wall_nanos() + nanos
    mutex_lock(&queue.mutex)
    while queue.n_queued == 0 and not queue.closed and nanos > 0:
        queue.n_sleeping += 1
        condition_wait(&queue.ready, &queue.mutex, nanos)
        queue.n_sleeping -= 1
        nanos = until - wall_nanos()
    if queue.n_queued > 0 and not queue.closed:
        runnable = queue.ring[queue.head]
        queue.head = queue.head + 1 if queue.head + 1 < queue.capacity else 0
        qc_store(&queue.n_queued, queue.n_queued - 1)
    mutex_unlock(&queue.mutex)
    return runnable


cdef void run_queue_close(RunQueue* queue) noexcept nogil:
    mutex_lock(&queue.mutex)
    qc_store(&queue.closed, 1)
    condition_wake_all(&queue.ready)
    mutex_unlock(&queue.mutex)


cdef void runnable_notify(WaitToken* token) noexcept nogil:
    cdef int64_t state
    cdef CMemoryPool* pool = (<Runnable*> token).pool
    if (<Runnable*> token).queue.process != fork_number():
        return      # a forked child's copy: nobody serves that queue, whose sleepers are not here
    while True:
        state = qc_load(&token.state)
        if state == RUN_IDLE:
            if pool != NULL:
                pool_going(pool, 1)     # before it may run and block
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
    # A swap, which nothing after it overtakes: who sets a flag and then finds QUEUED here does not wake us again,
    # so the flag must be seen by this turn.
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
    """A worker's life."""
    global qc_place
    cdef Runnable* runnable
    cdef bint worked = False
    cdef Place place
    place.queue = queue
    place.substitute = NULL
    qc_place = &place
    while not qc_load(&queue.closed) and not qc_load(dismissed):
        runnable = run_queue_pop(queue, nap_nanos)
        if runnable != NULL:
            place.began = wall_nanos()
            runnable_turn(runnable)
            worked = True
            if place.substitute != NULL:
                dismiss_substitute(&place)
        elif qc_load(&n_turns) == 0 and wall_nanos() - qc_load(&last_turn) > IDLE_NANOS:
            if memory_is_worth_trimming():
                memory_trim()
            if worked and not is_leaving():
                worked = False
                release_arrow_memory()
    qc_place = NULL


cdef void serve_others() noexcept nogil:
    """A thread in the middle of a turn looks here whether others wait for one (memory.give_way).

    Of a turn that lasts, and goes on to last, drivers in the queue would see nothing but its end: a substitute thread
    serves them until then. The processors are shared by the system.
    """
    cdef Place* place = <Place*> qc_place
    if place == NULL or place.substitute != NULL or qc_load(&place.queue.n_queued) == 0:
        return
    if wall_nanos() - place.began < LONG_TURN_NANOS:
        return
    if qc_add(&place.queue.n_substitutes, 1) > SUBSTITUTES_MAX or not call_substitute(place):
        qc_add(&place.queue.n_substitutes, -1)
        place.began = wall_nanos()      # asked again later

memory.give_way = serve_others


cdef class Worker:
    """What a worker thread runs. Holds the queue, not the scheduler, so that a forgotten scheduler ends its threads."""
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


cdef bint call_substitute(Place* place) noexcept with gil:
    """Start a substitute for this thread's turn; False: there is no thread to be had."""
    cdef Worker substitute
    if is_leaving():
        return False        # starting a thread would wait for ever
    try:
        substitute = worker_of(place.queue, SUBSTITUTE_NAP_NANOS)
        substitute.for_long_call = True
        start_substitute(substitute)
    except Exception:
        return False        # the machine's limit of threads, or Python is ending; the others wait as they would have
    Py_INCREF(substitute)
    place.substitute = <PyObject*> substitute
    return True


cdef void dismiss_substitute(Place* place) noexcept with gil:
    """It leaves at the end of its own turn."""
    substitute = <Worker> place.substitute
    place.substitute = NULL
    qc_store(&substitute.dismissed, 1)
    Py_DECREF(substitute)


cdef class WaitingForOthers:
    """A context in which a thread may wait, in Python, for what other drivers have to do.

    A worker that waits so, in a source that is another query's result or for a lock that such a reader holds, would
    keep the other query's drivers from its thread, in the end for ever: a substitute serves meanwhile. Other threads
    just wait.
    """
    cdef Worker substitute

    def __enter__(self):
        cdef Worker worker = getattr(this_thread, "worker", None)
        # While the interpreter is leaving, starting a thread would wait for ever.
        if worker is not None and not qc_load(&worker.queue.closed) and not is_leaving():
            self.substitute = worker_of(worker.queue, SUBSTITUTE_NAP_NANOS)
            start_substitute(self.substitute)
        return self

    def __exit__(self, *error):
        if self.substitute is not None:
            qc_store(&self.substitute.dismissed, 1)
            self.substitute = None


cdef class Scheduler:
    """Worker threads, shared by any number of tasks, first come, first served.

    Parameters
    ----------
    n_threads : int, optional
        Worker threads; left out: as many as processors this process may use.
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
        # In a forked child its threads do not exist, and its lock may be held for ever: it is left as it is.
        if self.queue != NULL and self.process == fork_number():
            run_queue_close(self.queue)
            owner_unref(<Owner*> self.queue)

    @property
    def usable(self):
        """Whether tasks can run: not shut down, and in the process that made it."""
        return not qc_load(&self.queue.closed) and self.process == fork_number()

    @property
    def n_queued(self):
        """Runnables waiting for a thread now."""
        return qc_load(&self.queue.n_queued)

    def shutdown(self, timeout=5.0):
        """Cancel what runs, wait for it `timeout` seconds at most, and end the threads."""
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
    """End every scheduler of this process, while Python can still run what tasks have to close."""
    leave()
    deadline = time.monotonic() + LEAVE_SECONDS
    for scheduler in list(running_schedulers):
        for task in list(scheduler.active):
            task.cancel("the interpreter is leaving")       # all of them before the first is waited for
    for scheduler in list(running_schedulers):
        scheduler.shutdown(max(0.0, deadline - time.monotonic()))
    for thread in list(substitutes):
        thread.join(max(0.0, deadline - time.monotonic()))


def forget_after_fork():
    """In a forked child no worker lives: begin anew."""
    shared_schedulers.clear()
    qc_store(&n_turns, 0)       # turns of the parent's threads
    # What a thread of the parent was at is never freed here: freeing it would take locks that the thread may have held.
    of_parent.extend(running_schedulers)
    running_schedulers.clear()
    substitutes.clear()


atexit.register(shut_down_schedulers)
os.register_at_fork(after_in_child=forget_after_fork)
