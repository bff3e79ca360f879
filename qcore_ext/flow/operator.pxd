"""The operator contract: one for three published protocols (docs/ARCHITECTURE.md has the mapping).

An operator instance belongs to one driver, which alone calls it, one call at a time, from any thread, without the GIL.
What drivers share lives in the structures of floor E3.

The driver's side of the contract:
- `open` once, before anything else; then `bind` before the first batch, and before every batch whose schema does not go
  into the last one bound. Schemas only grow (data.widening): a new one has the last one's columns in their places, of
  the same or wider types, and new ones behind them; batches of narrower schemas are widened first (SPEC D6).
- `add_input` only after `needs_input` answered true; never on a source. A refused batch is offered again, unchanged.
- `get_output` of an operator only while the one downstream needs input; never after it answered FINISHED.
- `finish` once, when upstream is finished. `abandon` once instead, when the operator or the query stops early: the
operator
  leaves every barrier it is part of and frees what it can. After abandon nothing but close is called.
- `close` exactly once, sink first, whatever happened before.

The operator's side:
- `get_output` answers a Poll. NEEDS_INPUT promises that needs_input is now true; anything else is reported by name,
never
  spun on. BLOCKED: `token` was registered with what is waited for, then the condition was checked again, and
  blocked_reason is set. FINISHED may come before finish was called (Limit): upstream is then abandoned. YIELD: work was
  done, more is left, nothing to hand over yet.
- A sink never answers OUTPUT.
- close and abandon call no other operator, allocate nothing and never fail. What a user's code raises there they give
  to note_end: the task fails with it.
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
    cdef bint end_failed                # abandon or close called something that raised
    cdef object end_error               # what it raised, or None; the task makes it the query's error
    cdef str end_call                   # "abandon" or "close"
    cdef CSchema* input_schema          # owned; the schema last bound, or NULL
    cdef CSchema* output_schema         # owned; set by open of a source, by bind of others

    cdef int open(self) except -1 nogil
    cdef int bind(self, CSchema* schema) except -1 nogil
    cdef bint needs_input(self) noexcept nogil
    # ACCEPTED: the operator owns the caller's reference to batch. REFUSED: the driver keeps it.
    cdef int add_input(self, Batch* batch) except -1 nogil
    # OUTPUT: *out is a batch the caller owns.
    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil
    cdef int finish(self) except -1 nogil
    cdef void abandon(self) noexcept nogil
    cdef void close(self) noexcept nogil
    # For subclasses, with the GIL: abandon or close (`call`) met this. The first one counts.
    cdef void note_end(self, object error, str call) noexcept
    # For subclasses: replace input_schema / output_schema, handling references.
    cdef void set_input_schema(self, CSchema* schema) noexcept nogil
    cdef void set_output_schema(self, CSchema* schema) noexcept nogil
