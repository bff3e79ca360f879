"""Ranking functions: numbers computed from a row's position in its partition, such as row_number and rank."""

from libc.stdint cimport int64_t, uint8_t

from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.partition_rows cimport Numbers, PartitionRows

cdef enum:
    ROW_NUMBER = 0
    RANK = 1
    DENSE_RANK = 2
    PERCENT_RANK = 3
    CUME_DIST = 4
    NTILE = 5
    PARTITION_ROWS = 6

# One number for each row, in the window's order.
cdef int compute_numbers(
    const PartitionRows* rows, int kind, int64_t* out, const MemoryAccount* account,
) except -1 nogil
# The number of each row's tile, for NTILE. Without a number of tiles it is null: `validity` has all bits set before.
cdef int compute_tiles(
    const PartitionRows* rows, const Numbers* tiles, int64_t* out, uint8_t* validity, const MemoryAccount* account,
) except -1 nogil
# One fraction for each row, for PERCENT_RANK and CUME_DIST.
cdef int compute_fractions(
    const PartitionRows* rows, int kind, double* out, const MemoryAccount* account,
) except -1 nogil
