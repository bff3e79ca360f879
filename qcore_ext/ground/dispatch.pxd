"""The tables of kernels that exist for several instruction sets. native/dispatch.h says how one is chosen."""

from qcore_ext.ground.grouping cimport GroupingKernels
from qcore_ext.ground.probe cimport ProbeKernels
from qcore_ext.ground.simd cimport SimdKernels
from qcore_ext.ground.sorting cimport SortingKernels


cdef const SimdKernels* simd_kernels() noexcept nogil
cdef const ProbeKernels* probe_kernels() noexcept nogil
cdef const GroupingKernels* grouping_kernels() noexcept nogil
cdef const SortingKernels* sorting_kernels() noexcept nogil
