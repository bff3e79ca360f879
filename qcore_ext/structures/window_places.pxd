"""Numbers that come of a row's place in its partition: row_number, rank and the like. Floor E3."""

from libc.stdint cimport int64_t

from qcore_ext.structures.window_rows cimport WindowRows

cdef enum:
    ROW_NUMBER = 0
    RANK = 1
    DENSE_RANK = 2
    PERCENT_RANK = 3
    CUME_DIST = 4
    NTILE = 5
    PARTITION_ROWS = 6

# One number a row, in the window's order; `tiles` is how many of NTILE.
cdef void place_numbers(const WindowRows* rows, int kind, int64_t tiles, int64_t* out) noexcept nogil
# PERCENT_RANK and CUME_DIST.
cdef void place_fractions(const WindowRows* rows, int kind, double* out) noexcept nogil
