"""Steps that a Python function computes over Arrow arrays, for the functions that have no kernel.

A second program computes the arguments of such a step. In the program that contains it, the step has no arguments: it
is like a column of the batch that is computed when it is first read. If a step reads all or all selected rows, one call
computes them together: below about 64K rows a call, waiting for the GIL makes two threads slower than one. If it reads
few rows, only those are computed. Rows that are not selected are never computed, because a row may take a second.
If the function raises for a row, the other rows are computed without it, and the row is marked.
"""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.compute.kernel cimport ArrowCall, EvaluatorFrame, Step
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column


# step.p0 is the call's index in frame.calls.
cdef int arrow_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil
# The function's result for rows[0..n) of the batch, or for all n rows if `rows` is NULL. The caller owns the reference.
# For values that registers do not have: lists, structs, maps. Raises the function's error.
cdef Column* arrow_column(
    const Step* step, EvaluatorFrame* frame, Batch* batch, const uint32_t* rows, int64_t n
) except NULL nogil
# Raise the function's error for a row of the vector.
cdef int arrow_raise(const Step* step, EvaluatorFrame* frame, int64_t row) except -1 nogil
cdef void arrow_call_drop(ArrowCall* call) noexcept nogil
