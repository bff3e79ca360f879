"""The operator contract: one for three published protocols (docs/ARCHITECTURE.md has the mapping).

An operator instance belongs to one driver. Only that driver calls it: one call at a time, from any thread, without the
GIL. Drivers share only structures that synchronise their callers: a queue, a spool, a bridge, a barrier.

The driver's side of the contract:
- `open` is called once, before anything else. `bind` is called before the first batch, and before every batch whose
  schema does not fit the schema last bound. Schemas only grow (data.widening): a new schema has the columns of the last
  one at their positions, with the same or wider types, and new columns behind them. Batches of narrower schemas are
  widened first.
- `add_input` is called only after `needs_input` answered true, and never on a source. A refused batch is offered again,
  unchanged.
- `get_output` is called only while the operator downstream needs input, and never after it answered FINISHED.
- `pause` is called on the sink when the driver leaves the thread before its end, because an operator upstream is
  blocked or the time slice is over.
- `finish` is called once, when upstream is finished. `abandon` is called once instead when the operator or the query
  stops early: the operator leaves every barrier it is part of and frees what it can. After `abandon` only `close` is
  called.
- `close` is called exactly once, also after an error. The operators of a driver are closed sink first.
- A batch of an operator whose `drift` is set is converted to the operator's output schema (flow/drift).

The operator's side:
- `get_output` answers a Poll.
  - OUTPUT: a batch is handed over. A sink never answers it.
  - NEEDS_INPUT: `needs_input` is now true. If it is not, the driver reports the operator by name.
  - BLOCKED: `token` was registered with the awaited resource, then the condition was checked again, and
    `blocked_reason` is set.
  - FINISHED: no more output comes. It may come before `finish` was called (Limit). Upstream is then abandoned.
  - YIELDED: work was done, more is left, and there is no batch yet.
- `close` and `abandon` call no other operator, allocate nothing and never fail. If a user's code raises there, they
  pass the error to `note_end`, and the task fails with it.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account, MemoryAccount
from qcore_ext.ground.stats cimport OperatorStats
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.barrier cimport Membership


cpdef enum Poll:
    OUTPUT = 1
    NEEDS_INPUT = 2
    BLOCKED = 3
    FINISHED = 4
    YIELDED = 5


cdef enum:
    REFUSED = 0
    ACCEPTED = 1


cdef class Operator:
    cdef readonly str name              # class of operator as users read it: 'HashProbe'
    cdef readonly str node_id           # plan node
    cdef readonly Account memory        # child of the query's account; every buffer the operator keeps is charged here
    cdef MemoryAccount* account         # memory.account, borrowed
    cdef OperatorStats stats            # filled by the driver
    cdef Membership membership          # in the barriers of its task
    cdef int blocked_reason             # BlockReason, valid after BLOCKED
    # Set by the constructor: calls may last until something happens outside of the engine, as they run code of the
    # application or read a stream of another library.
    cdef bint waits_inside
    cdef bint may_hold_back             # set by the driver of a sink: no operator upstream `waits_inside`
    cdef bint end_failed                # abandon or close called something that raised
    cdef object end_error               # the exception, or None; the task makes it the query's error
    cdef str end_call                   # "abandon" or "close"
    cdef CSchema* input_schema          # owned; the schema last bound, or NULL
    cdef CSchema* output_schema         # owned; set by open of a source, by bind of others
    cdef int drift                      # flow.drift.Drift: how the schemas of batches may differ from output_schema

    cdef int open(self) except -1 nogil
    cdef int bind(self, CSchema* schema) except -1 nogil
    cdef bint needs_input(self) noexcept nogil
    # ACCEPTED: the operator owns the caller's reference to batch. REFUSED: the driver keeps it.
    cdef int add_input(self, Batch* batch) except -1 nogil
    # OUTPUT: *out is a batch the caller owns.
    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil
    # A sink that holds rows back, which it may if `may_hold_back`, passes them on as far as it can without waiting.
    # `token` is that of get_output.
    cdef int pause(self, WaitToken* token) except -1 nogil
    cdef int finish(self) except -1 nogil
    cdef void abandon(self) noexcept nogil
    cdef void close(self) noexcept nogil
    # For subclasses, with the GIL: `error` was raised in abandon or close (`call`). The first error counts.
    cdef void note_end(self, object error, str call) noexcept
    # For subclasses: replace input_schema / output_schema, handling references.
    cdef void set_input_schema(self, CSchema* schema) noexcept nogil
    cdef void set_output_schema(self, CSchema* schema) noexcept nogil
