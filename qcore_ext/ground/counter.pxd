"""Figures that one thread adds to and any thread reads: each is seen whole.

A load and a store, which cost no more than a plain addition; with two writers, an addition could be lost.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load, qc_store


cdef inline void counter_add(int64_t* counter, int64_t by) noexcept nogil:
    """By the counter's one writer; readers use qc_load."""
    qc_store(counter, qc_load(counter) + by)
