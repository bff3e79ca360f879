"""The loop that runs one chain of operators: a small machine that knows neither threads nor data. Floor E5. SPEC V6."""

import os

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.compute.widener cimport Widener
from qcore_ext.data.batch cimport Batch, batch_bytes, batch_unref
from qcore_ext.data.schema cimport CSchema, schema_equal
from qcore_ext.data.widening cimport schema_widen
from qcore_ext.execution.contract_check cimport ContractCheck, contract_checks
from qcore_ext.ground.atomic cimport qc_load, qc_store
from qcore_ext.ground.figure cimport figure_add
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref, struct_free, struct_new
from qcore_ext.ground.memory_pool cimport pool_is_short, pool_of, pool_wait
from qcore_ext.ground.stats cimport (
    N_BLOCK_REASONS, NOT_BLOCKED, WAIT_FOR_MEMORY, OperatorStats, Timing, cpu_nanos, qc_ticks, qc_ticks_nanos,
    tick_scale, wall_nanos,
)
from qcore_ext.flow.operator cimport (
    ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, YIELDED, Operator,
)

from qcore_ext.ground.error_text import explain_failure
from qcore_ext.ground.stats import REASON_NAMES
from qcore_ext.ground.status import ExecutionError

cdef enum:
    # Ends of a step, beside the operator to ask next.
    STEP_FINISHED = -2
    STEP_BLOCKED = -3
    STEP_STOPPED = -4
    # An operator that says it needs input and refuses it this often in a row is stuck (SPEC V6). An honest one refuses
    # once more than it is woken, so it is blocked in between.
    REFUSALS_MAX = 1000
    # Reading a thread's CPU clock is a system call (0.2 µs and up); shorter calls are taken to be all CPU: under 1 %.
    CPU_READ_NANOS = 20000


@cython.no_gc_clear
cdef class Driver:
    """Runs one chain of operators.

    Parameters
    ----------
    operators : list of Operator
        Source first, sink last. Instances belong to this driver alone.
    """

    def __init__(self, list operators):
        cdef int i
        if not operators:
            raise ValueError("a driver needs at least one operator")
        for operator in operators:
            if not isinstance(operator, Operator):
                raise TypeError(f"a chain is made of Operator objects, not {type(operator).__name__}")
        self.operators = list(operators)
        self.wideners = []
        if os.environ.get("QCORE_DEBUG", "0") not in ("", "0"):
            self.checks = contract_checks(self.operators)
        self.n_operators = <int> len(operators)
        # One more than there are operators: abandon_upstream(n_operators) also clears the seat behind the last.
        self.seats = <Seat*> struct_new((self.n_operators + 1) * sizeof(Seat))
        for i in range(self.n_operators):
            self.seats[i].occupant = <PyObject*> (self.checks or self.operators)[i]
            self.seats[i].stats = &(<Operator> self.operators[i]).stats
        self.blocked_at = -1

    def __dealloc__(self):
        struct_free(self.seats)

    @property
    def runs(self):
        """Stretches on a thread so far."""
        return qc_load(&self.n_runs)

    @property
    def steps(self):
        """Questions to operators so far."""
        return qc_load(&self.n_steps)

    cdef Operator called_last(self):
        return self.operators[self.at]

    cdef object explained(self, object error):
        called = self.called_last()
        return explain_failure(error, called.name, called.node_id, getattr(called, "doing", None))

    cdef object ended_with(self):
        cdef Operator ended
        told = None
        self.end_failed = False
        for i in range(self.n_operators - 1, -1, -1):
            ended = self.operators[i]
            if ended.end_failed:
                ended.end_failed = False
                self.at = i             # to be blamed, should the error turn out not to be tellable
                raised, ended.end_error = ended.end_error, None
                told = told or explain_failure(raised, ended.name, ended.node_id, None, ended.end_call)
        return told

    def stats_snapshot(self):
        """Figures of each operator, source first, the wait under way included.

        In checked mode 'locks' has how often a lock was taken in needs_input, add_input and get_output, by what it
        guards.
        """
        cdef int64_t blocked_at = qc_load(&self.blocked_at)
        snapshots = []
        for i, source in enumerate(self.operators):
            snapshot = source.stats_snapshot()
            snapshot["name"] = source.name
            snapshot["node_id"] = source.node_id
            if self.checks is not None:
                snapshot["locks"] = (<ContractCheck> self.checks[i]).lock_figures()
            if i == blocked_at:
                reason = REASON_NAMES[qc_load(&self.blocked_reason)]
                since = max(0, wall_nanos() - qc_load(&self.blocked_since))
                for key, more in (("blocked_wall_nanos", since), ("blocked_times", 1)):
                    snapshot[key][reason] = snapshot[key].get(reason, 0) + more
            snapshots.append(snapshot)
        return snapshots

    cdef int run(self, int64_t slice_nanos) except -1 nogil:
        cdef int at = self.n_operators - 1
        cdef int asked
        cdef int64_t until
        self.start_clock()
        self.end_blocked()
        figure_add(&self.n_runs, 1)
        until = self.clock + slice_nanos
        if self.shut_down or self.doubled:
            return raise_not_due(self)
        if qc_load(self.stop) != 0:
            return DRIVER_STOPPED
        if not self.opened:
            self.open_operators()
        self.fed = False
        while True:
            figure_add(&self.n_steps, 1)
            asked = at
            at = self.step(asked)
            if at == STEP_FINISHED:
                return DRIVER_FINISHED
            if at == STEP_BLOCKED:
                return DRIVER_BLOCKED
            if at == STEP_STOPPED or qc_load(self.stop) != 0:
                return DRIVER_STOPPED
            # Not on the way upstream: the next run begins at the sink again and must get further than this one.
            if at >= asked and slice_nanos > 0 and self.clock >= until:
                return DRIVER_YIELDED

    cdef int open_operators(self) except -1 nogil:
        cdef int i
        self.opened = True
        for i in range(self.n_operators):
            self.at = i
            self.charging = &self.seats[i].stats.get_output
            (<Operator> self.seats[i].occupant).open()
            self.charge(&self.seats[i].stats.get_output)
        return 0

    cdef int step(self, int at) except -1 nogil:
        """Ask operator `at`. Returns the operator to ask next, or how the run ends."""
        cdef Batch* batch = NULL
        cdef PyObject* asked = self.seats[at].occupant
        cdef int answer
        self.at = at
        if at == 0 and self.query != NULL and self.waits_for_memory(at):
            return STEP_BLOCKED
        self.charging = &self.seats[at].stats.get_output
        answer = (<Operator> asked).get_output(&batch, self.token)
        if answer == BLOCKED:
            self.charge(&self.seats[at].stats.is_blocked)
            return self.block_at(at)
        self.charge(&self.seats[at].stats.get_output)
        if answer == NEEDS_INPUT:
            return self.feed(at)
        if answer == OUTPUT:
            return self.hand_down(at, batch)
        if answer == FINISHED:
            return self.finish_at(at)
        if answer == YIELDED:
            return at
        return raise_unknown_answer(self, answer)

    cdef int feed(self, int at) except -1 nogil:
        """Operator `at` answered NEEDS_INPUT: find some."""
        cdef Seat* seat = &self.seats[at]
        if not (<Operator> seat.occupant).needs_input():
            return raise_no_progress(self)
        if seat.pending != NULL:
            return self.offer(at)
        if at == 0:
            return raise_source_needs_input(self)
        if self.seats[at - 1].finished:
            if seat.finish_called:
                return raise_needs_input_after_finish(self)
            if self.query != NULL and self.waits_for_memory(at):
                return STEP_BLOCKED
            seat.finish_called = True
            self.charging = &seat.stats.finish
            (<Operator> seat.occupant).finish()
            self.charge(&seat.stats.finish)
            return at
        if self.fed:
            # A batch went in and nothing came out: begin at the sink again, it may have got enough by other drivers.
            self.fed = False
            if at < self.n_operators - 1:
                return self.n_operators - 1
        return at - 1

    cdef int hand_down(self, int at, Batch* batch) except -1 nogil:
        """Operator `at` gave a batch."""
        cdef OperatorStats* stats = self.seats[at].stats
        cdef Seat* next_seat
        if batch == NULL:
            return raise_null_output(self)
        if at == self.n_operators - 1:
            batch_unref(batch)
            return raise_sink_output(self)
        next_seat = &self.seats[at + 1]
        next_seat.pending = batch
        next_seat.pending_bytes = batch_bytes(batch)
        figure_add(&stats.output_rows, batch.n_selected)
        figure_add(&stats.output_bytes, next_seat.pending_bytes)
        figure_add(&stats.output_batches, 1)
        if batch.n_selected == 0 and next_seat.bound != NULL and schema_equal(batch.schema, next_seat.bound):
            # Nothing in it, not even a new schema.
            next_seat.pending = NULL
            batch_unref(batch)
            return at
        return self.offer(at + 1)

    cdef int offer(self, int at) except -1 nogil:
        """Give its pending batch to operator `at`, binding a new schema first."""
        cdef Seat* seat = &self.seats[at]
        cdef Batch* batch = seat.pending
        cdef OperatorStats* stats = seat.stats
        cdef int64_t n_rows = batch.n_selected
        cdef int answer
        self.at = at
        self.charging = &stats.add_input
        if batch.schema != seat.bound:
            self.meet_schema(at)
            batch = seat.pending
        answer = (<Operator> seat.occupant).add_input(batch)
        self.charge(&stats.add_input)
        if answer != ACCEPTED:
            seat.refusals += 1
            if seat.refusals > REFUSALS_MAX:
                return raise_refuses(self)
            return at
        seat.pending = NULL
        seat.refusals = 0
        self.fed = True
        figure_add(&stats.input_rows, n_rows)
        figure_add(&stats.input_bytes, seat.pending_bytes)
        figure_add(&stats.input_batches, 1)
        return at

    cdef int meet_schema(self, int at) except -1 nogil:
        """The pending batch of operator `at` has another schema than was bound: bind a wider one, widen the batch, or
        both (SPEC D6). An operator sees schemas only grow.
        """
        cdef Seat* seat = &self.seats[at]
        cdef CSchema* wide
        if seat.bound == NULL:
            (<Operator> seat.occupant).bind(seat.pending.schema)
            seat.bound = <CSchema*> owner_ref(<Owner*> seat.pending.schema)
            return 0
        if schema_equal(seat.pending.schema, seat.bound):
            owner_ref(<Owner*> seat.pending.schema)
            owner_unref(<Owner*> seat.bound)
            seat.bound = seat.pending.schema
            return 0
        wide = schema_widen(seat.bound, seat.pending.schema)
        try:
            if wide != seat.bound:
                (<Operator> seat.occupant).bind(wide)
                owner_unref(<Owner*> seat.bound)
                seat.bound = <CSchema*> owner_ref(<Owner*> wide)
        finally:
            owner_unref(<Owner*> wide)
        if not schema_equal(seat.pending.schema, seat.bound):
            self.widen_pending(at)
        return 0

    cdef int widen_pending(self, int at) except -1 nogil:
        cdef Seat* seat = &self.seats[at]
        cdef Batch* wide
        if seat.widener == NULL:
            with gil:
                widener = Widener((<Operator> self.operators[at]).memory)
                self.wideners.append(widener)
                seat.widener = <PyObject*> widener
        (<Widener> seat.widener).aim(seat.pending.schema, seat.bound)
        wide = (<Widener> seat.widener).widened(seat.pending)
        batch_unref(seat.pending)
        seat.pending = wide
        return 0

    cdef int finish_at(self, int at) except -1 nogil:
        """Operator `at` is finished: nothing upstream of it is wanted, the one downstream gets no more."""
        cdef Seat* seat
        self.seats[at].finished = True
        if at > 0 and not self.seats[at - 1].finished:
            self.finished_early = True
        self.abandon_upstream(at)
        if at == self.n_operators - 1:
            return STEP_FINISHED
        if qc_load(self.stop) != 0:
            # The input may have ended because somebody failed: the next operator must not take it for complete.
            return STEP_STOPPED
        seat = &self.seats[at + 1]
        self.at = at + 1
        if self.query != NULL and self.waits_for_memory(at + 1):
            return STEP_BLOCKED         # it needs input, and is told on the way there that none is left
        seat.finish_called = True
        self.charging = &seat.stats.finish
        (<Operator> seat.occupant).finish()
        self.charge(&seat.stats.finish)
        return at + 1

    cdef void abandon_upstream(self, int below) noexcept nogil:
        """Abandon every operator before `below` that is not finished, nearest first, and drop what waits for them."""
        cdef int i
        cdef Seat* seat
        batch_unref(self.seats[below].pending)
        self.seats[below].pending = NULL
        for i in range(below - 1, -1, -1):
            seat = &self.seats[i]
            batch_unref(seat.pending)
            seat.pending = NULL
            if not seat.finished and not seat.abandoned:
                seat.abandoned = True
                seat.finished = True
                (<Operator> seat.occupant).abandon()
                self.charge(&seat.stats.finish)
                if (<Operator> seat.occupant).end_failed:
                    self.end_failed = True

    cdef int block_at(self, int at) except -1 nogil:
        cdef int reason = (<Operator> self.seats[at].occupant).blocked_reason
        if reason <= NOT_BLOCKED or reason >= N_BLOCK_REASONS:
            return raise_blocked_without_reason(self, reason)
        return self.block(at, reason)

    cdef int block(self, int at, int reason) noexcept nogil:
        qc_store(&self.blocked_reason, reason)
        qc_store(&self.blocked_since, self.clock)
        qc_store(&self.blocked_at, at)
        self.seats[at].refusals = 0
        return STEP_BLOCKED

    cdef bint waits_for_memory(self, int at) except -1 nogil:
        """Whether operator `at` is not called now, since its query may grow and others hold the memory (SPEC V7)."""
        if not pool_is_short(pool_of(self.query)) or not pool_wait(pool_of(self.query), self.query, self.token):
            return False
        self.block(at, WAIT_FOR_MEMORY)
        return True

    cdef void end_blocked(self) noexcept nogil:
        cdef OperatorStats* stats
        if self.blocked_at < 0:
            return
        stats = self.seats[self.blocked_at].stats
        figure_add(&stats.blocked_wall_nanos[self.blocked_reason], self.clock - self.blocked_since)
        figure_add(&stats.blocked_times[self.blocked_reason], 1)
        qc_store(&self.blocked_at, -1)

    cdef void shut(self) noexcept nogil:
        cdef int i
        cdef Seat* seat
        cdef bint widened = False
        if self.shut_down or self.seats == NULL:
            return
        self.shut_down = True
        if self.charging != NULL:
            self.charge(self.charging)      # the call that raised
        self.start_clock()
        self.end_blocked()
        self.abandon_upstream(self.n_operators)
        for i in range(self.n_operators - 1, -1, -1):
            seat = &self.seats[i]
            (<Operator> seat.occupant).close()
            self.charge(&seat.stats.finish)
            owner_unref(<Owner*> seat.bound)
            seat.bound = NULL
            if seat.widener != NULL:
                seat.widener = NULL
                widened = True
            if (<Operator> seat.occupant).end_failed:
                self.end_failed = True
        if widened:
            with gil:
                self.wideners = None

    cdef object violation(self):
        cdef ContractCheck check
        for check in self.checks or ():
            if check.is_broken:
                return check.error()
        return None

    cdef void start_clock(self) noexcept nogil:
        self.tick_scale = tick_scale()
        self.clock = wall_nanos()
        self.run_ticks = qc_ticks()
        self.run_clock = self.clock
        self.cpu_clock = cpu_nanos()
        self.cpu_assumed = 0

    cdef void charge(self, Timing* timing) noexcept nogil:
        """Charge the time since the last reading to `timing`."""
        cdef int64_t now, wall
        if self.tick_scale != 0:
            now = self.run_clock + qc_ticks_nanos(qc_ticks() - self.run_ticks, self.tick_scale)
        else:
            now = wall_nanos()
        # Never back: processors' counters may differ by a little when the thread moves.
        wall = now - self.clock if now > self.clock else 0
        self.clock += wall
        self.charging = NULL
        figure_add(&timing.calls, 1)
        figure_add(&timing.wall_nanos, wall)
        if wall < CPU_READ_NANOS:
            self.cpu_assumed += wall
            figure_add(&timing.cpu_nanos, wall)
        else:
            figure_add(&timing.cpu_nanos, self.cpu_since_reading())

    cdef int64_t cpu_since_reading(self) noexcept nogil:
        """CPU time of the last call, beside what was assumed of the calls before it."""
        cdef int64_t now = cpu_nanos()
        cdef int64_t cpu = now - self.cpu_clock - self.cpu_assumed
        self.cpu_clock = now
        self.cpu_assumed = 0
        return cpu if cpu > 0 else 0


class ClosingDriver(Driver):
    """A Driver that closes its operators when nobody has it any more.

    As part of a cycle, too: the garbage collector calls __del__ before it takes anything apart, so that the operators
    of a driver that never ran still leave their barriers. A class of Python's own, since the stable ABI lets no other
    be told.
    """

    def __del__(self):
        (<Driver> self).shut()


# The operator to blame is the one called last; the task puts its name before the message.

cdef int raise_not_due(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError(
            "its driver was run after it was closed" if driver.shut_down
            else "its driver was run without having been woken; some operator changed its wait token"
        )


cdef int raise_no_progress(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError(
            "stuck: not blocked and not finished, yet it gives no output and takes no input; "
            "this is a bug of the operator"
        )


cdef int raise_source_needs_input(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError("asks for input, but it is the source; this is a bug of the plan or the operator")


cdef int raise_needs_input_after_finish(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError("stuck: it asks for input after finish; this is a bug of the operator")


cdef int raise_refuses(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError(
            f"stuck: it refused the same batch {REFUSALS_MAX} times while saying that it needs input; "
            "an operator that has to wait must answer BLOCKED"
        )


cdef int raise_null_output(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError("answered OUTPUT without a batch; this is a bug of the operator")


cdef int raise_sink_output(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError("gave a batch, but it is the sink; this is a bug of the plan or the operator")


cdef int raise_unknown_answer(Driver driver, int answer) except -1 nogil:
    with gil:
        raise ExecutionError(f"answered {answer}, which is no Poll; this is a bug of the operator")


cdef int raise_blocked_without_reason(Driver driver, int reason) except -1 nogil:
    with gil:
        raise ExecutionError(f"is blocked for reason {reason}, which is no BlockReason; this is a bug of the operator")
