"""A program: expressions compiled for one input schema.

qcore, which knows names and types, makes a program once for an input schema. It is immutable, and drivers share it.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.compute.kernel cimport EvaluatorFrame, Register, Step
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Buffer, Owner


ctypedef struct Output:
    # One expression: its register, and the steps that fill it.
    int32_t register
    int32_t column              # position of the column of a plain column reference; otherwise -1
    int32_t n_needed
    int32_t* needed             # the steps in order, the register's own step last
    bint is_nested              # an arrow call computes lists, structs or maps, which no register has
    bint makes_text             # the values are views of bytes of columns, of the arena or of constants

cdef class Program:
    cdef CSchema* input_schema      # owned
    cdef CSchema* output_schema     # owned; one field for each expression
    cdef Step* steps
    cdef int32_t n_steps
    cdef DataType* types            # the type of each step
    cdef Output* outputs
    cdef int32_t n_outputs
    cdef bint makes_nested          # an output is_nested
    cdef int32_t* needed            # the steps of all outputs that have registers, in order
    cdef int32_t n_needed
    cdef Register* registers        # the registers of constants are filled, the others are zero
    cdef Buffer* constants          # owned; the values of constants; NULL if there are none
    cdef Owner* constants_heap      # owned; the bytes of constant strings; NULL if there are none
    cdef Column** constant_columns  # for each step; borrowed from constants_batch
    cdef PyBatch constants_batch
    cdef readonly list arrow_calls  # (Program of the arguments, function), indexed by the steps' p0
    cdef list blocks                # the memory of the arrays above
    cdef int32_t* text_columns      # positions of the string columns that are read
    cdef int32_t n_text_columns

    cdef void* allocate(self, int64_t size) except NULL
    cdef int load_constants(self, list steps, object constants) except -1
    cdef int bind_step(self, int32_t i, str name, tuple args, dict options) except -1
    cdef int bind_outputs(self, list outputs) except -1


# The kernel of steps that load a column of the batch, and the kernel of constants.
cdef int load_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil
cdef int constant_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil
