"""Kernels that sort words. native/sorting.h documents each; ground.dispatch gives the table."""

from libc.stdint cimport int64_t, uint64_t


cdef extern from "native/sorting.h" nogil:
    ctypedef struct SortingKernels:
        void (*sort_words)(uint64_t* words, int64_t n) noexcept nogil
