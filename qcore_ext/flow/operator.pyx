"""The operator contract: one for three published protocols."""

from libc.string cimport memset

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.memory cimport Account, Owner, owner_ref, owner_unref
from qcore_ext.ground.stats cimport OperatorStats, stats_to_dict
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.barrier cimport Membership


cdef class Operator:
    """One step of one driver.

    Parameters
    ----------
    name : str
        Class of operator as users read it, such as 'HashProbe'.
    node_id : str
        Id of the plan node it belongs to.
    query_memory : Account
        The query's account; the operator's own becomes a child of it.
    """

    def __init__(self, str name, str node_id, Account query_memory):
        self.name = name
        self.node_id = node_id
        self.memory = Account(query_memory)
        self.account = self.memory.account
        memset(&self.stats, 0, sizeof(OperatorStats))
        memset(&self.membership, 0, sizeof(Membership))

    def __dealloc__(self):
        owner_unref(<Owner*> self.input_schema)
        owner_unref(<Owner*> self.output_schema)

    cdef int open(self) except -1 nogil:
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        self.set_input_schema(schema)
        self.set_output_schema(schema)
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return False

    cdef int add_input(self, Batch* batch) except -1 nogil:
        return REFUSED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        return FINISHED

    cdef int pause(self, WaitToken* token) except -1 nogil:
        return 0

    cdef int finish(self) except -1 nogil:
        return 0

    cdef void abandon(self) noexcept nogil:
        pass

    cdef void close(self) noexcept nogil:
        pass

    cdef void note_end(self, object error, str call) noexcept:
        if not self.end_failed:
            self.end_error = error
            self.end_call = call
            self.end_failed = True

    cdef void set_input_schema(self, CSchema* schema) noexcept nogil:
        owner_ref(<Owner*> schema)
        owner_unref(<Owner*> self.input_schema)
        self.input_schema = schema

    cdef void set_output_schema(self, CSchema* schema) noexcept nogil:
        owner_ref(<Owner*> schema)
        owner_unref(<Owner*> self.output_schema)
        self.output_schema = schema

    def stats_snapshot(self):
        """The operator's counters so far, as ground.stats describes them, with 'peak_bytes' of its memory."""
        counters = stats_to_dict(&self.stats)
        counters["peak_bytes"] = self.memory.peak_bytes
        counters["reserved_bytes"] = self.memory.reserved_bytes
        return counters

    @property
    def schema(self):
        """Schema of the output as data.schema.Schema, or None while unknown."""
        return Schema.wrap(self.output_schema) if self.output_schema != NULL else None
