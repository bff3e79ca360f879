"""Kernels from text to values and back."""

from qcore_ext.compute.kernel cimport Kernel
from qcore_ext.data.schema cimport DataType

# NULL when there is none.
cdef Kernel from_text_kernel(const DataType* wanted) noexcept nogil
cdef Kernel to_text_kernel(const DataType* given) noexcept nogil
