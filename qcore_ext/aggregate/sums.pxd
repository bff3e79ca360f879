"""Counting and summing by group, a vector at a time.

Up to GROUPING_FEW groups a vector is summed in 64 bits by ground.grouping's kernels (Q1's four groups: 1.8 -> 0.8 ns a
row and sum). Values too large for that, and many groups, go straight to the 128-bit sums, which cost as little as
64-bit ones with an overflow check.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Vector
from qcore_ext.ground.wide cimport int128

# groups NULL: every row is of group 0. mask NULL: every row takes part.
cdef void count_rows(
    int64_t* counts, int64_t n_groups, const uint32_t* groups, int64_t n, const uint8_t* mask,
) noexcept nogil
cdef void sum_doubles(
    double* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const double* values, const uint8_t* mask,
) noexcept nogil
# argument: PHYS_I64, PHYS_U64 or PHYS_I128. Returns non-zero when a sum went past 38 digits.
cdef int sum_integers(
    int128* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
) noexcept nogil
# counts[groups[i]] += values[i]
cdef void add_counts(int64_t* counts, const uint32_t* groups, int64_t n, const int64_t* values) noexcept nogil
