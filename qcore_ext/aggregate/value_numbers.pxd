"""Numbers for the distinct values of some rows, for counting values and finding repeated ones."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

# The number (uint32) of the value of each of n rows. Equal values have equal numbers. Numbers count from 0, in the
# order in which values first occur.
cdef Buffer* value_numbers(
    Column* column, const uint32_t* rows, int64_t n, uint32_t* n_values, MemoryAccount* account,
) except NULL nogil
