"""An operator that evaluates expressions: one output batch at most for each input batch."""

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch
from qcore_ext.flow.operator cimport Operator


cdef class ProgramOperator(Operator):
    """Compiles its expressions for each schema. A subclass computes `pending` in add_input."""
    cdef object compile
    cdef Evaluator evaluator        # of the schema last bound
    cdef Batch* pending             # owned; the next output
    cdef bint finishing

    cdef int make_evaluator(self) except -1
