"""The loop that runs one chain of operators: a small machine that knows neither threads nor data."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_bytes_about, batch_unref
from qcore_ext.data.schema cimport CSchema, schema_equal
from qcore_ext.execution.clock cimport clock_charge, clock_start
from qcore_ext.execution.contract_check cimport ContractCheck, contract_checks
from qcore_ext.execution.schema_meeting cimport bound_schema_clear, drift_settle, schema_meet, widener_clear
from qcore_ext.ground.atomic cimport qc_add, qc_load, qc_store
from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.memory cimport struct_free, struct_new
from qcore_ext.ground.memory_pool cimport GROWTH_AT_FINISH, CMemoryPool, pool_is_short, pool_of, pool_wait
from qcore_ext.ground.placement cimport qc_pause
from qcore_ext.ground.stats cimport N_BLOCK_REASONS, NOT_BLOCKED, WAIT_FOR_MEMORY, OperatorStats, wall_nanos
from qcore_ext.flow.drift cimport DRIFT_NONE
from qcore_ext.flow.operator cimport (
    ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, YIELDED, Operator,
)

from qcore_ext.ground.error_text import explain_failure
from qcore_ext.ground.stats import REASON_NAMES
from qcore_ext.ground.status import ExecutionError

cdef enum:
    # Results of a step, beside the position of the operator to ask next.
    STEP_FINISHED = -2
    STEP_BLOCKED = -3
    STEP_STOPPED = -4
    # An operator that needs input but refuses the same batch this many times is stuck. A correct operator refuses at
    # most once more often than it is woken, and is blocked between two refusals.
    REFUSALS_MAX = 1000


@cython.no_gc_clear
cdef class Driver:
    """Runs one chain of operators.

    Parameters
    ----------
    operators : list of Operator
        Source first, sink last. The operators belong to this driver alone.
    is_checked : bool
        Whether the contract is checked (checked mode).
    """

    def __init__(self, list operators, bint is_checked):
        cdef bint waits = False
        cdef int i
        if not operators:
            raise ValueError("a driver needs at least one operator")
        for operator in operators:
            if not isinstance(operator, Operator):
                raise TypeError(f"a chain is made of Operator objects, not {type(operator).__name__}")
        self.operators = list(operators)
        if is_checked:
            self.checks = contract_checks(self.operators)
        self.n_operators = <int> len(operators)
        # One slot more than operators: abandon_upstream(n_operators) also clears the pending batch of the slot after
        # the last.
        self.slots = <OperatorSlot*> struct_new((self.n_operators + 1) * sizeof(OperatorSlot))
        for i in range(self.n_operators):
            self.slots[i].operator = <PyObject*> (self.checks or self.operators)[i]
            if (<Operator> self.operators[i]).drift != DRIFT_NONE:
                self.slots[i].drifting = <PyObject*> self.operators[i]
            self.slots[i].stats = &(<Operator> self.operators[i]).stats
            self.slots[i].account = <PyObject*> (<Operator> self.operators[i]).memory
            waits = waits or (<Operator> self.operators[i]).waits_inside
        (<Operator> self.operators[self.n_operators - 1]).may_hold_back = not waits
        self.blocked_at = -1

    def __dealloc__(self):
        struct_free(self.slots)

    @property
    def runs(self):
        """Number of turns on a thread so far."""
        return qc_load(&self.n_runs)

    @property
    def steps(self):
        """Number of calls of get_output so far."""
        return qc_load(&self.n_steps)

    cdef Operator called_last(self):
        return self.operators[self.at]

    cdef object explain_error(self, object error):
        called = self.called_last()
        return explain_failure(error, called.name, called.node_id, getattr(called, "doing", None))

    cdef object take_end_error(self):
        cdef Operator ended
        explained = None
        self.end_failed = False
        for i in range(self.n_operators - 1, -1, -1):
            ended = self.operators[i]
            if ended.end_failed:
                ended.end_failed = False
                self.at = i             # the operator to name if describing the error fails
                raised, ended.end_error = ended.end_error, None
                explained = explained or explain_failure(raised, ended.name, ended.node_id, None, ended.end_call)
        return explained

    def stats_snapshot(self):
        """Return the counters of each operator, source first. A wait that has not ended is included.

        In checked mode 'locks' has the number of locks taken in needs_input, add_input and get_output, by LockSite.
        """
        cdef int64_t ends, now
        cdef int64_t at = -1
        cdef int64_t reason = 0
        cdef int64_t waited = 0
        cdef int64_t times = 0
        # The wait under way is read first and as one: an operator's counters, read later, have at least as much if it
        # has ended by then. `now` is before the end of the wait, whose clock is read after n_ends becomes odd.
        while True:
            ends = qc_load(&self.n_ends)
            at = qc_load(&self.blocked_at)
            if at < 0:
                break
            reason = qc_load(&self.blocked_reason)
            waited = qc_load(&self.slots[at].stats.blocked_wall_nanos[reason])
            times = qc_load(&self.slots[at].stats.blocked_times[reason]) + 1
            now = wall_nanos()
            waited += max(0, now - qc_load(&self.blocked_since))
            if ends & 1 == 0 and qc_load(&self.n_ends) == ends:
                break
            qc_pause()
        snapshots = []
        for i, source in enumerate(self.operators):
            snapshot = source.stats_snapshot()
            snapshot["name"] = source.name
            snapshot["node_id"] = source.node_id
            if self.checks is not None:
                snapshot["locks"] = (<ContractCheck> self.checks[i]).lock_counters()
            if i == at:
                for key, least in (("blocked_wall_nanos", waited), ("blocked_times", times)):
                    name = REASON_NAMES[reason]
                    snapshot[key][name] = max(snapshot[key].get(name, 0), least)
            snapshots.append(snapshot)
        return snapshots

    cdef int run(self, int64_t slice_nanos) except -1 nogil:
        cdef int at = self.n_operators - 1
        cdef int asked
        cdef int64_t until
        self.start_clock()
        counter_add(&self.n_runs, 1)
        until = self.clock.now + slice_nanos
        if self.shut_down or self.doubled:
            return raise_not_due(self)
        if qc_load(self.stop) != 0:
            return DRIVER_STOPPED
        if not self.opened:
            self.open_operators()
        self.fed = False
        while True:
            counter_add(&self.n_steps, 1)
            asked = at
            at = self.step(asked)
            if at == STEP_FINISHED:
                return DRIVER_FINISHED
            if at == STEP_BLOCKED:
                self.pause()
                return DRIVER_BLOCKED
            if at == STEP_STOPPED or qc_load(self.stop) != 0:
                return DRIVER_STOPPED
            # A yield is possible only at the end of a walk upstream. The next run begins at the sink and must get
            # further.
            if at >= asked and slice_nanos > 0 and self.clock.now >= until:
                self.pause()
                return DRIVER_YIELDED

    cdef int pause(self) except -1 nogil:
        """Let the sink pass on the rows that it holds back."""
        cdef OperatorSlot* sink = &self.slots[self.n_operators - 1]
        cdef int at = self.at
        self.at = self.n_operators - 1
        self.clock.charging = &sink.stats.get_output
        (<Operator> sink.operator).pause(self.token)
        clock_charge(&self.clock, &sink.stats.get_output)
        self.at = at
        return 0

    cdef int open_operators(self) except -1 nogil:
        cdef int i
        self.opened = True
        for i in range(self.n_operators):
            self.at = i
            self.clock.charging = &self.slots[i].stats.get_output
            (<Operator> self.slots[i].operator).open()
            clock_charge(&self.clock, &self.slots[i].stats.get_output)
        return 0

    cdef int step(self, int at) except -1 nogil:
        """Ask operator `at`. Returns the position of the operator to ask next, or how the run ends."""
        cdef Batch* batch = NULL
        cdef PyObject* asked = self.slots[at].operator
        cdef int answer
        self.at = at
        if at == 0 and self.query != NULL and self.waits_for_memory(at, 0):
            return STEP_BLOCKED
        self.clock.charging = &self.slots[at].stats.get_output
        answer = (<Operator> asked).get_output(&batch, self.token)
        if answer == BLOCKED:
            clock_charge(&self.clock, &self.slots[at].stats.is_blocked)
            return self.block_at(at)
        if batch != NULL and self.slots[at].drifting != NULL:
            batch = drift_settle(self.slots[at].drifting, &self.slots[at].drift_widener, batch)
        clock_charge(&self.clock, &self.slots[at].stats.get_output)
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
        """Get input for operator `at`, which answered NEEDS_INPUT."""
        cdef OperatorSlot* slot = &self.slots[at]
        if not (<Operator> slot.operator).needs_input():
            return raise_no_progress(self)
        if slot.pending != NULL:
            return self.offer(at)
        if at == 0:
            return raise_source_needs_input(self)
        if self.slots[at - 1].finished:
            if slot.finish_called:
                return raise_needs_input_after_finish(self)
            if self.query != NULL and self.waits_for_memory(at, GROWTH_AT_FINISH):
                return STEP_BLOCKED
            slot.finish_called = True
            self.clock.charging = &slot.stats.finish
            (<Operator> slot.operator).finish()
            clock_charge(&self.clock, &slot.stats.finish)
            return at
        if self.fed:
            # A batch was accepted, and no output came. Begin at the sink again, which other drivers may have given
            # enough.
            self.fed = False
            if at < self.n_operators - 1:
                return self.n_operators - 1
        return at - 1

    cdef int hand_down(self, int at, Batch* batch) except -1 nogil:
        """Hand the batch that operator `at` returned to the next operator."""
        cdef OperatorStats* stats = self.slots[at].stats
        cdef OperatorSlot* next_slot
        cdef CSchema* bound
        if batch == NULL:
            return raise_null_output(self)
        if at == self.n_operators - 1:
            batch_unref(batch)
            return raise_sink_output(self)
        next_slot = &self.slots[at + 1]
        next_slot.pending = batch
        next_slot.pending_bytes = batch_bytes_about(batch)
        counter_add(&stats.output_rows, batch.n_selected)
        counter_add(&stats.output_bytes, next_slot.pending_bytes)
        counter_add(&stats.output_batches, 1)
        bound = next_slot.bound.schema
        if batch.n_selected == 0 and bound != NULL and schema_equal(batch.schema, bound):
            # No rows, and the schema is bound already.
            next_slot.pending = NULL
            batch_unref(batch)
            return at
        return self.offer(at + 1)

    cdef int offer(self, int at) except -1 nogil:
        """Give its pending batch to operator `at`. A new schema is bound first."""
        cdef OperatorSlot* slot = &self.slots[at]
        cdef Batch* batch = slot.pending
        cdef OperatorStats* stats = slot.stats
        cdef int64_t n_rows = batch.n_selected
        cdef int answer
        self.at = at
        self.clock.charging = &stats.add_input
        if batch.schema != slot.bound.schema:
            schema_meet(&slot.bound, slot.operator, slot.account, &slot.pending)
            batch = slot.pending
        answer = (<Operator> slot.operator).add_input(batch)
        clock_charge(&self.clock, &stats.add_input)
        if answer != ACCEPTED:
            slot.refusals += 1
            if slot.refusals > REFUSALS_MAX:
                return raise_refuses(self)
            return at
        slot.pending = NULL
        slot.refusals = 0
        self.fed = True
        counter_add(&stats.input_rows, n_rows)
        counter_add(&stats.input_bytes, slot.pending_bytes)
        counter_add(&stats.input_batches, 1)
        return at

    cdef int finish_at(self, int at) except -1 nogil:
        """Operator `at` is finished: abandon the operators upstream, and tell the next one that its input is over."""
        cdef OperatorSlot* slot
        self.slots[at].finished = True
        if at > 0 and not self.slots[at - 1].finished:
            self.finished_early = True
        self.abandon_upstream(at)
        if at == self.n_operators - 1:
            return STEP_FINISHED
        if qc_load(self.stop) != 0:
            # The input may have ended because a driver failed. The next operator must not treat it as complete.
            return STEP_STOPPED
        slot = &self.slots[at + 1]
        self.at = at + 1
        if self.query != NULL and self.waits_for_memory(at + 1, GROWTH_AT_FINISH):
            return STEP_BLOCKED         # it needs input, so feed() calls its finish later
        slot.finish_called = True
        self.clock.charging = &slot.stats.finish
        (<Operator> slot.operator).finish()
        clock_charge(&self.clock, &slot.stats.finish)
        return at + 1

    cdef void abandon_upstream(self, int below) noexcept nogil:
        """Abandon every unfinished operator before `below`, nearest first, and drop their pending batches."""
        cdef int i
        cdef OperatorSlot* slot
        batch_unref(self.slots[below].pending)
        self.slots[below].pending = NULL
        for i in range(below - 1, -1, -1):
            slot = &self.slots[i]
            batch_unref(slot.pending)
            slot.pending = NULL
            if not slot.finished and not slot.abandoned:
                slot.abandoned = True
                slot.finished = True
                (<Operator> slot.operator).abandon()
                clock_charge(&self.clock, &slot.stats.finish)
                if (<Operator> slot.operator).end_failed:
                    self.end_failed = True

    cdef int block_at(self, int at) except -1 nogil:
        cdef int reason = (<Operator> self.slots[at].operator).blocked_reason
        if reason <= NOT_BLOCKED or reason >= N_BLOCK_REASONS:
            return raise_blocked_without_reason(self, reason)
        return self.block(at, reason)

    cdef int block(self, int at, int reason) noexcept nogil:
        qc_store(&self.blocked_reason, reason)
        qc_store(&self.blocked_since, self.clock.now)
        qc_store(&self.blocked_at, at)
        self.slots[at].refusals = 0
        return STEP_BLOCKED

    cdef bint waits_for_memory(self, int at, int growth) except -1 nogil:
        """Whether operator `at` must wait, because its query may grow and another query holds the memory.

        The next call may reserve `growth` times what the query holds.
        """
        cdef CMemoryPool* pool = pool_of(self.query)
        cdef int64_t more = growth * qc_load(&self.query.reserved)
        if not pool_is_short(pool, more) or not pool_wait(pool, self.query, more, self.token):
            return False
        self.block(at, WAIT_FOR_MEMORY)
        return True

    cdef void start_clock(self) noexcept nogil:
        """Start the clock of a run, and charge the wait that ends with it to the operator that blocked."""
        cdef OperatorStats* stats
        if self.blocked_at < 0:
            clock_start(&self.clock)
            return
        qc_add(&self.n_ends, 1)
        clock_start(&self.clock)
        stats = self.slots[self.blocked_at].stats
        # A wait began by the tick counter and ends by the monotonic clock, which may be a little behind.
        counter_add(&stats.blocked_wall_nanos[self.blocked_reason], max(0, self.clock.now - self.blocked_since))
        counter_add(&stats.blocked_times[self.blocked_reason], 1)
        qc_store(&self.blocked_at, -1)
        qc_add(&self.n_ends, 1)

    cdef void shut(self) noexcept nogil:
        cdef int i
        cdef OperatorSlot* slot
        if self.shut_down or self.slots == NULL:
            return
        self.shut_down = True
        if self.clock.charging != NULL:
            clock_charge(&self.clock, self.clock.charging)      # the call that raised
        self.start_clock()
        self.abandon_upstream(self.n_operators)
        for i in range(self.n_operators - 1, -1, -1):
            slot = &self.slots[i]
            (<Operator> slot.operator).close()
            clock_charge(&self.clock, &slot.stats.finish)
            bound_schema_clear(&slot.bound)
            widener_clear(&slot.drift_widener)
            if (<Operator> slot.operator).end_failed:
                self.end_failed = True

    cdef object violation(self):
        cdef ContractCheck check
        for check in self.checks or ():
            if check.is_broken:
                return check.error()
        return None


class ClosingDriver(Driver):
    """A Driver that closes its operators when it is freed.

    Also if it is part of a cycle: the garbage collector calls __del__ before it clears anything, so the operators of a
    driver that never ran still leave their barriers. It is a Python class because an extension type of the stable ABI
    cannot have __del__.
    """

    def __del__(self):
        (<Driver> self).shut()


# The error is that of the operator called last. The task adds its name before the message.

cdef int raise_not_due(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError(
            "its driver was run after it was closed" if driver.shut_down
            else "its driver was run without having been woken; some operator changed its wait token"
        )


cdef int raise_no_progress(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError(
            "stuck: not blocked and not finished, but it returns no output and takes no input; "
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
            f"stuck: it refused the same batch {REFUSALS_MAX} times while needs_input was true; "
            "an operator that must wait must return BLOCKED"
        )


cdef int raise_null_output(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError("returned OUTPUT without a batch; this is a bug of the operator")


cdef int raise_sink_output(Driver driver) except -1 nogil:
    with gil:
        raise ExecutionError("returned a batch, but it is the sink; this is a bug of the plan or the operator")


cdef int raise_unknown_answer(Driver driver, int answer) except -1 nogil:
    with gil:
        raise ExecutionError(f"returned {answer}, which is not a Poll; this is a bug of the operator")


cdef int raise_blocked_without_reason(Driver driver, int reason) except -1 nogil:
    with gil:
        raise ExecutionError(f"is blocked for {reason}, which is not a BlockReason; this is a bug of the operator")
