"""Grouping and summing by group, in the best instruction set of the processor."""

from libc.stdint cimport int64_t

cdef extern from "native/grouping.h" nogil:
    const GroupingKernels* qc_grouping()
    const GroupingKernels* qc_grouping_level(int level)

cdef const GroupingKernels* chosen = qc_grouping()


cdef const GroupingKernels* grouping_kernels() noexcept nogil:
    return chosen


def use_level(int64_t level):
    """Use the kernels of x86-64 level 2, 3 or 4 from now on; False when the processor has not got it. For tests."""
    global chosen
    cdef const GroupingKernels* kernels = qc_grouping_level(<int> level)
    if kernels == NULL:
        return False
    chosen = kernels
    return True
