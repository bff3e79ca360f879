"""The data of kernels: steps, the registers that they fill, and the frame of one vector.

A program is a list of steps. Each step fills the register with its own number from earlier registers. A kernel
evaluates all n rows of a vector, including null rows, and raises no error for a row. If a row has no value the kernel
marks it in the register's errors, and an error is raised only if the row reaches an output. Therefore CASE, AND and OR
hide the errors of arguments that they do not choose, and a kernel need not know which rows are used.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, VectorScratch
from qcore_ext.data.schema cimport PHYS_I64, PHYS_I128, DataType
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount, OwnerList
from qcore_ext.ground.stats cimport OperatorStats
from qcore_ext.ground.wide cimport int128


cdef enum RowError:
    # The low bits of an element of Register.errors. The other bits are the step's number plus one.
    ERROR_OVERFLOW = 0
    ERROR_DIVISION_BY_ZERO = 1
    ERROR_NOT_CONVERTIBLE = 2
    ERROR_ARGUMENT = 3
    ERROR_KIND_BITS = 2

cdef enum StepFlag:
    STEP_STRICT = 1             # a null argument makes the row null; frame_prepare sets the validity
    STEP_OWN_ERRORS = 2         # the kernel decides which errors of its arguments remain


ctypedef struct Register:
    uint8_t phys                # a decimal may be PHYS_I64 or PHYS_I128 for any number of digits
    uint8_t is_constant         # all rows are equal, and all VECTOR_ROWS rows are filled
    uint8_t is_measured         # `bound` was computed from values, not only from the type
    const void* values
    const uint8_t* validity     # bit i is 1 if row i is not null; NULL: no nulls
    const uint16_t* errors      # for each row 0 or (1 + step) << ERROR_KIND_BITS | RowError; NULL: no errors
    uint64_t bound              # for PHYS_I64: the values' magnitudes are at most this
    char* own_values            # space for VECTOR_ROWS values of the step's type
    uint8_t* own_validity
    Buffer* own_errors          # owned; NULL before the first error

ctypedef struct ArrowCall:
    # A step's function over Arrow arrays (arrow_call.pxd) and its last result.
    PyObject* arguments         # borrowed; an Evaluator that computes the arguments
    PyObject* function          # borrowed; from a PyBatch of the arguments to a batch of one column
    Batch* batch                # owned; the batch that `column` was computed for
    Column* column              # owned; NULL if the function fails for some row of the batch
    VectorScratch* scratch      # borrowed

ctypedef struct EvaluatorFrame:
    # The current vector of a batch, and the registers of its steps.
    Register* registers
    int64_t n                   # number of rows
    Batch* batch
    int64_t start               # the first row, if `rows` is NULL
    const uint32_t* rows
    MemoryAccount* account
    Arena* arena                # strings that steps have made; NULL before the first
    OwnerList* heaps            # heaps of the results of arrow calls; NULL before the first
    ArrowCall* calls            # indexed by the steps' p0
    OperatorStats* stats        # where arrow calls are counted; NULL if they are not
    char* wide_a                # scratch for VECTOR_ROWS values of 128 bits
    char* wide_b                # scratch for VECTOR_ROWS values of 128 bits
    uint8_t* masks[4]           # scratch of VECTOR_ROWS + 64 bytes each

cdef struct Step

ctypedef int (*Kernel)(const Step* step, EvaluatorFrame* frame) except -1 nogil

cdef struct Step:
    Kernel kernel
    int32_t id                  # number of the step and of its register
    int32_t flags               # StepFlag
    int32_t n_args
    int32_t* args               # numbers of the arguments' registers
    DataType type
    DataType* arg_types
    int64_t p0                  # parameters of the kernel
    int64_t p1
    uint64_t bound              # the largest magnitude of a value of the type
    void* data                  # a block of struct_new that the program frees, or NULL
    const char* name            # the function's name, for users


cdef inline Register* arg(const Step* step, EvaluatorFrame* frame, int i) noexcept nogil:
    """The register of argument i."""
    qc_check(0 <= i < step.n_args, b"an argument is one of the step's arguments")
    return &frame.registers[step.args[i]]


cdef inline Register* result(const Step* step, EvaluatorFrame* frame) noexcept nogil:
    """The register of the step."""
    return &frame.registers[step.id]


# Mark a row as failed, unless it is null.
cdef int frame_fail(EvaluatorFrame* frame, const Step* step, int64_t row, RowError kind) except -1 nogil
# Mark a row whose value cannot be converted: as null for try_cast (step.p1 is 1), otherwise as failed.
cdef int frame_refuse(EvaluatorFrame* frame, const Step* step, int64_t row) except -1 nogil
# Make the validity of the step's register writable, and return it.
cdef uint8_t* frame_validity(EvaluatorFrame* frame, const Step* step) noexcept nogil
cdef Arena* frame_arena(EvaluatorFrame* frame) except NULL nogil
# Initialise the step's register. By `flags` its validity is the AND of the arguments' validities, and its errors are
# the union of the arguments' errors.
cdef int frame_prepare(EvaluatorFrame* frame, const Step* step) except -1 nogil
cdef int frame_merge_errors(EvaluatorFrame* frame, const Step* step) except -1 nogil
# Add the errors of `source` to those of the step's register, in the rows of `mask`, or in all rows if it is NULL. A row
# that has an error keeps it.
cdef int frame_add_errors(
    EvaluatorFrame* frame, const Step* step, const uint16_t* source, const uint8_t* mask,
) except -1 nogil
# Write the validity of a register's rows as bytes 0 or 1 to `mask`, and return it.
cdef const uint8_t* frame_valid_mask(EvaluatorFrame* frame, const Register* source, uint8_t* mask) noexcept nogil
# Set `bound` to the largest magnitude of the register's values.
cdef void measure(Register* register, int64_t n) noexcept nogil
# The 128-bit values of a register of integers or decimals. If the register has no 128-bit values they are written to
# `scratch`.
cdef const int128* widen_register(const Register* register, int64_t n, char* scratch) noexcept nogil
# An integer or decimal as a 128-bit integer.
cdef int128 integer_at(const Register* register, int64_t row) noexcept nogil
# Store an integer as a value of physical type `phys`. Returns False if it does not fit.
cdef bint store_integer(uint8_t phys, char* values, int64_t row, int128 value) noexcept nogil
# A value of the register as text for an error message.
cdef str text_at(const Register* register, const DataType* type, int64_t row)
