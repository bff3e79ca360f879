"""A running plan: pipelines of drivers, their splits, and how they end together. SPEC V3, V4, V8, D9."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.execution.driver cimport DRIVER_BLOCKED, DRIVER_YIELDED, Driver
from qcore_ext.execution.pipeline cimport Pipeline
from qcore_ext.execution.scheduler cimport (
    RAN_AGAIN, RAN_BLOCKED, RAN_DONE, RUN_DONE, RUN_QUEUED, RunAnswer, Runnable, RunQueue, Scheduler, run_queue_new,
    run_queue_pop, runnable_new, runnable_turn,
)
from qcore_ext.ground.atomic cimport qc_add, qc_cas, qc_load, qc_store, qc_swap
from qcore_ext.ground.lock cimport LOCK_TASK, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Account, Owner, owner_ref, owner_unref, struct_free, struct_new
from qcore_ext.ground.memory_pool cimport CMemoryPool, pool_enter, pool_held, pool_leave, pool_of, pool_of_turn
from qcore_ext.ground.process cimport check_not_leaving, check_process, fork_number
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.thread_token cimport (
    ThreadToken, Turn, in_turn, in_turn_of, thread_token_new, thread_token_wait, turn_begin, turn_check, turn_end,
)
from qcore_ext.ground.wait_token cimport (
    WaitList, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add, wait_token_fire,
)
from qcore_ext.flow.operator cimport Operator
from qcore_ext.flow.split_queue cimport SplitQueue

from qcore_ext.execution.scheduler import scheduler_of
from qcore_ext.ground.error_text import explain_failure, is_interrupt
from qcore_ext.ground.status import Cancelled, MemoryLimitError, PlanError, QcoreError, Timeout, UntoldError

cdef enum:
    CALLER_NAP_NANOS = 50000000     # how late a task on the caller's thread may hear Ctrl-C
    TURN_NAP_NANOS = 10000000       # and that the driver which called it is stopped

# The driver's run without Cython's check of its answer, which needs the GIL. -1: an exception is set in this thread.
ctypedef int (*QuietRun)(PyObject* driver, int64_t slice_nanos) noexcept nogil


cdef int run_loudly(PyObject* driver, int64_t slice_nanos) except -1 nogil:
    return (<Driver> driver).run(slice_nanos)


cdef QuietRun run_quietly = <QuietRun> <void*> run_loudly


cdef int raise_pending() except -1:
    """Raise the exception that is already set in this thread."""
    return -1


cdef RunAnswer run_driver(Runnable* runnable) noexcept nogil:
    return (<DriverRun> runnable.context).turn()


@cython.no_gc_clear
cdef class DriverRun:
    """One driver in its task: what its Runnable points at."""

    def __dealloc__(self):
        owner_unref(<Owner*> self.runnable)

    cdef RunAnswer turn(self) noexcept nogil:
        """One slice; after the driver's last, everything of it is released."""
        cdef Turn turn
        cdef RunAnswer answer
        turn_begin(&turn, self.driver.stop)
        answer = self.slice()
        turn_end(&turn)         # nothing of this object's: it may be gone with its task
        return answer

    cdef RunAnswer slice(self) noexcept nogil:
        cdef int answer
        # The queue gives a turn to who was woken, once: anything else would run a driver twice, or after its end.
        self.driver.doubled = self.runnable.turn_from != RUN_QUEUED
        answer = run_quietly(<PyObject*> self.driver, (<Task> self.task).slice_nanos)
        if self.driver.finished_early:
            # Drivers of one pipeline share what is enough (a LIMIT's count), and one of them may wait for input that
            # never comes to it: let each ask its operators again.
            self.driver.finished_early = False
            (<Task> self.task).notify_all()
        if answer == -1:
            self.fail(False)
            if self.driver.shut_down:
                return RAN_DONE         # it had ended before
        if self.driver.end_failed:
            self.fail(True)             # an operator that was abandoned on the way
        if answer == DRIVER_BLOCKED:
            return RAN_BLOCKED
        if answer == DRIVER_YIELDED:
            return RAN_AGAIN
        self.driver.shut()
        if self.driver.end_failed:
            self.fail(True)
        if self.driver.checks is not None:
            with gil:
                (<Task> self.task).look_for_violation(self.driver)
        (<Task> self.task).driver_closed(self.pipeline)
        return RAN_DONE

    cdef void fail(self, bint at_end) noexcept nogil:
        """Its run raised, or the end of an operator did (`at_end`). That counts before anything is said of it: who
        makes an error's text calls what users wrote, which may raise, and takes memory (SPEC D9).
        """
        (<Task> self.task).break_off()
        with gil:
            self.tell(at_end)
            (<Task> self.task).leave_untold(self.driver, None)
        (<Task> self.task).stop_all()

    cdef void tell(self, bint at_end) noexcept:
        """Make what was raised the task's error."""
        cdef bint is_told = at_end
        error = None
        try:
            if at_end:
                error = self.driver.ended_with()
            else:
                raise_pending()
        except BaseException as raised:
            error = raised
            is_told = False
        (<Task> self.task).record(self.driver, error, is_told)


