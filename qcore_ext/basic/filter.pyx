"""Rows that meet a condition.

Values are not moved: the output is the input's columns with a selection.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.compute.program cimport Program
from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport column_ref
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.memory cimport Account, Buffer, Owner, buffer_unref
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, Operator


cdef class Filter(Operator):
    """Keeps the rows for which a condition is true (not false, not null).

    Parameters
    ----------
    node_id : str
    query_memory : Account
    compile : callable
        From a data.schema.Schema to the condition's Program over it; called at the first batch and at every new schema.
    """

    def __init__(self, str node_id, Account query_memory, compile):
        Operator.__init__(self, "Filter", node_id, query_memory)
        self.compile = compile

    def __dealloc__(self):
        batch_unref(self.pending)

    cdef int make_evaluator(self) except -1:
        cdef Program program = self.compile(Schema.wrap(self.input_schema))
        self.evaluator = Evaluator(program, self.memory)
        self.evaluator.count_in(&self.stats)
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        self.set_input_schema(schema)
        self.set_output_schema(schema)
        with gil:
            self.make_evaluator()
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return self.pending == NULL and not self.finishing

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef Buffer* selection = NULL
        cdef Batch* out = NULL
        cdef int32_t i
        cdef int64_t found = self.evaluator.select(batch, &selection)
        if found == batch.n_selected:
            self.pending = batch        # all of it: the caller's reference moves on
            return ACCEPTED
        if found == 0:
            batch_unref(batch)
            return ACCEPTED
        try:
            out = batch_new(batch.schema, batch.n_rows)
            for i in range(batch.n_columns):
                out.columns[i] = column_ref(batch.columns[i])
            batch_select(out, <const uint32_t*> selection.data, found, <Owner*> selection)
        finally:
            buffer_unref(selection)
        self.pending = out
        batch_unref(batch)
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.pending != NULL:
            out[0] = self.pending
            self.pending = NULL
            return OUTPUT
        return FINISHED if self.finishing else NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finishing = True
        return 0

    cdef void abandon(self) noexcept nogil:
        self.finishing = True
        batch_unref(self.pending)
        self.pending = NULL

    cdef void close(self) noexcept nogil:
        batch_unref(self.pending)
        self.pending = NULL
        if self.evaluator is not None:
            self.evaluator.close()
