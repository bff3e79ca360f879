"""Computes one column for each expression."""

from qcore_ext.basic.program_operator cimport ProgramOperator
from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.schema cimport CSchema
from qcore_ext.flow.operator cimport ACCEPTED
from qcore_ext.ground.memory cimport Account


cdef class Project(ProgramOperator):
    """Computes one column for each expression of a program.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    compile : callable
        Takes a data.schema.Schema and returns the expressions' Program for it.
    """

    def __init__(self, str node_id, Account query_memory, compile):
        ProgramOperator.__init__(self, "Project", node_id, query_memory, compile)

    cdef int bind(self, CSchema* schema) except -1 nogil:
        ProgramOperator.bind(self, schema)
        self.set_output_schema(self.evaluator.program.output_schema)
        return 0

    cdef int add_input(self, Batch* batch) except -1 nogil:
        self.evaluator.project(batch, &self.pending)
        batch_unref(batch)
        return ACCEPTED
