"""Prefetching of cache lines that are read or written soon."""

from libc.stdint cimport int64_t


cdef extern from "native/prefetch.h" nogil:
    void qc_prefetch_write(const void* address)
    void qc_prefetch_range(const char* start, int64_t n)
    void qc_prefetch_stream(const void* address)


cdef enum:
    LINE_BYTES = 64             # of a cache line
    # Rows between the prefetch of a line and the write to it.
    PREFETCH_ROWS = 16
