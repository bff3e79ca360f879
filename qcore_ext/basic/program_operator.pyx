"""The base class of Filter and Project: an operator that evaluates expressions."""

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.flow.operator cimport FINISHED, NEEDS_INPUT, OUTPUT, Operator
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.wait_token cimport WaitToken


cdef class ProgramOperator(Operator):
    """Evaluates a program over each batch.

    Parameters
    ----------
    name : str
        Class of operator, for users.
    node_id : str
    query_memory : Account
    compile : callable
        Takes a data.schema.Schema and returns the Program for it. Called at the first batch and at every new schema.
    """

    def __init__(self, str name, str node_id, Account query_memory, compile):
        Operator.__init__(self, name, node_id, query_memory)
        self.compile = compile

    def __dealloc__(self):
        batch_unref(self.pending)

    cdef int make_evaluator(self) except -1:
        self.evaluator = Evaluator(self.compile(Schema.wrap(self.input_schema)), self.memory)
        self.evaluator.count_in(&self.stats)
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        self.set_input_schema(schema)
        with gil:
            self.make_evaluator()
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return self.pending == NULL and not self.finishing

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
