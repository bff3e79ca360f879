"""Keeps the rows that meet a condition.

Values are not moved: the output has the input's columns and a selection.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.basic.program_operator cimport ProgramOperator
from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport column_ref
from qcore_ext.data.schema cimport CSchema
from qcore_ext.flow.operator cimport ACCEPTED
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Account, Buffer, Owner, buffer_unref


cdef class Filter(ProgramOperator):
    """Keeps the rows for which a condition is true (not false, not null).

    Parameters
    ----------
    node_id : str
    query_memory : Account
    compile : callable
        Takes a data.schema.Schema and returns the condition's Program for it.
    """

    def __init__(self, str node_id, Account query_memory, compile):
        ProgramOperator.__init__(self, "Filter", node_id, query_memory, compile)

    cdef int bind(self, CSchema* schema) except -1 nogil:
        self.set_output_schema(schema)
        return ProgramOperator.bind(self, schema)

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef Buffer* selection = NULL
        cdef Batch* out = NULL
        cdef int32_t i
        cdef int64_t found = self.evaluator.select(batch, &selection)
        qc_check(found >= 0 and found <= batch.n_selected, b"a filter keeps selected rows")
        if found == batch.n_selected:
            self.pending = batch        # all rows: the caller's reference is passed on
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
