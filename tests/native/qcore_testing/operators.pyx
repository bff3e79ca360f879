"""For tests: scripted operators, and a function that runs one chain of operators on the caller's thread."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from qcore_ext.data.batch cimport Batch, batch_new, batch_ref, batch_unref
from qcore_ext.data.capsule cimport PyBatch, Stream
from qcore_ext.data.schema cimport CSchema, Schema, schema_new
from qcore_ext.execution.driver cimport Driver
from qcore_ext.ground.atomic cimport qc_add, qc_cas, qc_load, qc_store
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, Mutex, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Account, Owner, account_check, owner_unref, struct_free, struct_new
from qcore_ext.ground.memory_pool cimport CMemoryPool, MemoryPool, pool_going, pool_turn
from qcore_ext.ground.stats cimport WAIT_FOR_USER
from qcore_ext.ground.status cimport raise_execution, raise_memory_limit
from qcore_ext.ground.thread_token cimport ThreadToken, thread_token_new, thread_token_wait
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_add, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add,
    wait_token_fire,
)
from qcore_ext.flow.operator cimport (
    ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, YIELDED, Operator,
)
from qcore_ext.flow.barrier cimport Barrier, barrier_join, barrier_leave

from qcore_ext.execution.task import Task

cdef enum:
    BULK = 1024


cdef class BatchSource(Operator):
    """Source of given batches.

    Parameters
    ----------
    batches : list of PyBatch
    memory : Account
    schema : Schema, optional
        Of the output; left out: the first batch's.
    """
    cdef list batches
    cdef int64_t n_given
    cdef Batch** given

    def __init__(self, list batches, Account memory, Schema schema=None):
        cdef int64_t i
        Operator.__init__(self, "BatchSource", "source", memory)
        self.batches = batches
        if schema is not None:
            self.set_output_schema(schema.schema)
        self.given = <Batch**> struct_new((len(batches) + 1) * sizeof(Batch*))
        for i in range(len(batches)):
            self.given[i] = (<PyBatch> batches[i]).batch

    def __dealloc__(self):
        struct_free(self.given)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.given[self.n_given] == NULL:
            return FINISHED
        out[0] = batch_ref(self.given[self.n_given])
        self.n_given += 1
        return OUTPUT


cdef class Collector(Operator):
    """Sink that keeps every batch."""
    cdef Batch** kept
    cdef int64_t n_kept
    cdef bint finish_called

    def __init__(self, Account memory):
        Operator.__init__(self, "Collector", "sink", memory)

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.n_kept):
            batch_unref(self.kept[i])
        free(self.kept)

    def take(self):
        """Return the batches so far as pyarrow.RecordBatch, and drop them."""
        import pyarrow

        cdef int64_t i
        taken = [pyarrow.record_batch(PyBatch.wrap(self.kept[i])) for i in range(self.n_kept)]
        for i in range(self.n_kept):
            batch_unref(self.kept[i])
        self.n_kept = 0
        return taken

    cdef bint needs_input(self) noexcept nogil:
        return not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef Batch** grown = <Batch**> realloc(self.kept, (self.n_kept + 1) * sizeof(Batch*))
        if grown == NULL:
            return raise_memory_limit(b"the machine has no memory left")
        self.kept = grown
        self.kept[self.n_kept] = batch
        self.n_kept += 1
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        return FINISHED if self.finish_called else NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0


cdef class Repeater(Operator):
    """Source that returns one batch many times.

    Parameters
    ----------
    batch : PyBatch
    n_times : int
    memory : Account
    """
    cdef PyBatch batch
    cdef int64_t n_left
    cdef int64_t n_references       # taken and not yet passed on

    def __init__(self, PyBatch batch, int64_t n_times, Account memory):
        Operator.__init__(self, "Repeater", "repeater", memory)
        self.batch = batch
        self.n_left = n_times
        self.set_output_schema(batch.batch.schema)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.n_left == 0:
            return FINISHED
        self.n_left -= 1
        # Many references are taken at once, here and in Relay, so that measurements do not contain their counting.
        if self.n_references == 0:
            self.n_references = BULK
            qc_add(&self.batch.batch.owner.references, BULK)
        self.n_references -= 1
        out[0] = self.batch.batch
        return OUTPUT

    cdef void close(self) noexcept nogil:
        qc_add(&self.batch.batch.owner.references, -self.n_references)
        self.n_references = 0


cdef class Relay(Operator):
    """Passes batches on unchanged; as a sink it drops them. Only for batches of a Repeater, which are all equal."""
    cdef Batch* held
    cdef Batch* dropped             # n_dropped references
    cdef int64_t n_dropped
    cdef bint is_sink
    cdef bint finish_called

    def __init__(self, Account memory, bint is_sink=False):
        Operator.__init__(self, "Relay", "relay", memory)
        self.is_sink = is_sink

    cdef bint needs_input(self) noexcept nogil:
        return self.held == NULL and not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if not self.is_sink:
            self.held = batch
            return ACCEPTED
        self.dropped = batch
        self.n_dropped += 1
        if self.n_dropped == BULK:
            self.drop()
        return ACCEPTED

    cdef void drop(self) noexcept nogil:
        if self.n_dropped > 0:
            qc_add(&self.dropped.owner.references, 1 - self.n_dropped)
            batch_unref(self.dropped)
            self.n_dropped = 0

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.held != NULL:
            out[0] = self.held
            self.held = NULL
            return OUTPUT
        return FINISHED if self.finish_called else NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0

    cdef void close(self) noexcept nogil:
        batch_unref(self.held)
        self.held = NULL
        self.drop()


def import_batches(source):
    """PyBatch objects of record batches, tables, streams or lists of them."""
    cdef Stream stream
    cdef Batch* batch = NULL
    cdef int more
    if isinstance(source, (list, tuple)):
        return sum(map(import_batches, source), [])
    if hasattr(source, "__arrow_c_array__"):
        return [PyBatch.from_arrow(source)]
    stream = Stream(source)
    batches = []
    while True:
        with nogil:
            more = stream.next_batch(NULL, &batch)
        if not more:
            return batches
        batches.append(PyBatch.wrap(batch))
        batch_unref(batch)


def read_stream(Stream stream, Account account):
    """PyBatch objects of all batches of a stream, charged to the account. The stream is closed."""
    cdef Batch* batch = NULL
    cdef int more
    batches = []
    while True:
        with nogil:
            more = stream.next_batch(account.account, &batch)
        if not more:
            stream.close()
            return batches
        batches.append(PyBatch.wrap(batch))
        batch_unref(batch)


def run_chain(list operators, batches=None, schema=None, double timeout=60.0, double slice_ms=10.0):
    """Run one chain to its end on this thread.

    Parameters
    ----------
    operators : list of Operator
        First the one that gets the batches. They are closed afterwards.
    batches : list, table or record batch, optional
        Objects with __arrow_c_array__ or __arrow_c_stream__. None: the first operator is a source.
    schema : object with __arrow_c_schema__, optional
        What the source declares before its first batch; left out: nothing.
    timeout : float
        Seconds before Timeout.
    slice_ms : float
        Time slice of the driver.

    Returns
    -------
    list of pyarrow.RecordBatch
        What the last operator gave.
    """
    memory = Account()
    collector = Collector(memory)
    chain = operators + [collector]
    if batches is not None:
        chain.insert(0, BatchSource(import_batches(batches), memory, Schema(schema) if schema is not None else None))
    task = Task([[chain]], slice_ms=slice_ms)
    try:
        task.run_on_caller(timeout=timeout)
    finally:
        task.cancel()
        task.settle()
    return collector.take()


cdef class FakeOperator(Operator):
    """An operator without data that follows a script.

    Parameters
    ----------
    name : str
    script : list
        What get_output answers, one entry a call: a Poll; an exception to raise; or a BlockReason inside a tuple, to
        answer BLOCKED for it. Then: FINISHED for a source and after finish, else NEEDS_INPUT.
    rest : list, optional
        A script for after finish.
    endless : Poll, optional
        What get_output answers when the script is over.
    source : bool
        Whether it is the first of its chain.
    log : object with append, optional
        Gets (name, call) for every call but needs_input.
    fail : dict, optional
        Exceptions to raise, by call: open, bind, add_input, finish.
    accepts : list of bool, optional
        What add_input answers, one entry a call, then True.
    needs_input : bool
        What needs_input answers until finish.
    relay : bool
        Whether each batch accepted is given on before the script goes on.
    rows : int
        Rows of the batches given; they have no columns.
    breaks : str, optional
        How it breaks the contract: 'no_token' (answers BLOCKED without leaving the token), 'own_state' (wakes itself by
        writing the token's state), 'other_schema' (declares one that its batches have not), 'leaves_twice' and
        'never_leaves' (a barrier), 'allocates_in_close'.
    """
    cdef str breaks
    cdef Barrier barrier
    cdef list script
    cdef list rest
    cdef bint source
    cdef readonly object log
    cdef readonly int64_t polls
    cdef dict failures
    cdef object endless
    cdef list accepts
    cdef bint hungry
    cdef bint relay
    cdef int64_t rows
    cdef Batch* held
    cdef CSchema* empty_schema
    cdef WaitList waiting
    cdef readonly bint finish_called

    def __init__(
        self, str name, list script=None, bint source=False, log=None, dict fail=None, list accepts=None,
        bint needs_input=True, bint relay=False, int64_t rows=1, list rest=None, endless=None, str breaks=None,
    ):
        Operator.__init__(self, name, f"{name}-node", Account())
        self.script = list(script or [])
        self.rest = list(rest or [])
        self.endless = endless
        self.source = source
        self.log = log if log is not None else []
        self.failures = dict(fail or {})
        self.accepts = list(accepts or [])
        self.hungry = needs_input
        self.relay = relay
        self.rows = rows
        self.empty_schema = schema_new(0)
        self.breaks = breaks
        if breaks in ("leaves_twice", "never_leaves"):
            self.barrier.n_members = 2
            barrier_join(&self.membership)
        if breaks == "other_schema":
            import pyarrow

            self.set_output_schema(Schema(pyarrow.schema({"x": pyarrow.int64()})).schema)

    def __dealloc__(self):
        batch_unref(self.held)
        owner_unref(<Owner*> self.empty_schema)
        wait_list_clear(&self.waiting)

    def wake(self):
        """Fire the tokens that blocked calls registered."""
        cdef WaitList taken
        wait_list_take(&self.waiting, &taken)
        with nogil:
            wait_list_fire(&taken)

    @property
    def is_waiting(self):
        """Whether a token is registered."""
        return self.waiting.n_tokens > 0

    cdef int note(self, str call) except -1:
        self.log.append((self.name, call))
        if call in self.failures:
            raise self.failures[call]
        return 0

    cdef int open(self) except -1 nogil:
        with gil:
            self.note("open")
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        with gil:
            self.note("bind")
        return Operator.bind(self, schema)

    cdef bint needs_input(self) noexcept nogil:
        return self.hungry and not self.finish_called and self.held == NULL

    cdef int add_input(self, Batch* batch) except -1 nogil:
        with gil:
            self.note("add_input")
            if self.accepts and not self.accepts.pop(0):
                return REFUSED
        if self.relay:
            self.held = batch
        else:
            batch_unref(batch)
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef int answer
        if self.held != NULL:
            out[0] = self.held
            self.held = NULL
            return OUTPUT
        with gil:
            self.note("get_output")
            self.polls += 1
            answer = self.next_answer()
            if answer == BLOCKED and self.breaks != "no_token":
                wait_list_add(&self.waiting, token)
            if answer == YIELDED and self.breaks == "own_state":
                token.state = 0
                wait_token_fire(token)
        if answer == OUTPUT:
            out[0] = batch_new(self.empty_schema, self.rows)
        return answer

    cdef int next_answer(self) except -1:
        if not self.script and self.endless is not None:
            return self.endless
        if not self.script:
            return FINISHED if self.source or self.finish_called else NEEDS_INPUT
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, tuple):
            self.blocked_reason = answer[0]
            return BLOCKED
        return answer

    cdef int finish(self) except -1 nogil:
        with gil:
            self.note("finish")
            self.script = self.rest
        self.finish_called = True
        return 0

    cdef void abandon(self) noexcept nogil:
        with gil:
            self.note("abandon")

    cdef void close(self) noexcept nogil:
        with gil:
            self.note("close")
            if self.breaks == "leaves_twice":
                barrier_leave(&self.barrier, &self.membership)
                barrier_leave(&self.barrier, &self.membership)
            if self.breaks == "allocates_in_close":
                struct_free(struct_new(8))


def poll(Driver driver, int at):
    """Call get_output of operator `at` as its driver does."""
    cdef Batch* batch = NULL
    cdef int answer = (<Operator> driver.slots[at].operator).get_output(&batch, driver.token)
    batch_unref(batch)
    return answer


def run_driver(Driver driver):
    """Give a driver a turn without a wake-up."""
    return driver.run(0)


cdef class Nap:
    """Lets a thread sleep in the turn of a driver whose query shares `memory`."""
    cdef MemoryPool memory
    cdef ThreadToken* token

    def __init__(self, MemoryPool memory):
        self.memory = memory
        self.token = thread_token_new()

    def __dealloc__(self):
        owner_unref(<Owner*> self.token)

    def sleep(self):
        """Sleep until `fire` is called."""
        cdef CMemoryPool* outer = pool_turn(self.memory.pool)
        pool_going(self.memory.pool, 1)
        try:
            thread_token_wait(self.token, -1, False)
        finally:
            pool_turn(outer)
            pool_going(self.memory.pool, -1)

    @property
    def asleep(self):
        """Whether a thread sleeps and was not woken."""
        cdef bint asleep
        mutex_lock(&self.token.mutex)
        asleep = self.token.asleep != NULL
        mutex_unlock(&self.token.mutex)
        return asleep

    def fire(self):
        """Wake the thread. Returns the number of running drivers of the pool. The woken one needs the GIL to end."""
        wait_token_fire(&self.token.token)
        return qc_load(&self.memory.pool.n_going)


cdef class Resource:
    """A resource that many drivers wait for and any thread makes ready, for stress tests."""
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

    def fire_until(self, stopped):
        """Wake waiting drivers repeatedly, until the list `stopped` is not empty."""
        cdef WaitList taken
        cdef int _i
        while not stopped:
            with nogil:
                for _i in range(64):
                    mutex_lock(&self.mutex)
                    wait_list_take(&self.waiting, &taken)
                    mutex_unlock(&self.mutex)
                    wait_list_fire(&taken)


cdef class Sleeper(Operator):
    """Source that blocks `n_waits` times on a resource. It registers the token before it checks the resource again.

    Raises ExecutionError when two threads run it at once.
    """
    cdef Resource resource
    cdef readonly int64_t n_left
    cdef int64_t inside

    def __init__(self, Resource resource, int64_t n_waits):
        Operator.__init__(self, "Sleeper", "sleeper", Account())
        self.resource = resource
        self.n_left = n_waits

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if not qc_cas(&self.inside, 0, 1):
            return raise_execution(b"two threads run one driver")
        self.n_left -= 1
        if self.n_left > 0:
            self.resource.wait(token)
        self.blocked_reason = WAIT_FOR_USER
        if not qc_cas(&self.inside, 1, 0):
            return raise_execution(b"two threads run one driver")
        return BLOCKED if self.n_left > 0 else FINISHED


cdef class LongCall(Operator):
    """Source without rows. Its only call lasts until `end` is called, and calls account_check as long calls do."""
    cdef readonly int64_t n_calls       # calls that have begun
    cdef int64_t inside                 # atomic, as is ended
    cdef int64_t ended

    def __init__(self, Account memory):
        Operator.__init__(self, "LongCall", "long-call", memory)

    @property
    def is_inside(self):
        """Whether the call has begun and not ended."""
        return qc_load(&self.inside) != 0

    def end(self):
        """Let the call return."""
        qc_store(&self.ended, 1)

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        self.n_calls += 1
        qc_store(&self.inside, 1)
        try:
            while qc_load(&self.ended) == 0:
                account_check(self.account)
        finally:
            qc_store(&self.inside, 0)
        return FINISHED
