"""A running plan: pipelines of drivers, their splits, and their common end."""

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

from qcore_ext.data.given_batches import checked_mode
from qcore_ext.execution.scheduler import scheduler_of
from qcore_ext.ground.error_text import explain_failure, is_interrupt
from qcore_ext.ground.status import Cancelled, MemoryLimitError, PlanError, QcoreError, Timeout, UntoldError

cdef enum:
    CALLER_NAP_NANOS = 50000000     # longest delay of Ctrl-C for a task on the caller's thread
    TURN_NAP_NANOS = 10000000       # longest delay until such a task sees that the driver that called it is stopped

# Driver.run without Cython's check of the result, which needs the GIL. -1: an exception is set in this thread.
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
    """One driver of a task; the context of its Runnable."""

    def __dealloc__(self):
        owner_unref(<Owner*> self.runnable)

    cdef RunAnswer turn(self) noexcept nogil:
        """Run one slice. After the last slice everything of the driver is released."""
        cdef Turn turn
        cdef RunAnswer answer
        turn_begin(&turn, self.driver.stop)
        answer = self.slice()
        turn_end(&turn)         # uses nothing of this object, which may have been freed with its task
        return answer

    cdef RunAnswer slice(self) noexcept nogil:
        cdef int answer
        # A woken driver gets exactly one turn. Anything else would run it twice, or after its end.
        self.driver.doubled = self.runnable.turn_from != RUN_QUEUED
        answer = run_quietly(<PyObject*> self.driver, (<Task> self.task).slice_nanos)
        if self.driver.finished_early:
            # Drivers of one pipeline share a state such as a LIMIT's count, and one of them may wait for input that
            # never comes: each must ask its operators again.
            self.driver.finished_early = False
            (<Task> self.task).notify_all()
        if answer == -1:
            self.fail(False)
            if self.driver.shut_down:
                return RAN_DONE         # it had ended before
        if self.driver.end_failed:
            self.fail(True)             # an operator abandoned during the run
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
        """The run raised, or the end of an operator did (`at_end`).

        The verdict is set before the error is described: making an error's text calls code of users, which may raise,
        and needs memory.
        """
        (<Task> self.task).break_off()
        with gil:
            self.report(at_end)
            (<Task> self.task).set_untold(self.driver, None)
        (<Task> self.task).stop_all()

    cdef void report(self, bint at_end) noexcept:
        """Make the raised error the error of the task."""
        cdef bint is_explained = at_end
        error = None
        try:
            if at_end:
                error = self.driver.take_end_error()
            else:
                raise_pending()
        except BaseException as raised:
            error = raised
            is_explained = False
        (<Task> self.task).record(self.driver, error, is_explained)


