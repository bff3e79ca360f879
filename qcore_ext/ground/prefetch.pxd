"""Prefetching of cache lines that are written soon."""


cdef extern from "native/prefetch.h" nogil:
    void qc_prefetch_write(const void* address)


cdef enum:
    # Rows between the prefetch of a line and the write to it.
    PREFETCH_ROWS = 16
