"""A running plan: pipelines of drivers, their splits, and their common end."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.execution.driver cimport Driver
from qcore_ext.execution.pipeline cimport Pipeline
from qcore_ext.execution.scheduler cimport RunAnswer, Runnable, RunQueue, Scheduler
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.wait_token cimport WaitList


cdef enum Verdict:
    UNDECIDED = 0
    ANSWERED = 1                    # the output pipeline is finished: a later failure does not count
    BROKEN = 2                      # it failed or was cancelled; `error` is set afterwards


cdef class DriverRun:
    """One driver of a task. Its Runnable points at it."""
    cdef Driver driver
    cdef Pipeline pipeline
    cdef PyObject* task             # Task; borrowed: the scheduler or the caller keeps it alive while it has drivers
    cdef Runnable* runnable         # owned; NULL before the start

    cdef RunAnswer turn(self) noexcept nogil
    cdef RunAnswer slice(self) noexcept nogil
    cdef void fail(self, bint at_end) noexcept nogil
    cdef void report(self, bint at_end) noexcept


cdef class Task:
    cdef object __weakref__
    cdef readonly list pipelines
    cdef readonly Account memory
    cdef readonly Scheduler scheduler
    cdef readonly dict split_queues
    cdef readonly object error      # the first one, or None
    cdef readonly str state         # created, running, finished, failed, cancelled
    cdef readonly int64_t process   # fork_number() of the process that made it
    cdef list runs                  # DriverRun
    cdef Runnable** runnables       # each owned; an array of n_runnables
    cdef int64_t n_runnables
    cdef Pipeline output
    cdef RunQueue* queue            # owned; the scheduler's, or the task's own when it runs on the caller
    cdef bint on_caller
    cdef int64_t slice_nanos
    cdef int64_t stop               # atomic
    cdef int64_t n_live             # atomic; drivers not yet closed
    cdef int64_t verdict            # atomic; a Verdict; set once
    cdef object untold              # UntoldError, made when the task is made
    cdef object interrupt           # Ctrl-C of an operator on the caller's thread, not yet raised to the caller
    cdef int64_t done               # atomic; every driver is closed
    cdef int64_t began
    cdef int64_t ended
    cdef Mutex mutex
    cdef WaitList waiting           # for `done`; the mutex guards it

    cdef void notify_all(self) noexcept nogil
    cdef void stop_all(self) noexcept nogil
    cdef bint sleep_until_done(self, object timeout, bint for_cleanup) except -1
    cdef int prepare(self) except -1
    cdef int make_runnables(self) except -1
    cdef void driver_closed(self, Pipeline pipeline) noexcept nogil
    cdef bint break_off(self) noexcept nogil
    cdef void record(self, Driver driver, object error, bint is_explained) noexcept
    cdef void set_untold(self, Driver driver, object error) noexcept
    cdef void look_for_violation(self, Driver driver) noexcept
    cdef int name_held(self, object error) except -1
    cdef str end_state(self)
    cdef void complete(self) noexcept
    cdef int abort_unstarted(self) except -1
    cdef int raise_interrupt(self) except -1
    cdef int raise_error(self) except -1
