"""Kernels that convert text to values, and values to text."""

from qcore_ext.compute.kernel cimport Kernel
from qcore_ext.data.schema cimport DataType

# NULL if there is no such kernel.
cdef Kernel from_text_kernel(const DataType* wanted) noexcept nogil
cdef Kernel to_text_kernel(const DataType* given) noexcept nogil
