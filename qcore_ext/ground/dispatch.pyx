"""The tables of kernels that exist for several instruction sets: by default the best that the processor supports."""

from libc.stdint cimport int64_t

cdef extern from "native/dispatch.h" nogil:
    ctypedef struct QcKernels:
        const char* instruction_set
        const SimdKernels* simd
        const ProbeKernels* probe
        const GroupingKernels* grouping
        const SortingKernels* sorting

    const QcKernels* qc_kernels(int level)
    const QcKernels* qc_best_kernels()

cdef const QcKernels* chosen = qc_best_kernels()


cdef const SimdKernels* simd_kernels() noexcept nogil:
    return chosen.simd


cdef const ProbeKernels* probe_kernels() noexcept nogil:
    return chosen.probe


cdef const GroupingKernels* grouping_kernels() noexcept nogil:
    return chosen.grouping


cdef const SortingKernels* sorting_kernels() noexcept nogil:
    return chosen.sorting


def instruction_set():
    """Return the name of the instruction set in use: 'baseline', 'x86-64-v3' or 'x86-64-v4'."""
    return chosen.instruction_set.decode()


def use_level(int64_t level):
    """Use the kernels of x86-64 level 2, 3 or 4 from now on. For tests.

    Returns
    -------
    bool
        False, without a change, if the processor does not support the level.
    """
    global chosen
    cdef const QcKernels* kernels = qc_kernels(<int> level)
    if kernels == NULL:
        return False
    chosen = kernels
    return True
