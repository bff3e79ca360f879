"""Drops rows of a source that fail a condition, before the source reads their other columns."""

from libc.stdint cimport int64_t

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.compute.program cimport Program
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.row_filter cimport RowFilter
from qcore_ext.data.schema cimport Schema
from qcore_ext.ground.memory cimport Account, Buffer


cdef class ConditionFilter(RowFilter):
    """Leaves the rows for which a condition is true, and those near a row for which it fails. A Filter raises errors.

    A condition that calls a function of pyarrow or of the user is not asked: such a call takes longer than reading.

    Parameters
    ----------
    columns : sequence of int
        The positions of the columns that the condition reads.
    compile : callable
        As the parameter of Filter: from a data.schema.Schema to the condition's Program for it.
    """

    def __init__(self, columns, compile):
        RowFilter.__init__(self, columns)
        self.compile = compile

    cdef bint open(self, Account memory, Schema schema) except -1:
        cdef Program program
        self.account = memory.account
        if self.compile is not None:
            program = self.compile(schema)
            self.compile = None
            if not program.arrow_calls:
                self.evaluator = Evaluator(program, memory)
                self.evaluator.leaves_failing = True
        return self.evaluator is not None

    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil:
        return self.evaluator.select(batch, selection)

    cdef void close(self) noexcept nogil:
        RowFilter.close(self)
        if self.evaluator is not None:
            self.evaluator.close()
