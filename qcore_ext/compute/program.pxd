"""A compiled set of expressions, and the evaluator that runs it for one operator. Floor E2.

A Program is made once for an input schema by qcore (which knows names and types) and is immutable: drivers share it. An
Evaluator belongs to one operator: registers of VECTOR_ROWS canonical values that stay in the first-level caches.
"""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account, Buffer, MemoryAccount


cdef class Program:
    cdef CSchema* input_schema      # owned
    cdef CSchema* output_schema     # owned; one field an expression


cdef class Evaluator:
    cdef readonly Program program
    # A new batch, one column an expression. Plain column references pass through without a copy. Keeps the input's
    # selection when most rows are selected, else the output is compact.
    cdef int project(self, Batch* batch, Batch** out) except -1 nogil
    # The program is a conjunction: one boolean expression a conjunct. The rows of `batch` (of its selection, when it has
    # one) where all are true, ascending, into a fresh buffer of uint32. Returns their number; *selection is NULL when that
    # is 0 or all of the batch's rows.
    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil
    # Values of every expression for the n <= VECTOR_ROWS selected rows start..start+n (counted among the selected rows;
    # start a multiple of VECTOR_ROWS), canonical, into outs[0..n_expressions). Valid until the next call. A decimal of more
    # than 18 digits may come as PHYS_I64 when the vector's values fit.
    cdef int load(self, Batch* batch, int64_t start, int64_t n, Vector* outs) except -1 nogil
