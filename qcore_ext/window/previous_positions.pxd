"""The previous position of each value in its partition, for distinct aggregates over frames."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

# For each position p of 0..n, uint32: one more than the last position before p, in its partition, whose row has the
# same value; 0: there is none. perm[p] is the row of `column` at p, part_begin[p] where its partition begins.
cdef Buffer* previous_positions(
    Column* column, const uint32_t* perm, const uint32_t* part_begin, int64_t n, MemoryAccount* account,
) except NULL nogil


cdef inline bint stands_before(
    const uint32_t* previous, const uint32_t* lo, const uint32_t* hi, int64_t first, int64_t stretch, int64_t position,
) noexcept nogil:
    """Whether the row at a position, in the last of the stretches first..stretch, has the value of one before it there.
    """
    cdef int64_t earlier = <int64_t> previous[position] - 1
    cdef int64_t s
    while earlier >= <int64_t> lo[first]:
        s = stretch
        while s >= first:
            if <int64_t> lo[s] <= earlier < <int64_t> hi[s]:
                return True
            s -= 1
        # Between two stretches: it does not count.
        earlier = <int64_t> previous[earlier] - 1
    return False
