"""Kernels of comparisons and of IN lists."""

from qcore_ext.compute.kernel cimport EvaluatorFrame, Step
from qcore_ext.data.column cimport StringView

# Compare the bytes, as memcmp does. The result is -1, 0 or 1.
cdef int view_order(const StringView* a, const StringView* b) noexcept nogil
cdef bint view_equal(const StringView* a, const StringView* b) noexcept nogil

# Set step.kernel and its parameters for the operation `name`. Returns False if it is none of these operations.
cdef bint comparison_bind(Step* step, str name, dict options) except -1
