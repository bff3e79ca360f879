"""The previous position of each value in its partition, for distinct aggregates over frames."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

# For each position p of 0..n one more (uint32) than the last position before p, in its partition, with the same value;
# 0 if there is none. perm[p] is the row of `column` at position p, and part_begin[p] the begin of its partition.
cdef Buffer* previous_positions(
    Column* column, const uint32_t* perm, const uint32_t* part_begin, int64_t n, MemoryAccount* account,
) except NULL nogil


cdef inline bint occurs_before(
    const uint32_t* previous, const uint32_t* lo, const uint32_t* hi, int64_t first, int64_t stretch, int64_t position,
) noexcept nogil:
    """Whether the value at a position of the last of the stretches first..stretch occurs before it in them."""
    cdef int64_t earlier = <int64_t> previous[position] - 1
    cdef int64_t s
    while earlier >= <int64_t> lo[first]:
        s = stretch
        while s >= first:
            if <int64_t> lo[s] <= earlier < <int64_t> hi[s]:
                return True
            s -= 1
        # The earlier position is between two stretches.
        earlier = <int64_t> previous[earlier] - 1
    return False
