"""The loop that runs one chain of operators: a small machine that knows neither threads nor data.

A driver calls the sink first and walks upstream to the first operator that can continue. If an operator returns a
batch, the driver hands it to the next operator and continues there. A driver calls `get_output` of an operator only
while every operator downstream of it needs input.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.execution.clock cimport DriverClock
from qcore_ext.execution.schema_meeting cimport BoundSchema
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.ground.stats cimport OperatorStats
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport Operator


cpdef enum DriverAnswer:
    DRIVER_FINISHED = 1         # the sink is finished
    DRIVER_BLOCKED = 2          # an operator registered the token; run again when it fires
    DRIVER_YIELDED = 3          # the slice is over; run again when convenient
    DRIVER_STOPPED = 4          # *stop was set


ctypedef struct OperatorSlot:
    # The state of one operator in the driver.
    PyObject* operator          # Operator, or its ContractCheck; borrowed from the Driver's lists
    PyObject* drifting          # the Operator itself if its `drift` is set, else NULL; borrowed
    PyObject* drift_widener     # owned Widener of its batches; NULL until one drifted
    OperatorStats* stats        # of the operator
    Batch* pending              # owned; offered to the operator and not accepted yet
    int64_t pending_bytes
    PyObject* account           # borrowed; Account of the operator
    BoundSchema bound           # owned
    int64_t refusals            # refusals of the pending batch in a row
    bint finish_called
    bint finished               # answered FINISHED
    bint abandoned


cdef class Driver:
    """Runs one chain. One thread uses it at a time. `operators` come source first."""
    cdef readonly list operators
    cdef list checks            # ContractCheck of each operator in checked mode, else None
    cdef OperatorSlot* slots
    cdef int n_operators
    cdef WaitToken* token       # borrowed; outlives every run
    cdef MemoryAccount* query   # borrowed; the query's account if it belongs to a pool, else NULL
    cdef int64_t* stop          # borrowed; not 0: stop at the next operator boundary
    cdef bint opened
    cdef bint shut_down
    cdef bint doubled           # a turn began although the driver was not woken
    cdef bint fed               # a batch was accepted since the walk last began at the sink
    cdef bint end_failed        # abandon or close of an operator raised; take_end_error() returns the error
    cdef bint finished_early    # an operator finished before its input ended; the task wakes the other drivers
    cdef int at                 # position of the operator being called, which errors name
    cdef int64_t blocked_at     # operator that blocked, or -1; atomic, as are the next two
    cdef int64_t blocked_since
    cdef int64_t blocked_reason
    cdef int64_t n_ends         # of waits: two more for each that ended, odd while its time is charged; atomic
    cdef DriverClock clock
    cdef int64_t n_runs         # atomic
    cdef int64_t n_steps        # atomic

    # Run until the chain finishes, blocks or is stopped, or `slice_nanos` are over (0: no bound). Returns a
    # DriverAnswer.
    cdef int run(self, int64_t slice_nanos) except -1 nogil
    # Abandon unfinished operators, then close every operator, sink first. Further calls do nothing.
    cdef void shut(self) noexcept nogil
    # The operator that was called when a run raised, and the error to show for that.
    cdef Operator called_last(self)
    cdef object explain_error(self, object error)
    # The error to show for an abandon or close that raised, or None. Each error is returned once.
    cdef object take_end_error(self)
    # In checked mode, after shut: an ExecutionError for a breach of the contract by abandon or close, or None.
    cdef object violation(self)

    cdef int pause(self) except -1 nogil
    cdef int open_operators(self) except -1 nogil
    cdef int step(self, int at) except -1 nogil
    cdef int feed(self, int at) except -1 nogil
    cdef int hand_down(self, int at, Batch* batch) except -1 nogil
    cdef int offer(self, int at) except -1 nogil
    cdef int finish_at(self, int at) except -1 nogil
    cdef int block_at(self, int at) except -1 nogil
    cdef int block(self, int at, int reason) noexcept nogil
    cdef bint waits_for_memory(self, int at, int growth) except -1 nogil
    cdef void abandon_upstream(self, int below) noexcept nogil
    cdef void start_clock(self) noexcept nogil
