"""A compiled set of expressions.

A Program is made once for an input schema by qcore (which knows names and types) and is immutable: drivers share it.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.compute.kernel cimport EvaluatorFrame, Register, Step
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Buffer, Owner


ctypedef struct Output:
    # One expression: its register, and what is needed to fill it.
    int32_t register
    int32_t column              # a plain column reference: its position; else -1
    int32_t n_needed
    int32_t* needed             # steps in order, the register's own last
    bint is_nested              # lists, structs and maps that an arrow call makes: no register holds them
    bint makes_text             # views that point into columns, the arena or the program's constants

cdef class Program:
    cdef CSchema* input_schema      # owned
    cdef CSchema* output_schema     # owned; one field an expression
    cdef Step* steps
    cdef int32_t n_steps
    cdef DataType* types            # of the steps
    cdef Output* outputs
    cdef int32_t n_outputs
    cdef bint makes_nested          # any of them is nested and computed
    cdef int32_t* needed            # steps of all computed outputs that have registers together, in order
    cdef int32_t n_needed
    cdef Register* registers        # constants filled in, the rest zero
    cdef Buffer* constants          # their values; NULL when there are none
    cdef Owner* constants_heap      # the bytes of their strings; NULL when there are none
    cdef Column** constant_columns  # per step, borrowed from constants_batch
    cdef PyBatch constants_batch
    cdef readonly list arrow_calls  # (Program of the arguments, function) by the steps' p0
    cdef list blocks                # what the C pointers above point into
    cdef int32_t* text_columns      # positions of the string columns that are read
    cdef int32_t n_text_columns

    cdef void* allocate(self, int64_t size) except NULL
    cdef int load_constants(self, list steps, object constants) except -1
    cdef int bind_step(self, int32_t i, str name, tuple args, dict options) except -1
    cdef int bind_outputs(self, list outputs) except -1


# The kernel of steps that load a column of the batch, and of those whose register the program has filled.
cdef int load_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil
cdef int constant_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil
