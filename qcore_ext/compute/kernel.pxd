"""What kernels work on: registers of one vector, the frame they stand in, and the steps that fill them.

A program is a list of steps, each filling the register of its own number from earlier ones. Kernels evaluate all n rows
densely, null rows included, and never raise for a row: a row whose value cannot be had is marked in the register's
errors, and raises only if it reaches an output. So CASE, AND and OR hide the errors of what they do not choose, and a
kernel's fast path need not know which rows count.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, VectorScratch
from qcore_ext.data.schema cimport PHYS_I64, PHYS_I128, DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount, OwnerList
from qcore_ext.ground.stats cimport OperatorStats
from qcore_ext.ground.wide cimport int128


cdef enum RowError:
    # The low bits of an entry of Register.errors; the rest is 1 + the step's number.
    ERROR_OVERFLOW = 0
    ERROR_DIVISION_BY_ZERO = 1
    ERROR_NOT_CONVERTIBLE = 2
    ERROR_ARGUMENT = 3
    ERROR_KIND_BITS = 2

cdef enum StepFlag:
    STEP_STRICT = 1             # a null argument makes the row null: validity is prepared before the kernel runs
    STEP_OWN_ERRORS = 2         # the kernel decides which errors of its arguments survive


ctypedef struct Register:
    uint8_t phys                # of a decimal: PHYS_I64 or PHYS_I128, whatever its declared digits
    uint8_t is_constant         # every row is row 0 (and all VECTOR_ROWS rows are filled)
    uint8_t is_measured         # bound follows from values, not only from the type
    const void* values
    const uint8_t* validity     # bit i = row i; NULL: no nulls
    const uint16_t* errors      # a row: 0 or (1 + step) << ERROR_KIND_BITS | RowError; NULL: none
    uint64_t bound              # PHYS_I64: no magnitude of a value is larger
    char* own_values            # room for VECTOR_ROWS values of the step's type
    uint8_t* own_validity
    Buffer* own_errors          # NULL until needed

ctypedef struct ArrowCall:
    # A step's function over Arrow arrays (arrow_call.pxd) and what it last gave.
    PyObject* arguments         # an Evaluator of theirs; borrowed
    PyObject* function          # from their PyBatch to a batch of one column; borrowed
    Batch* batch                # the batch that `column` was computed for; owned
    Column* column              # owned; NULL when some row of the batch fails
    VectorScratch* scratch      # borrowed

ctypedef struct EvaluatorFrame:
    # One vector of one batch on its way through the steps.
    Register* registers
    int64_t n
    Batch* batch
    int64_t start               # first row, when rows is NULL
    const uint32_t* rows
    MemoryAccount* account
    Arena* arena                # strings made by the steps; NULL until needed
    OwnerList* heaps            # and those of columns that arrow calls gave; NULL until needed
    ArrowCall* calls            # by their steps' p0
    OperatorStats* stats        # where arrow calls are counted; NULL: nowhere
    char* wide_a                # room for VECTOR_ROWS 128-bit values each
    char* wide_b
    uint8_t* masks[4]           # room for VECTOR_ROWS + 64 bytes each, for a kernel's own use

cdef struct Step

ctypedef int (*Kernel)(const Step* step, EvaluatorFrame* frame) except -1 nogil

cdef struct Step:
    Kernel kernel
    int32_t id                  # its register
    int32_t flags               # StepFlag
    int32_t n_args
    int32_t* args               # registers
    DataType type
    DataType* arg_types
    int64_t p0                  # the kernel's own parameters
    int64_t p1
    uint64_t bound              # of magnitudes, from the type
    void* data                  # one block from struct_new, or NULL; the program frees it
    const char* name            # the function as users know it


cdef inline Register* arg(const Step* step, EvaluatorFrame* frame, int i) noexcept nogil:
    """Register of argument i."""
    return &frame.registers[step.args[i]]


cdef inline Register* result(const Step* step, EvaluatorFrame* frame) noexcept nogil:
    """The step's own register."""
    return &frame.registers[step.id]


# Mark row as failed; null rows are passed over.
cdef int frame_fail(EvaluatorFrame* frame, const Step* step, int64_t row, RowError kind) except -1 nogil
# Row `row` cannot be converted: null for a try_cast (step.p1), else an error.
cdef int frame_refuse(EvaluatorFrame* frame, const Step* step, int64_t row) except -1 nogil
# Writable validity of the step's register, starting from what it has.
cdef uint8_t* frame_validity(EvaluatorFrame* frame, const Step* step) noexcept nogil
cdef Arena* frame_arena(EvaluatorFrame* frame) except NULL nogil
# validity = AND, errors = union of the arguments', as `flags` ask.
cdef int frame_prepare(EvaluatorFrame* frame, const Step* step) except -1 nogil
cdef int frame_merge_errors(EvaluatorFrame* frame, const Step* step) except -1 nogil
# Errors of `step` := rows of `source`'s errors where mask is set (NULL: everywhere) added to those it has.
cdef int frame_add_errors(
    EvaluatorFrame* frame, const Step* step, const uint16_t* source, const uint8_t* mask,
) except -1 nogil
# Bytes 0 or 1: the row is valid.
cdef const uint8_t* frame_valid_mask(EvaluatorFrame* frame, const Register* source, uint8_t* room) noexcept nogil
# Make `bound` the largest magnitude among the register's values.
cdef void measure(Register* register, int64_t n) noexcept nogil
# 128-bit values of an integer or decimal register; `room` is used unless it has them already.
cdef const int128* widened(const Register* register, int64_t n, char* room) noexcept nogil
# Any integer or decimal as a 128-bit one.
cdef int128 integer_at(const Register* register, int64_t row) noexcept nogil
# Its counterpart: value into row `row` of values of physical type `phys`; False when it does not fit.
cdef bint store_integer(uint8_t phys, char* values, int64_t row, int128 value) noexcept nogil
# Values of the register as a Python reader would write them.
cdef str text_at(const Register* register, const DataType* type, int64_t row)
