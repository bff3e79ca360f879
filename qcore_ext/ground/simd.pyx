"""Vectorised kernels in the best instruction set of the processor."""

from libc.stdint cimport int64_t

cdef extern from "native/simd.h" nogil:
    const SimdKernels* qc_simd()
    const SimdKernels* qc_simd_level(int level)

cdef const SimdKernels* chosen = qc_simd()


cdef const SimdKernels* simd_kernels() noexcept nogil:
    return chosen


def instruction_set():
    """Name of the instruction set in use: 'baseline', 'x86-64-v3' or 'x86-64-v4'."""
    return chosen.isa.decode()


def use_level(int64_t level):
    """Use the kernels of x86-64 level 2, 3 or 4 from now on; False when the processor has not got it. For tests."""
    global chosen
    cdef const SimdKernels* kernels = qc_simd_level(<int> level)
    if kernels == NULL:
        return False
    chosen = kernels
    return True
