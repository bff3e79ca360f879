"""Runs a program over batches, for one operator: projections, selections, vectors for a consumer.

An Evaluator owns registers of VECTOR_ROWS canonical values, which stay in the first-level caches.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.compute.kernel cimport EvaluatorFrame, Register
from qcore_ext.compute.program cimport Program
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column, Vector
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner
from qcore_ext.ground.stats cimport OperatorStats


ctypedef struct Conjunct:
    # What select has learnt of one expression, halved with every batch.
    double nanos
    double rows_in
    double rows_out


cdef class Evaluator:
    cdef readonly Program program
    cdef MemoryAccount* account     # owned
    cdef Buffer* block              # everything the frame points at
    cdef EvaluatorFrame frame
    cdef list argument_evaluators   # of the arrow calls
    cdef int64_t n_calls
    cdef uint32_t* done             # per step the vector it was last run for
    cdef uint32_t generation
    cdef Conjunct* conjuncts
    cdef int32_t* order             # conjuncts, cheapest way to an empty selection first
    cdef uint8_t* mask
    cdef uint32_t* rows

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

    # A new batch, one column an expression. Plain column references pass through without a copy. Keeps the input's
    # selection when most rows are selected, else the output is compact.
    cdef int project(self, Batch* batch, Batch** out) except -1 nogil
    # The program is a conjunction: one boolean expression a conjunct. The rows of `batch` (of its selection, when it
    # has one) where all are true, ascending, into a fresh buffer of uint32. Returns their number; *selection is NULL
    # when that is 0 or all of the batch's rows.
    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil
    # Values of every expression for the n <= VECTOR_ROWS selected rows start..start+n (counted among the selected rows;
    # start a multiple of VECTOR_ROWS), canonical, into outs[0..n_expressions). Valid until the next call. A decimal of
    # more than 18 digits may come as PHYS_I64 when the vector's values fit.
    cdef int load(self, Batch* batch, int64_t start, int64_t n, Vector* outs) except -1 nogil
    # Free all buffers; nothing may be evaluated after.
    cdef void close(self) noexcept nogil
