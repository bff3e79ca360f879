"""The evaluator: runs a program over the batches of one operator, for projections, selections and vectors.

An evaluator owns registers of VECTOR_ROWS canonical values, which stay in the first-level cache.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.compute.kernel cimport EvaluatorFrame, Register
from qcore_ext.compute.program cimport Program
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column, Vector
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner
from qcore_ext.ground.stats cimport OperatorStats


ctypedef struct Conjunct:
    # Measurements of one expression of select(). They are halved after each batch.
    double nanos
    double rows_in
    double rows_out


cdef class Evaluator:
    cdef readonly Program program
    cdef MemoryAccount* account     # owned
    cdef Buffer* block              # owned; has the arrays of the frame and of the evaluator
    cdef EvaluatorFrame frame
    cdef list argument_evaluators   # one for each arrow call
    cdef int64_t n_calls
    cdef uint32_t* done             # for each step the generation for which it was last run
    cdef uint32_t generation        # the number of the current vector
    cdef Conjunct* conjuncts
    cdef int32_t* order             # the conjuncts, by the cost for each row that they remove
    cdef uint8_t* mask
    cdef uint32_t* rows
    cdef bint leaves_failing        # select raises no error of a row: the rows of a vector with one are all left

    cdef int run(self, const int32_t* steps, int64_t n_steps) except -1 nogil
    cdef void aim(self, Batch* batch, int64_t start, const uint32_t* rows, int64_t n) noexcept nogil
    cdef void drop_arena(self) noexcept nogil
    cdef void drop_calls(self) noexcept nogil
    cdef void count_in(self, OperatorStats* stats) noexcept nogil
    cdef int raise_row(self, uint32_t error, int64_t row) except -1 nogil
    cdef int64_t register_bytes(self, int64_t i) noexcept nogil
    cdef int check(self, const Register* register) except -1 nogil
    cdef int check_selected(self, const Register* register, Batch* batch) except -1 nogil
    cdef Owner* heap(self, Batch* batch) except NULL nogil
    cdef int fill(self, Batch* batch, const uint32_t* rows, int64_t n, void* writers) except -1 nogil
    cdef int compute(self, Batch* batch, const uint32_t* rows, int64_t n, Batch* out) except -1 nogil
    cdef Column* constant_column(self, int32_t output, int64_t n) except NULL nogil
    cdef int pass_columns(self, Batch* batch, const uint32_t* rows, int64_t n, Batch* out) except -1 nogil
    cdef void reorder(self) noexcept nogil
    cdef int64_t select_vector(
        self, Batch* batch, int64_t start, const uint32_t* rows, int64_t n, uint32_t* out,
    ) except -1 nogil
    cdef int64_t select_failing(
        self, Batch* batch, int64_t start, const uint32_t* rows, int64_t n, uint32_t* out,
    ) except -1 nogil

    # Make a batch with one column for each expression. Plain column references are passed on without a copy. The output
    # has the input's selection if many rows are selected. Otherwise it has only the selected rows.
    cdef int project(self, Batch* batch, Batch** out) except -1 nogil
    # The program is a conjunction of boolean expressions. Find the selected rows of `batch` for which all are true.
    # They are written to a new buffer of uint32, in ascending order. Returns their number. *selection is NULL if no row
    # or all selected rows are found.
    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil
    # Compute all expressions for n <= VECTOR_ROWS selected rows: the positions start..start+n of the selection, where
    # start is a multiple of VECTOR_ROWS. The canonical vectors outs[0..n_expressions) are valid until the next call. A
    # decimal of more than 18 digits may be PHYS_I64 if the values of the vector fit.
    cdef int load(self, Batch* batch, int64_t start, int64_t n, Vector* outs) except -1 nogil
    # The same for n rows of the batch from `first` on, a multiple of 8, selected or not. Only errors of selected rows
    # are raised. Values of the others may be any.
    cdef int load_all(self, Batch* batch, int64_t first, int64_t n, Vector* outs) except -1 nogil
    cdef int load_outputs(self, Vector* outs, Batch* selected_of) except -1 nogil
    # Free all buffers. The evaluator cannot be used afterwards.
    cdef void close(self) noexcept nogil
