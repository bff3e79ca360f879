"""Looking keys up in join tables, in the best instruction set of the processor."""

from libc.stdint cimport int64_t

cdef extern from "native/probe.h" nogil:
    const ProbeKernels* qc_probe()
    const ProbeKernels* qc_probe_level(int level)

cdef const ProbeKernels* chosen = qc_probe()


cdef const ProbeKernels* probe_kernels() noexcept nogil:
    return chosen


def use_level(int64_t level):
    """Use the kernels of x86-64 level 2, 3 or 4 from now on; False when the processor has not got it. For tests."""
    global chosen
    cdef const ProbeKernels* kernels = qc_probe_level(<int> level)
    if kernels == NULL:
        return False
    chosen = kernels
    return True
