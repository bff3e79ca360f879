"""For tests: an operator that passes rows on and otherwise makes random choices that the contract allows."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_ref, batch_select, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, Mutex, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Account, Buffer, Owner, buffer_new, buffer_unref, owner_ref
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add,
    wait_token_fire,
)
from qcore_ext.flow.operator cimport (
    ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, YIELDED, Operator,
)

from qcore_ext.ground.stats import REASON_NAMES


cdef class Bell:
    """A resource for which operators wait. ring() wakes all of them, from any thread."""
    cdef Mutex mutex
    cdef WaitList waiting

    def __cinit__(self):
        mutex_init(&self.mutex, LOCK_STRUCTURE)

    def __dealloc__(self):
        wait_list_clear(&self.waiting)
        mutex_destroy(&self.mutex)

    cdef int wait(self, WaitToken* token) except -1 nogil:
        cdef const char* failed
        mutex_lock(&self.mutex)
        failed = wait_list_try_add(&self.waiting, token)
        mutex_unlock(&self.mutex)
        return 0 if failed == NULL else raise_memory_limit(failed)

    def ring(self):
        """Wake all waiting operators."""
        cdef WaitList taken
        with nogil:
            mutex_lock(&self.mutex)
            wait_list_take(&self.waiting, &taken)
            mutex_unlock(&self.mutex)
            wait_list_fire(&taken)


cdef PyBatch part_of(Batch* batch, int64_t first, int64_t n):
    """The selected rows first..first + n as a selection."""
    cdef PyBatch wrapped
    cdef Batch* part
    cdef Buffer* buffer
    cdef uint32_t* rows
    cdef int64_t i
    cdef int32_t c
    part = batch_new(batch.schema, batch.n_rows)
    wrapped = PyBatch.wrap(part)
    batch_unref(part)
    for c in range(batch.n_columns):
        part.columns[c] = <Column*> owner_ref(<Owner*> batch.columns[c])
    buffer = buffer_new(NULL, (n + 1) * sizeof(uint32_t))
    rows = <uint32_t*> buffer.data
    for i in range(n):
        rows[i] = batch.selection[first + i] if batch.selection != NULL else <uint32_t> (first + i)
    batch_select(part, rows, n, <Owner*> buffer)
    buffer_unref(buffer)
    return wrapped


cdef class RandomOperator(Operator):
    """Passes rows on in order, with random cuts of batches, empty batches, refusals, yields and waits.

    Parameters
    ----------
    address : object
        Says which one it is, in `log` and in error messages.
    query_memory : Account
    random : random.Random
        Its own.
    bell : Bell
        Rung by the test, again and again.
    log : list
        Gets (address, call) for open, finish, abandon and close, and (address, text) for every call out of order.
    at_step : dict, optional
        Number of a call of add_input or get_output → exception to raise; a callable, to call; or None, to be finished.
    """
    cdef object address
    cdef object random
    cdef Bell bell
    cdef list log
    cdef dict at_step
    cdef list held                  # of PyBatch
    cdef readonly int64_t n_steps
    cdef str state                  # 'made', 'open', 'finished', 'abandoned', 'failed', 'closed'
    cdef bint hungry                # needs_input returned True
    cdef bint refused               # whether the last offered batch was refused
    cdef bint finish_called

    def __init__(self, address, Account query_memory, random, Bell bell, list log, dict at_step=None):
        Operator.__init__(self, "RandomOperator", str(address), query_memory)
        self.address = address
        self.random = random
        self.bell = bell
        self.log = log
        self.at_step = dict(at_step or {})
        self.held = []
        self.state = "made"

    cdef int expect(self, str call, bint right) except -1:
        if not right:
            self.log.append((self.address, f"{call} while {self.state}"))
        return 0

    cdef int open(self) except -1 nogil:
        with gil:
            self.expect("open", self.state == "made")
            self.state = "open"
            self.log.append((self.address, "open"))
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        with gil:
            self.expect("bind", self.state == "open" and not self.finish_called)
        return Operator.bind(self, schema)

    cdef bint needs_input(self) noexcept nogil:
        return self.hungry and not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        with gil:
            return self.take(batch)

    cdef int take(self, Batch* batch) except -1:
        cdef int64_t first = 0
        cdef int64_t n
        self.expect("add_input", self.state == "open" and self.hungry and not self.finish_called)
        self.count_step()
        if self.random.random() < 0.15 and not self.refused:
            self.refused = True
            return REFUSED
        self.refused = False
        self.hungry = False
        if self.random.random() < 0.4:
            self.held.append(PyBatch.wrap(batch))
        else:
            while first < batch.n_selected:
                n = self.random.randint(0, batch.n_selected - first)
                self.held.append(part_of(batch, first, n))
                first += n
        batch_unref(batch)
        return ACCEPTED

    cdef object count_step(self):
        """Take one step. Returns True if the step is to finish."""
        self.n_steps += 1
        if self.n_steps not in self.at_step:
            return False
        todo = self.at_step[self.n_steps]
        if todo is None:
            return True
        if isinstance(todo, BaseException):
            self.state = "failed"
            raise todo
        todo()
        return False

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        with gil:
            return self.ask(out, token)

    cdef int ask(self, Batch** out, WaitToken* token) except -1:
        cdef double chance
        self.expect("get_output", self.state == "open")
        self.hungry = False
        if self.count_step():
            self.state = "finished"
            self.held = []
            return FINISHED
        chance = self.random.random()
        if chance < 0.12:
            self.wait(token)
            return BLOCKED
        if chance < 0.2:
            return YIELDED
        if self.held:
            given = <PyBatch> (self.held[0] if chance > 0.3 else part_of((<PyBatch> self.held[0]).batch, 0, 0))
            if given is self.held[0]:
                del self.held[0]
            out[0] = batch_ref((<PyBatch> given).batch)
            return OUTPUT
        if self.finish_called:
            self.state = "finished"
            return FINISHED
        self.hungry = True
        return NEEDS_INPUT

    cdef int wait(self, WaitToken* token) except -1:
        """Register the token. It may fire before this call returns, afterwards, twice, or both early and late."""
        cdef int how = self.random.randint(0, 4)
        cdef int _i
        self.blocked_reason = self.random.randint(1, len(REASON_NAMES) - 1)
        self.bell.wait(token)
        if how == 0:
            self.bell.ring()
        elif how < 3:
            with nogil:
                for _i in range(how):
                    wait_token_fire(token)
        return 0

    cdef int finish(self) except -1 nogil:
        with gil:
            self.expect("finish", self.state == "open" and not self.finish_called)
            self.finish_called = True
            self.log.append((self.address, "finish"))
        return 0

    cdef void abandon(self) noexcept nogil:
        with gil:
            self.expect("abandon", self.state in ("made", "open", "failed"))
            self.state = "abandoned"
            self.held = []
            self.log.append((self.address, "abandon"))

    cdef void close(self) noexcept nogil:
        with gil:
            self.expect("close", self.state != "closed")
            self.state = "closed"
            self.held = []
            self.log.append((self.address, "close"))
