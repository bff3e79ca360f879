"""Checked mode (QCORE_DEBUG=1): checks between a driver and an operator that both follow the contract.

Every call of the operator passes through here. A breach of the contract, by the operator or by the driver, raises an
error that names the operator. The calls are also fault sites. A call that cannot raise records its breach. The next
call that can raise then raises the error, or the task does when the driver is closed.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.schema cimport CSchema, schema_equal
from qcore_ext.execution.batch_check cimport check_batch
from qcore_ext.ground.atomic cimport qc_cas, qc_load, qc_store
from qcore_ext.ground.fault cimport (
    FAULT_ADD_INPUT, FAULT_BIND, FAULT_FINISH, FAULT_GET_OUTPUT, FAULT_OPEN, allocations_of_thread, allocations_watch,
    fault_here, raise_injected,
)
from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.lock cimport N_LOCK_SITES, locks_taken
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.drift cimport DRIFT_NONE
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, OUTPUT, Operator
from qcore_ext.flow.barrier cimport Membership

from qcore_ext.ground.lock import LOCK_NAMES
from qcore_ext.ground.status import ExecutionError

cdef extern from *:
    """
    /* The check whose operator this thread is closing or abandoning. */
    static __thread void *qc_closing;
    """
    void* qc_closing


cdef list contract_checks(list operators):
    cdef ContractCheck check, above
    checks = [ContractCheck(operator) for operator in operators]
    above = None
    for check in checks:
        check.chain = <void*> checks[0]
        if above is not None:
            above.downstream = <PyObject*> check
            check.upstream = <PyObject*> above
        above = check
    return checks


cdef class ContractCheck(Operator):
    """The check of one operator.

    Parameters
    ----------
    checked : Operator
    """

    def __cinit__(self, *arguments):
        # Not in __init__: __dealloc__ runs also after an __init__ that raised.
        allocations_watch(1)

    def __init__(self, Operator checked):
        Operator.__init__(self, checked.name, checked.node_id, None)
        self.checked = checked

    def __dealloc__(self):
        allocations_watch(-1)
        owner_unref(<Owner*> self.bound)

    # --- errors ---

    cdef object error(self, what=None):
        name, node_id = self.checked.name, self.checked.node_id
        what = what or self.broken
        return ExecutionError(f"{name} (node {node_id}) broke the operator contract: {what}", name, node_id)

    cdef int refuse(self, str what) except -1:
        raise self.error(what)

    cdef int refuse_call(self, const char* call, const char* when) except -1 nogil:
        with gil:
            self.refuse(f"{call.decode()} was called {when.decode()}")
        return 0

    cdef int refuse_misuse(self, const char* call, const char* when) except -1 nogil:
        """Report a mistake of the caller. The operator may continue."""
        self.failed = False
        return self.refuse_call(call, when)

    cdef void note(self, str what):
        if not self.is_broken:
            self.broken = what
            self.is_broken = True

    cdef int enter(self, const char* call) except -1 nogil:
        """Begin a call that can raise."""
        if qc_closing != NULL and (<ContractCheck> <PyObject*> qc_closing).chain == self.chain:
            with gil:
                (<ContractCheck> qc_closing).note(f"its end called {call.decode()} of {self.checked.name}")
                self.refuse(f"{call.decode()} was called by {(<ContractCheck> qc_closing).checked.name} as it ended")
        if not qc_cas(&self.inside, 0, 1):
            return self.refuse_call(call, b"during another call of the operator")
        if self.closed or self.abandoned or self.failed or self.finished:
            qc_store(&self.inside, 0)
            return self.refuse_call(call, self.end_of_calls())
        self.failed = True          # until the call returns
        return 0

    cdef const char* end_of_calls(self) noexcept nogil:
        if self.closed:
            return b"after close"
        if self.abandoned:
            return b"after abandon"
        if self.failed:
            return b"after a call that failed"
        return b"after it returned FINISHED"

    cdef bint left_twice(self) noexcept nogil:
        cdef const Membership* member = &self.checked.membership
        return member.n_too_many > 0 or member.n_left > member.n_joined

    cdef int leave(self) except -1 nogil:
        """End a call that returned."""
        self.failed = False
        qc_store(&self.inside, 0)
        if self.left_twice():
            self.failed = True
            with gil:
                self.refuse("it left a barrier more than once")
        if self.is_broken:
            self.failed = True
            with gil:
                self.refuse(self.broken)
        return 0

    cdef void count_locks(self, int by) noexcept nogil:
        cdef const int64_t* taken = locks_taken()
        cdef int i
        for i in range(N_LOCK_SITES):
            counter_add(&self.locks[i], by * taken[i])

    cdef dict lock_counters(self):
        cdef int i
        counters = {}
        for i in range(N_LOCK_SITES):
            if qc_load(&self.locks[i]) != 0:
                counters[LOCK_NAMES[i]] = qc_load(&self.locks[i])
        return counters

    # --- the contract ---

    cdef int open(self) except -1 nogil:
        self.enter(b"open")
        try:
            if self.opened:
                self.refuse_misuse(b"open", b"twice")
            self.opened = True
            if fault_here(FAULT_OPEN):
                raise_injected(FAULT_OPEN)
            self.checked.open()
        finally:
            qc_store(&self.inside, 0)
        return self.leave()

    cdef int bind(self, CSchema* schema) except -1 nogil:
        self.enter(b"bind")
        try:
            if not self.opened:
                self.refuse_misuse(b"bind", b"before open")
            if schema_equal(schema, self.bound):
                self.refuse_misuse(b"bind", b"with the schema that is already bound")
            if fault_here(FAULT_BIND):
                raise_injected(FAULT_BIND)
            self.checked.bind(schema)
        finally:
            qc_store(&self.inside, 0)
        owner_ref(<Owner*> schema)
        owner_unref(<Owner*> self.bound)
        self.bound = schema
        return self.leave()

    cdef bint needs_input(self) noexcept nogil:
        self.count_locks(-1)
        self.hungry = self.checked.needs_input()
        self.count_locks(1)
        return self.hungry

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef int answer
        self.enter(b"add_input")
        try:
            if self.upstream == NULL:
                self.refuse_misuse(b"add_input", b"on a source")
            if not self.hungry:
                self.refuse_misuse(b"add_input", b"although needs_input did not return true")
            if self.refused != NULL and self.refused != batch:
                self.refuse_misuse(b"add_input", b"with another batch than the refused one")
            if self.finish_called:
                self.refuse_misuse(b"add_input", b"after finish")
            if not schema_equal(batch.schema, self.bound):
                self.refuse_misuse(b"add_input", b"with a batch of another schema than the bound one")
            if fault_here(FAULT_ADD_INPUT):
                raise_injected(FAULT_ADD_INPUT)
            self.count_locks(-1)
            answer = self.checked.add_input(batch)
            self.count_locks(1)
        finally:
            qc_store(&self.inside, 0)
        self.refused = NULL
        # No error may be raised after this line. An accepted batch belongs to the operator; after an error the driver
        # would also drop it.
        self.failed = False
        if answer == ACCEPTED:
            self.hungry = False
        else:
            self.refused = batch
        if self.left_twice():
            with gil:
                self.note("it left a barrier more than once")
        return answer

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef int answer
        cdef int64_t n_registered = token.n_registered if token != NULL else 0
        self.enter(b"get_output")
        try:
            if not self.opened:
                self.refuse_misuse(b"get_output", b"before open")
            if self.downstream != NULL and not (<ContractCheck> self.downstream).hungry:
                self.refuse_misuse(b"get_output", b"while the next operator needed no input")
            if fault_here(FAULT_GET_OUTPUT):
                raise_injected(FAULT_GET_OUTPUT)
            self.count_locks(-1)
            answer = self.checked.get_output(out, token)
            self.count_locks(1)
        finally:
            qc_store(&self.inside, 0)
        self.blocked_reason = self.checked.blocked_reason
        self.check_answer(answer, out, token == NULL or token.n_registered != n_registered)
        return answer

    cdef int check_answer(self, int answer, Batch** out, bint registered) except -1 nogil:
        cdef bint sound = False
        if answer == BLOCKED and not registered:
            with gil:
                self.refuse("it returned BLOCKED without registering its wait token, so nothing would wake it")
        try:
            if answer == OUTPUT and out[0] != NULL and self.downstream != NULL:
                # The driver converts the batches of an operator that may drift.
                check_batch(out[0], self.checked.output_schema if self.checked.drift == DRIFT_NONE else NULL)
            self.leave()
            sound = True
        finally:
            if not sound and answer == OUTPUT:
                batch_unref(out[0])
                out[0] = NULL
        self.finished = answer == FINISHED
        return 0

    cdef int pause(self, WaitToken* token) except -1 nogil:
        self.enter(b"pause")
        try:
            if not self.opened or self.downstream != NULL:
                self.refuse_misuse(b"pause", b"although it is no sink that was opened")
            self.count_locks(-1)
            self.checked.pause(token)
            self.count_locks(1)
        finally:
            qc_store(&self.inside, 0)
        return self.leave()

    cdef int finish(self) except -1 nogil:
        self.enter(b"finish")
        try:
            if self.upstream == NULL:
                self.refuse_misuse(b"finish", b"on a source")
            if self.finish_called:
                self.refuse_misuse(b"finish", b"twice")
            if not (<ContractCheck> self.upstream).finished:
                self.refuse_misuse(b"finish", b"before the previous operator was finished")
            self.finish_called = True
            if fault_here(FAULT_FINISH):
                raise_injected(FAULT_FINISH)
            self.checked.finish()
        finally:
            qc_store(&self.inside, 0)
        return self.leave()

    # --- calls that cannot raise ---

    cdef void* enter_quietly(self, const char* call, int64_t* allocations) noexcept nogil:
        cdef void* before = qc_closing
        if before != NULL and (<ContractCheck> <PyObject*> before).chain == self.chain:
            with gil:
                (<ContractCheck> before).note(f"its end called {call.decode()} of {self.checked.name}")
        if not qc_cas(&self.inside, 0, 1):
            with gil:
                self.note(f"{call.decode()} was called during another call of the operator")
        set_closing(<void*> <PyObject*> self)
        allocations[0] = allocations_of_thread()
        return before

    cdef void leave_quietly(self, const char* call, void* before, int64_t allocations) noexcept nogil:
        cdef bint allocated = allocations_of_thread() != allocations
        set_closing(before)
        qc_store(&self.inside, 0)
        if allocated:
            with gil:
                self.note(f"{call.decode()} allocated memory")
        if self.left_twice():
            with gil:
                self.note("it left a barrier more than once")

    cdef void abandon(self) noexcept nogil:
        cdef int64_t allocations
        cdef void* before = self.enter_quietly(b"abandon", &allocations)
        if self.abandoned or self.closed or self.finished:
            with gil:
                self.note("abandon was called after its end")
        self.abandoned = True
        self.refused = NULL
        self.checked.abandon()
        self.end_failed = self.checked.end_failed
        self.leave_quietly(b"abandon", before, allocations)

    cdef void close(self) noexcept nogil:
        cdef int64_t allocations
        cdef void* before = self.enter_quietly(b"close", &allocations)
        if self.closed:
            with gil:
                self.note("close was called twice")
        if self.downstream != NULL and not (<ContractCheck> self.downstream).closed:
            with gil:
                self.note("close was called before close of the next operator")
        self.closed = True
        self.checked.close()
        self.end_failed = self.checked.end_failed
        self.leave_quietly(b"close", before, allocations)
        if self.checked.membership.n_left < self.checked.membership.n_joined:
            with gil:
                self.note("it closed without leaving a barrier that it had joined")


cdef void set_closing(void* check) noexcept nogil:
    global qc_closing
    qc_closing = check
