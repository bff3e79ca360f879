"""Numbers for the distinct values of some rows: what counting values, and finding repeated ones, goes by."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount

# The number of the value of each of n rows, uint32; equal values have the same, from 0 on in the order they are met.
cdef Buffer* value_numbers(
    Column* column, const uint32_t* rows, int64_t n, uint32_t* n_values, MemoryAccount* account,
) except NULL nogil
