"""Kernels of comparisons and of IN lists."""

from qcore_ext.compute.kernel cimport EvaluatorFrame, Step
from qcore_ext.data.column cimport StringView

# -1, 0 or 1 as memcmp orders the bytes.
cdef int view_order(const StringView* a, const StringView* b) noexcept nogil
cdef bint view_equal(const StringView* a, const StringView* b) noexcept nogil

# Fill step.kernel and its parameters for the operation `name`; False when it is none of these.
cdef bint comparison_bind(Step* step, str name, dict options) except -1
