"""One operator of one partition, polled by an embedder or a test.

A driver runs the operator between a source that holds the pushed batch and a sink that holds the batch to be pulled.
The operator therefore gets only calls that a driver makes. When its wait ends, the waker is called.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_ref, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.execution.driver cimport DRIVER_FINISHED, Driver
from qcore_ext.ground.memory cimport Account, Owner, owner_unref, struct_free, struct_new
from qcore_ext.ground.process cimport check_not_leaving, check_process, fork_number
from qcore_ext.ground.stats cimport WAIT_FOR_CONSUMER, WAIT_FOR_PRODUCER
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_add, wait_list_clear, wait_list_fire, wait_list_take,
)
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, Operator

from qcore_ext.data.given_batches import checked_mode
from qcore_ext.execution.driver import ClosingDriver
from qcore_ext.ground.stats import REASON_NAMES
from qcore_ext.ground.status import ExecutionError


cpdef enum Polled:
    PUSHED = 1
    PENDING = 2
    BREAK = 3
    EXHAUSTED = 4


ctypedef struct WakerToken:
    WaitToken token             # first: a WakerToken* is a WaitToken*
    PyObject* waker             # owned; has wake(); NULL once nothing is to be woken


cdef void waker_token_notify(WaitToken* token) noexcept nogil:
    with gil:
        if (<WakerToken*> token).waker != NULL:
            (<object> (<WakerToken*> token).waker).wake()


cdef void waker_token_free(Owner* owner) noexcept nogil:
    with gil:
        waker_token_quiet(<WakerToken*> owner)
    struct_free(owner)


cdef void waker_token_quiet(WakerToken* self) noexcept:
    """Drop the waker, so that the token wakes nothing. A queue may keep the token for as long as the queue exists."""
    cdef PyObject* waker = self.waker
    self.waker = NULL
    if waker != NULL:
        Py_DECREF(<object> waker)


cdef WakerToken* waker_token_new(object waker) except NULL:
    cdef WakerToken* self = <WakerToken*> struct_new(sizeof(WakerToken))
    self.token.owner.references = 1
    self.token.owner.release = waker_token_free
    self.token.notify = waker_token_notify
    self.waker = <PyObject*> waker
    Py_INCREF(waker)
    return self


cdef class Intake(Operator):
    """Source of the pushed batch."""
    cdef Batch* held            # owned; not taken yet
    cdef WaitList waiting
    cdef bint over              # no more batches are pushed
    cdef bint unwanted          # the operator takes no more batches

    def __init__(self, Account memory):
        Operator.__init__(self, "Intake", "intake", memory)

    def __dealloc__(self):
        batch_unref(self.held)
        wait_list_clear(&self.waiting)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.held != NULL:
            out[0] = self.held
            self.held = NULL
            return OUTPUT
        if self.over:
            return FINISHED
        wait_list_add(&self.waiting, token)
        self.blocked_reason = WAIT_FOR_PRODUCER
        return BLOCKED

    cdef void abandon(self) noexcept nogil:
        self.unwanted = True

    cdef void close(self) noexcept nogil:
        wait_list_clear(&self.waiting)


cdef class Outlet(Operator):
    """Sink that holds one batch until it is pulled."""
    cdef Batch* held            # owned
    cdef WaitList waiting
    cdef bint finish_called

    def __init__(self, Account memory):
        Operator.__init__(self, "Outlet", "outlet", memory)

    def __dealloc__(self):
        batch_unref(self.held)
        wait_list_clear(&self.waiting)

    cdef bint needs_input(self) noexcept nogil:
        return self.held == NULL and not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        self.held = batch
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.held != NULL:
            wait_list_add(&self.waiting, token)
            self.blocked_reason = WAIT_FOR_CONSUMER
            return BLOCKED
        return FINISHED if self.finish_called else NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0

    cdef void close(self) noexcept nogil:
        batch_unref(self.held)
        self.held = NULL
        wait_list_clear(&self.waiting)


cdef void fire(WaitList* waiting) noexcept nogil:
    cdef WaitList taken
    wait_list_take(waiting, &taken)
    wait_list_fire(&taken)


@cython.no_gc_clear
cdef class PolledPartition:
    """An operator that is polled. One thread uses it at a time.

    Parameters
    ----------
    operator : Operator
        An operator that belongs to no chain.
    role : str
        'source' (pulled), 'operator' (pushed and pulled) or 'sink' (pushed).
    waker : object with wake()
        Called, from any thread, when a call that answered PENDING should be repeated.
    """
    cdef readonly Operator operator
    cdef Driver driver
    cdef Intake intake          # None: a source
    cdef Outlet outlet          # None: a sink
    cdef WakerToken* token      # owned
    cdef int64_t stop
    cdef readonly bint is_finished
    cdef readonly bint is_closed
    cdef bint finish_called
    cdef int64_t process        # fork_number() of the process that made it

    def __cinit__(self, Operator operator, str role, waker):
        self.process = fork_number()
        self.token = waker_token_new(waker)
        self.operator = operator

    def __init__(self, Operator operator, str role, waker):
        cdef list chain = [operator]
        if role not in ("source", "operator", "sink"):
            raise ValueError(f"an operator is a source, operator, sink, not {role!r}")
        if role != "source":
            self.intake = Intake(Account())
            chain.insert(0, self.intake)
        if role != "sink":
            self.outlet = Outlet(Account())
            chain.append(self.outlet)
        self.driver = ClosingDriver(chain, checked_mode())
        self.driver.token = &self.token.token
        self.driver.stop = &self.stop

    def __dealloc__(self):
        if self.process != fork_number():
            # In a forked child: another thread of the parent may have used it, so it is not touched.
            if self.driver is not None:
                Py_INCREF(self.driver)
            return
        if self.driver is not None:
            self.driver.shut()
        if self.token != NULL:
            waker_token_quiet(self.token)
        owner_unref(<Owner*> self.token)

    cdef int run(self) except -1:
        """Run the driver as far as possible."""
        cdef int answer = 0
        failure = None
        try:
            with nogil:
                answer = self.driver.run(0)
        except BaseException as error:
            failure = error
        if failure is not None:
            self.shut()
            raise self.driver.explain_error(failure)
        if answer == DRIVER_FINISHED:
            self.is_finished = True
        return 0

    cdef int shut(self) except -1:
        self.is_closed = True
        if self.process != fork_number():
            return 0
        with nogil:
            self.driver.shut()
        waker_token_quiet(self.token)
        return 0

    cdef int expect_open(self, str call) except -1:
        check_process(self.process)
        check_not_leaving()
        if self.is_closed:
            raise ExecutionError(
                f"{self.operator.name} (node {self.operator.node_id}): {call} after close(), abandon() or an error",
                self.operator.name, self.operator.node_id,
            )
        return 0

    def push(self, PyBatch batch not None):
        """Offer a batch.

        Returns
        -------
        Polled
            PUSHED; PENDING: offer it again after a wake or a pull; BREAK: no more batches are needed.
        """
        self.expect_open("a push")
        if self.intake is None:
            raise TypeError(f"{self.operator.name} is a source: it is pulled from")
        if self.finish_called:
            raise ExecutionError(
                f"{self.operator.name} (node {self.operator.node_id}): a push after finish()",
                self.operator.name, self.operator.node_id,
            )
        if not self.is_finished and not self.intake.unwanted:
            self.intake.held = batch_ref(batch.batch)
            with nogil:
                fire(&self.intake.waiting)
            self.run()
        if self.is_finished or self.intake.unwanted:
            return BREAK
        if self.intake.held == NULL:
            return PUSHED
        batch_unref(self.intake.held)
        self.intake.held = NULL
        return PENDING

    def pull(self):
        """Ask for a batch.

        Returns
        -------
        PyBatch or Polled
            A batch; PENDING: ask again after a wake or a push; EXHAUSTED: there are no more.
        """
        self.expect_open("a pull")
        if self.outlet is None:
            raise TypeError(f"{self.operator.name} is a sink: it is pushed to")
        if self.outlet.held == NULL and not self.is_finished:
            self.run()
        if self.outlet.held == NULL:
            return EXHAUSTED if self.is_finished else PENDING
        batch = PyBatch.wrap(self.outlet.held)
        batch_unref(self.outlet.held)
        self.outlet.held = NULL
        with nogil:
            fire(&self.outlet.waiting)
        return batch

    def finish(self):
        """Declare that no further push comes. True: only pulls are left. False: call this again after a wake."""
        self.expect_open("finish()")
        if self.intake is None:
            raise TypeError(f"{self.operator.name} is a source: it is pulled until it is exhausted")
        self.finish_called = True
        self.intake.over = True
        with nogil:
            fire(&self.intake.waiting)
        if not self.is_finished:
            self.run()
        return self.is_finished or self.outlet is not None

    @property
    def waits_for(self):
        """Name of the BlockReason of the last PENDING, or None."""
        if self.driver.blocked_at < 0:
            return None
        return REASON_NAMES[(<Operator> self.driver.operators[self.driver.blocked_at]).blocked_reason]

    def stats(self):
        """The operator's counters so far, as ground.stats describes them."""
        return self.driver.stats_snapshot()[0 if self.intake is None else 1]

    def close(self):
        """Abandon the operator unless it is finished, and release everything. It may be called again.

        Raises, after everything is released, the error that a user's operator raised in abandon or close.
        """
        self.shut()
        ended = self.driver.take_end_error() if self.driver.end_failed else None
        if ended is not None:
            raise ended
