"""The drivers of one pipeline, and the sums of their counters."""

from libc.stdint cimport int64_t


cdef class Pipeline:
    """Owned by one task."""
    cdef readonly list drivers      # Driver; operators at one position do the same step of the plan
    cdef int64_t n_live             # atomic; drivers not yet closed