@cython.no_gc_clear
cdef class Task:
    """Runs pipelines of operators to their common end.

    Parameters
    ----------
    pipelines : list of list of list of Operator
        For each pipeline, for each of its drivers, its chain, source first. The last pipeline gives the result: when
        its drivers are finished, what still runs is stopped.
    memory : Account, optional
        The query's account, for counters.
    scheduler : Scheduler, optional
        Who runs it after `start`; left out: the process's own.
    split_queues : dict of str to SplitQueue, optional
        By id of the source node.
    slice_ms : float
        Longest turn of a driver, in milliseconds, before others get theirs.
    """

    def __cinit__(self, *arguments, **options):
        mutex_init(&self.mutex, LOCK_TASK)

    def __init__(
        self, list pipelines, Account memory=None, Scheduler scheduler=None, split_queues=None, double slice_ms=10.0,
    ):
        cdef DriverRun run
        cdef Pipeline pipeline
        cdef Driver driver
        if not pipelines:
            raise ValueError("a task needs at least one pipeline")
        self.memory = memory
        self.scheduler = scheduler
        self.split_queues = dict(split_queues or {})
        self.slice_nanos = max(<int64_t> 1, <int64_t> (slice_ms * 1e6))
        self.state = "created"
        self.process = fork_number()
        self.untold = UntoldError()
        self.pipelines = [Pipeline(chains) for chains in pipelines]
        self.runs = []
        for pipeline in self.pipelines:
            for driver in pipeline.drivers:
                run = DriverRun()
                run.driver = driver
                run.pipeline = pipeline
                run.task = <PyObject*> self
                driver.stop = &self.stop
                self.runs.append(run)
        self.output = pipeline          # the last one
        self.n_live = <int64_t> len(self.runs)

    def __dealloc__(self):
        cdef Runnable* runnable
        cdef int64_t i
        if self.on_caller and self.process == fork_number():
            # Left half done: no driver runs again, whoever fires its token.
            for i in range(self.n_runnables):
                qc_store(&self.runnables[i].token.state, RUN_DONE)
            while True:
                runnable = run_queue_pop(self.queue, 0)
                if runnable == NULL:
                    break
                owner_unref(<Owner*> runnable)
            if self.memory is not None and not qc_load(&self.done) and pool_of(self.memory.account) != NULL:
                pool_leave(pool_of(self.memory.account), self.memory.account.query)
        if self.process != fork_number() and self.n_runnables > 0:
            return      # a forked child's copy: what another thread was at is left as it is
        for i in range(self.n_runnables):
            owner_unref(<Owner*> self.runnables[i])
        struct_free(self.runnables)
        wait_list_clear(&self.waiting)
        mutex_destroy(&self.mutex)
        owner_unref(<Owner*> self.queue)

    # --- running ---

    def check_process(self):
        """QcoreError in a child of the process that made it."""
        check_process(self.process)

    def start(self, Scheduler scheduler=None):
        """Let the threads of the scheduler, or of the one given to the constructor, run it; returns at once."""
        check_process(self.process)
        if self.state != "created":
            raise QcoreError(f"the task was started before; it is {self.state}")
        check_not_leaving()
        if self.scheduler is None:
            self.scheduler = scheduler_of() if scheduler is None else scheduler
        if not self.scheduler.usable:
            raise QcoreError("the scheduler was shut down, or belongs to the process this one was forked from")
        self.queue = <RunQueue*> owner_ref(<Owner*> self.scheduler.queue)
        self.scheduler.active.add(self)
        self.prepare()
        if qc_load(&self.done):
            self.scheduler.active.discard(self)         # it may have been over before it was added

    def run_on_caller(self, until=None, timeout=None):
        """Run it on this thread, all drivers in turn; no other thread is needed (SPEC D3).

        Parameters
        ----------
        until : object with `ready`, optional
            Such as a QueueReader: return as soon as it is ready, to be called again later.
        timeout : float, optional
            Seconds, after which Timeout is raised; the task can be continued.

        Returns
        -------
        bool
            Whether the task is over; its error, if any, is raised instead.
        """
        check_process(self.process)
        cdef Runnable* runnable
        cdef int64_t longest = TURN_NAP_NANOS if in_turn() else CALLER_NAP_NANOS
        cdef int64_t nap = longest
        cdef int64_t deadline = -1 if timeout is None else wall_nanos() + <int64_t> (timeout * 1e9)
        if self.state == "created":
            check_not_leaving()
            self.on_caller = True
            self.queue = run_queue_new()
            self.prepare()
        elif not self.on_caller and not qc_load(&self.done):
            if self.queue != NULL:
                raise QcoreError("the task was started on a scheduler; wait for it instead")
            self.sleep_until_done(timeout, False)       # another thread ends it, before its start
        try:
            while not qc_load(&self.done):
                if until is not None and until.ready:
                    return False
                if deadline >= 0 and wall_nanos() >= deadline:
                    raise Timeout(f"the task is not over after {timeout} s")
                if deadline >= 0:
                    nap = min(deadline - wall_nanos(), longest)
                with nogil:
                    runnable = run_queue_pop(self.queue, nap)
                    if runnable != NULL:
                        runnable_turn(runnable)
                PyErr_CheckSignals()
                turn_check()        # on a thread that a driver keeps meanwhile
        except KeyboardInterrupt:
            self.cancel("Ctrl-C")
            self.settle()
            raise
        self.raise_error()
        return True

    cdef int prepare(self) except -1:
        """Make every driver runnable and queue it, unless the task has failed or was cancelled, by another thread."""
        # Nobody takes the GIL between the two: `fail` finds a task either unstarted, or with drivers that hear of it.
        if self.state != "created":
            return 0
        self.state = "running"
        self.began = wall_nanos()
        try:
            self.make_runnables()
        except BaseException as error:
            self.state = "created"
            self.fail(error)
            self.interrupt = None       # it is raised here
            raise
        with nogil:
            self.notify_all()
        return 0

    cdef int make_runnables(self) except -1:
        cdef DriverRun run
        cdef int64_t i
        cdef CMemoryPool* pool = NULL
        if self.memory is not None and pool_of(self.memory.account) != NULL:
            pool_enter(pool_of(self.memory.account), self.memory.account.query)
        # On the caller's thread there is nobody else to do what a driver would wait for.
        if self.memory is not None and not self.on_caller:
            # Begun by a driver, which reads it and holds a thread until it gives something: it does not wait either.
            pool = pool_of(self.memory.account) if pool_of_turn() == NULL else NULL
        self.runnables = <Runnable**> struct_new(len(self.runs) * sizeof(Runnable*))
        for i, run in enumerate(self.runs):
            run.runnable = runnable_new(self.queue, run_driver, <PyObject*> run)
            run.driver.token = &run.runnable.token
            if pool != NULL:
                run.runnable.pool = <CMemoryPool*> owner_ref(<Owner*> pool)
                run.driver.query = self.memory.account.query
            # Its own reference: the garbage collector may clear `runs` before the task goes.
            self.runnables[i] = <Runnable*> owner_ref(<Owner*> run.runnable)
            self.n_runnables = <int64_t> i + 1
        return 0

    cdef void notify_all(self) noexcept nogil:
        """Wake every driver; one that is woken for nothing asks its operators again."""
        cdef int64_t i
        for i in range(self.n_runnables):
            wait_token_fire(&self.runnables[i].token)

    cdef void stop_all(self) noexcept nogil:
        # A swap: a plain store may be seen only after notify_all has found a driver about to run and so not woken it.
        qc_swap(&self.stop, 1)
        if self.memory is not None:
            qc_store(&self.memory.account.query.stopped, 1)
        self.notify_all()

    cdef void driver_closed(self, Pipeline pipeline) noexcept nogil:
        if qc_add(&pipeline.n_live, -1) == 0:
            if <PyObject*> pipeline == <PyObject*> self.output and qc_cas(&self.verdict, UNDECIDED, ANSWERED):
                # The answer is complete: whatever still runs works for nobody (SPEC V8).
                self.stop_all()
            else:
                # Who fed this pipeline may be waiting for something else: let it see that nobody listens.
                self.notify_all()
        if qc_add(&self.n_live, -1) == 0:
            with gil:
                self.complete()

    cdef bint break_off(self) noexcept nogil:
        """No answer is complete from here on. False: it was complete before."""
        return qc_cas(&self.verdict, UNDECIDED, BROKEN) or qc_load(&self.verdict) == BROKEN

    cdef void record(self, Driver driver, object error, bint is_told) noexcept:
        """Make what a driver met the task's error, if it is the first."""
        try:
            if error is not None:
                self.name_held(error)
                self.fail(error if is_told else driver.explained(error))
        except BaseException as again:
            self.leave_untold(driver, error)
            try:
                if is_interrupt(again):
                    self.interrupt = again
            except BaseException:
                pass        # no memory to ask: the task has failed either way

    cdef void leave_untold(self, Driver driver, object error) noexcept:
        """The error of a task that is broken and has none: the one made in advance. Takes no memory."""
        cdef Operator called
        if self.error is not None or qc_load(&self.verdict) != BROKEN:
            return
        self.error = self.untold
        try:
            called = driver.called_last()
            self.untold.operator = called.name
            self.untold.node_id = called.node_id
            self.untold.__cause__ = error
        except BaseException:
            pass        # an operator failed: that much it says

    cdef void look_for_violation(self, Driver driver) noexcept:
        """In checked mode the answer does not excuse what came after it."""
        try:
            broken = driver.violation()
        except BaseException:
            broken = self.untold
        if broken is not None and self.error is None:
            self.error = broken

    cdef int name_held(self, object error) except -1:
        """Say in an error of the session's limit what holds memory and is no running query."""
        cdef int64_t held
        if not isinstance(error, MemoryLimitError) or not error.is_shared or error.node_id is not None:
            return 0            # or an inner query's, which has said it
        if self.memory is None or pool_of(self.memory.account) == NULL:
            return 0
        held = pool_held(pool_of(self.memory.account))
        if held > 0:
            error.args = (f"{error} ({held} bytes are rows of queries that are over, unread or held by somebody)",)
        return 0

    cdef str end_state(self):
        if self.error is None:
            return "finished"
        return "cancelled" if issubclass(type(self.error), Cancelled) else "failed"

    cdef void complete(self) noexcept:
        """The last driver is closed."""
        cdef WaitList taken
        cdef SplitQueue queue
        alive = self        # the scheduler's reference goes below, and may be the last but this
        self.ended = wall_nanos()
        if self.error is None and qc_load(&self.verdict) == BROKEN:
            self.error = self.untold
        self.state = self.end_state()
        try:
            for queue in self.split_queues.values():
                queue.drop()
        except BaseException:
            pass            # no memory to go through them: they drop their splits with the task
        if self.memory is not None and pool_of(self.memory.account) != NULL:
            pool_leave(pool_of(self.memory.account), self.memory.account.query)
        mutex_lock(&self.mutex)
        qc_store(&self.done, 1)
        wait_list_take(&self.waiting, &taken)
        mutex_unlock(&self.mutex)
        wait_list_fire(&taken)
        try:
            if self.scheduler is not None:
                self.scheduler.active.discard(alive)
        except BaseException:
            pass            # no memory for the call: the scheduler keeps a task that is over

    # --- ending ---

    def cancel(self, str reason="the query was cancelled"):
        """Stop every driver within the batch it works on; `wait` then raises Cancelled. From any thread."""
        self.fail(Cancelled(reason))

    def fail(self, error):
        """Stop every driver; `error` is what the task failed with, unless it failed or finished before."""
        check_process(self.process)
        if issubclass(type(error), KeyboardInterrupt):
            # Whoever runs the task on this thread gets it, once every driver is closed.
            self.interrupt = error
            error = Cancelled("Ctrl-C")
        # Between the two nobody takes the GIL: who sees the verdict sees the error.
        if self.state not in ("created", "running") or not self.break_off():
            return
        if self.error is None:
            self.error = error
        if self.state == "created":
            self.state = self.end_state()       # from here on nobody starts it
            self.abort_unstarted()
            return
        with nogil:
            self.stop_all()

    def fail_as(self, error, str operator, str node_id, str doing):
        """Fail with what a source raised that no driver had called; the error names it as one of a driver's would."""
        try:
            self.fail(explain_failure(error, operator, node_id, doing))
        except BaseException:
            self.untold.operator = operator
            self.untold.node_id = node_id
            self.untold.__cause__ = error
            self.fail(self.untold)

    cdef int abort_unstarted(self) except -1:
        cdef Pipeline pipeline
        cdef Driver driver
        self.began = wall_nanos()
        qc_store(&self.stop, 1)
        for pipeline in self.pipelines:
            for driver in pipeline.drivers:
                with nogil:
                    driver.shut()
            pipeline.n_live = 0
        self.n_live = 0
        self.complete()
        return 0

    def ask_again(self):
        """Wake every driver: what it is for may be wanted no more. From any thread."""
        check_process(self.process)
        if self.state == "running":
            with nogil:
                self.notify_all()

    def wait(self, timeout=None):
        """Wait until every driver is closed; raises what the task failed with.

        Raises
        ------
        Timeout
            After `timeout` seconds (None: never). The task runs on.
        """
        check_process(self.process)
        if self.state == "created":
            raise QcoreError("the task was not started")
        if self.on_caller:
            self.run_on_caller(timeout=timeout)
            return
        try:
            if not self.sleep_until_done(timeout, False):
                raise Timeout(f"the task is not over after {timeout} s")
        except KeyboardInterrupt:
            self.cancel("Ctrl-C")
            self.settle()
            raise
        self.raise_error()

    def settle(self, timeout=None):
        """Wait as `wait` does, but only say whether the task is over; whatever happens to the driver that waits.

        A driver of the task itself does not wait: the garbage collector may drop the task's reader on its thread.
        """
        check_process(self.process)
        if in_turn_of(&self.stop):
            return False
        return self.sleep_until_done(timeout, True)

    cdef bint sleep_until_done(self, object timeout, bint for_cleanup) except -1:
        cdef ThreadToken* token
        cdef Runnable* runnable
        cdef const char* failed = NULL
        cdef int64_t nanos = -1 if timeout is None else <int64_t> (timeout * 1e9)
        cdef int64_t deadline = wall_nanos() + nanos
        cdef int64_t nap
        if self.on_caller:
            with nogil:
                while not qc_load(&self.done) and (nanos < 0 or wall_nanos() < deadline):
                    nap = CALLER_NAP_NANOS if nanos < 0 else min(deadline - wall_nanos(), <int64_t> CALLER_NAP_NANOS)
                    runnable = run_queue_pop(self.queue, nap)
                    if runnable != NULL:
                        runnable_turn(runnable)
            self.raise_interrupt()
            return qc_load(&self.done) != 0
        token = thread_token_new()
        try:
            mutex_lock(&self.mutex)
            if not qc_load(&self.done):
                failed = wait_list_try_add(&self.waiting, &token.token)
            mutex_unlock(&self.mutex)
            if failed != NULL:
                raise_memory_limit(failed)
            while not qc_load(&self.done):
                if nanos >= 0:
                    nanos = max(<int64_t> 0, deadline - wall_nanos())
                if not thread_token_wait(token, nanos, for_cleanup):
                    break
        finally:
            owner_unref(<Owner*> token)
        return qc_load(&self.done) != 0

    cdef int raise_interrupt(self) except -1:
        """Ctrl-C that came while an operator ran on this thread is the caller's, as if it had come between two."""
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            raise interrupt
        return 0

    cdef int raise_error(self) except -1:
        self.raise_interrupt()
        if self.error is not None:
            raise self.error
        return 0

    # --- splits ---

    def add_split(self, str node_id, split):
        """Give a source node one more split; at any time until no_more_splits."""
        self.splits_of(node_id).add(split)

    def no_more_splits(self, str node_id):
        """Say that a source node gets no further split."""
        self.splits_of(node_id).no_more()

    def splits_of(self, str node_id):
        """The SplitQueue of a source node; PlanError for an unknown one."""
        check_process(self.process)
        queue = self.split_queues.get(node_id)
        if queue is None:
            known = ", ".join(map(repr, self.split_queues)) or "none"
            raise PlanError(f"no source node {node_id!r} takes splits; nodes that do: {known}")
        return queue

    # --- counters ---

    def progress(self):
        """Splits read to their end, and splits added, of all sources together."""
        queues = self.split_queues.values()
        return sum(queue.n_finished for queue in queues), sum(queue.n_splits for queue in queues)

    def stats(self):
        """Figures of the task so far, at any time: while it runs, and after it failed (SPEC V14).

        'pipelines' holds what Pipeline.stats gives, in the order of the constructor's list.
        """
        until = self.ended or wall_nanos()
        return {
            "state": self.state,
            "wall_nanos": until - self.began if self.began else 0,
            "peak_bytes": self.memory.peak_bytes if self.memory is not None else 0,
            "reserved_bytes": self.memory.reserved_bytes if self.memory is not None else 0,
            "splits": {
                node_id: {"added": queue.n_splits, "finished": queue.n_finished}
                for node_id, queue in self.split_queues.items()
            },
            "pipelines": [pipeline.stats() for pipeline in self.pipelines],
        }