@cython.no_gc_clear
cdef class Task:
    """Runs pipelines of operators until all end.

    Parameters
    ----------
    pipelines : list of list of list of Operator
        By pipeline and driver: the chain, source first. The last pipeline returns the result. When its drivers are
        finished, all other drivers are stopped.
    memory : Account, optional
        The query's account, for counters.
    scheduler : Scheduler, optional
        Runs the task after `start`. By default the process's shared scheduler.
    split_queues : dict of str to SplitQueue, optional
        By id of the source node.
    slice_ms : float
        Longest turn of a driver, in milliseconds, while other drivers wait.
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
        is_checked = checked_mode()
        self.pipelines = [Pipeline(chains, is_checked) for chains in pipelines]
        self.runs = []
        for pipeline in self.pipelines:
            for driver in pipeline.drivers:
                run = DriverRun()
                run.driver = driver
                run.pipeline = pipeline
                run.task = <PyObject*> self
                driver.stop = &self.stop
                self.runs.append(run)
        self.output = pipeline          # the last pipeline
        self.n_live = <int64_t> len(self.runs)

    def __dealloc__(self):
        cdef Runnable* runnable
        cdef int64_t i
        if self.on_caller and self.process == fork_number():
            # __init__ raised: no driver runs again, even if its token is fired.
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
            return      # in a forked child: what another thread of the parent used is not touched
        for i in range(self.n_runnables):
            owner_unref(<Owner*> self.runnables[i])
        struct_free(self.runnables)
        wait_list_clear(&self.waiting)
        mutex_destroy(&self.mutex)
        owner_unref(<Owner*> self.queue)

    # --- running ---

    def check_process(self):
        """Raise QcoreError in a child of the process that made the task."""
        check_process(self.process)

    def start(self, Scheduler scheduler=None):
        """Run the task on the threads of the scheduler, or of the one given to the constructor. Returns at once."""
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
            self.scheduler.active.discard(self)         # it may have ended before it was added

    def run_on_caller(self, until=None, timeout=None):
        """Run the task on this thread, all drivers in turn. No other thread is needed.

        Parameters
        ----------
        until : object with `ready`, optional
            For example a QueueReader. Return as soon as it is ready; the task is continued by the next call.
        timeout : float, optional
            Seconds after which Timeout is raised. The task can be continued.

        Returns
        -------
        bool
            Whether the task is over. If it failed, its error is raised.
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
            self.sleep_until_done(timeout, False)       # another thread ends it before it starts
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
                turn_check()        # this thread may belong to a driver of another task
        except KeyboardInterrupt:
            self.cancel("Ctrl-C")
            self.settle()
            raise
        self.raise_error()
        return True

    cdef int prepare(self) except -1:
        """Make every driver runnable and queue it, unless another thread has ended the task."""
        # The GIL is kept from the check on: `fail` finds the task either unstarted, or with drivers that it can stop.
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
        # On the caller's thread no other driver could release the memory for which one would wait.
        if self.memory is not None and not self.on_caller:
            # The driver that started this task holds a thread while it reads the task, so this one does not wait
            # either.
            pool = pool_of(self.memory.account) if pool_of_turn() == NULL else NULL
        self.runnables = <Runnable**> struct_new(len(self.runs) * sizeof(Runnable*))
        for i, run in enumerate(self.runs):
            run.runnable = runnable_new(self.queue, run_driver, <PyObject*> run)
            run.driver.token = &run.runnable.token
            if pool != NULL:
                run.runnable.pool = <CMemoryPool*> owner_ref(<Owner*> pool)
                run.driver.query = self.memory.account.query
            # A reference of its own: the garbage collector may clear `runs` before the task is freed.
            self.runnables[i] = <Runnable*> owner_ref(<Owner*> run.runnable)
            self.n_runnables = <int64_t> i + 1
        return 0

    cdef void notify_all(self) noexcept nogil:
        """Wake every driver. A driver that has nothing to do asks its operators and blocks again."""
        cdef int64_t i
        for i in range(self.n_runnables):
            wait_token_fire(&self.runnables[i].token)

    cdef void stop_all(self) noexcept nogil:
        # A swap: after a plain store, notify_all could find a driver about to run, which would not see the store.
        qc_swap(&self.stop, 1)
        if self.memory is not None:
            qc_store(&self.memory.account.query.stopped, 1)
        self.notify_all()

    cdef void driver_closed(self, Pipeline pipeline) noexcept nogil:
        if qc_add(&pipeline.n_live, -1) == 0:
            if <PyObject*> pipeline == <PyObject*> self.output and qc_cas(&self.verdict, UNDECIDED, ANSWERED):
                # The answer is complete, so the drivers that still run are not needed.
                self.stop_all()
            else:
                # Drivers that feed this pipeline may wait for something else: they must see that it ended.
                self.notify_all()
        if qc_add(&self.n_live, -1) == 0:
            with gil:
                self.complete()

    cdef bint break_off(self) noexcept nogil:
        """Decide that the task is broken. False: its answer was complete before."""
        return qc_cas(&self.verdict, UNDECIDED, BROKEN) or qc_load(&self.verdict) == BROKEN

    cdef void record(self, Driver driver, object error, bint is_explained) noexcept:
        """Make an error of a driver the task's error, if it is the first one."""
        try:
            if error is not None:
                self.name_held(error)
                self.fail(error if is_explained else driver.explain_error(error))
        except BaseException as again:
            self.set_untold(driver, error)
            try:
                if is_interrupt(again):
                    self.interrupt = again
            except BaseException:
                pass        # no memory to ask; the task has failed in any case

    cdef void set_untold(self, Driver driver, object error) noexcept:
        """Give a broken task without an error the prepared UntoldError. Needs no memory."""
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
            pass        # then the error names no operator

    cdef void look_for_violation(self, Driver driver) noexcept:
        """In checked mode a breach of the contract fails the task, also after a complete answer."""
        try:
            broken = driver.violation()
        except BaseException:
            broken = self.untold
        if broken is not None and self.error is None:
            self.error = broken

    cdef int name_held(self, object error) except -1:
        """Add to an error of the session's limit how many bytes belong to no running query."""
        cdef int64_t held
        if not isinstance(error, MemoryLimitError) or not error.is_shared or error.node_id is not None:
            return 0            # it is an error of an inner query, which has added that
        if self.memory is None or pool_of(self.memory.account) == NULL:
            return 0
        held = pool_held(pool_of(self.memory.account))
        if held > 0:
            error.args = (f"{error} ({held} bytes are rows of finished queries that are unread or still referenced)",)
        return 0

    cdef str end_state(self):
        if self.error is None:
            return "finished"
        return "cancelled" if issubclass(type(self.error), Cancelled) else "failed"

    cdef void complete(self) noexcept:
        """End the task: its last driver was closed."""
        cdef WaitList taken
        cdef SplitQueue queue
        alive = self        # the scheduler's reference is dropped below and may be the last one
        self.ended = wall_nanos()
        if self.error is None and qc_load(&self.verdict) == BROKEN:
            self.error = self.untold
        self.state = self.end_state()
        try:
            for queue in self.split_queues.values():
                queue.drop()
        except BaseException:
            pass            # no memory: the splits are dropped with the task
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
            pass            # no memory: the scheduler keeps a finished task

    # --- ending ---

    def cancel(self, str reason="the query was cancelled"):
        """Stop every driver within its batch. `wait` raises Cancelled then. Any thread may call this."""
        self.fail(Cancelled(reason))

    def fail(self, error):
        """Stop every driver. `error` becomes the task's error, unless the task failed or finished before."""
        check_process(self.process)
        if issubclass(type(error), KeyboardInterrupt):
            # It is raised on this thread once every driver is closed.
            self.interrupt = error
            error = Cancelled("Ctrl-C")
        # The GIL is kept in between: a thread that sees the verdict sees the error.
        if self.state not in ("created", "running") or not self.break_off():
            return
        if self.error is None:
            self.error = error
        if self.state == "created":
            self.state = self.end_state()       # from here on it cannot be started
            self.abort_unstarted()
            return
        with nogil:
            self.stop_all()

    def fail_as(self, error, str operator, str node_id, str doing):
        """Fail with an error of a source that no driver called. The error names it as if a driver had called it."""
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
        """Wake every driver, because its rows may not be needed any more. Any thread may call this."""
        check_process(self.process)
        if self.state == "running":
            with nogil:
                self.notify_all()

    def wait(self, timeout=None):
        """Wait until every driver is closed. Raises the task's error if it failed.

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
        """Wait like `wait`, but return whether the task is over instead of raising its error.

        A driver of the task itself does not wait: the garbage collector may free the task's reader on its thread.
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
        """Raise Ctrl-C that came while an operator ran on this thread to the caller."""
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
        """Give a source node one more split. It may be called until no_more_splits."""
        self.splits_of(node_id).add(split)

    def no_more_splits(self, str node_id):
        """Declare that a source node gets no further split."""
        self.splits_of(node_id).no_more()

    def splits_of(self, str node_id):
        """Return the SplitQueue of a source node. Raises PlanError for an unknown node."""
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
        """Return the task's counters so far, while it runs or after its end.

        'pipelines' holds the result of Pipeline.stats for each pipeline, in the order of the constructor's list.
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
