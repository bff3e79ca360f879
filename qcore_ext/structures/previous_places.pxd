"""Where in a partition a value stood before: what distinct aggregates over frames go by. Floor E3."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

# For each position p of 0..n, uint32: one more than the last position before p, in its partition, whose row has the
# same value; 0: there is none. perm[p] is the row of `column` at p, part_begin[p] where its partition begins.
cdef Buffer* previous_places(
    Column* column, const uint32_t* perm, const uint32_t* part_begin, int64_t n, MemoryAccount* account,
) except NULL nogil
