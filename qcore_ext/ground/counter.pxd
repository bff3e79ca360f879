"""Counters that one thread adds to and any thread reads. A reader always sees a whole number.

An addition is a load and a store, which cost no more than a plain addition. With two writers an addition could be lost.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load, qc_store


cdef inline void counter_add(int64_t* counter, int64_t by) noexcept nogil:
    """Add to a counter. Only its one writer calls this; readers use qc_load."""
    qc_store(counter, qc_load(counter) + by)
