"""Figures that one thread adds to and any thread reads: each is seen whole. Floor E0.

A load and a store, which cost no more than a plain addition; with two writers, an addition could be lost.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load, qc_store


cdef inline void figure_add(int64_t* figure, int64_t by) noexcept nogil:
    """By the figure's one writer; readers use qc_load."""
    qc_store(figure, qc_load(figure) + by)
