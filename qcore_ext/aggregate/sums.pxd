"""Counts and sums by group, a vector at a time.

With up to GROUPING_FEW groups a vector is summed in 64 bits by the kernels of ground.grouping. With Q1's four groups a
row takes 0.8 ns a sum instead of 1.8. With more groups values are added to the sums directly. The sums have 64 bits
while their number of rows and the largest values show that none can overflow, then 128 bits.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.ground.wide cimport int128

# If groups is NULL all rows belong to group 0. If mask is NULL all rows take part.
cdef void count_rows(
    int64_t* counts, int64_t n_groups, const uint32_t* groups, int64_t n, const uint8_t* mask,
) noexcept nogil
cdef void sum_doubles(
    double* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const double* values, const uint8_t* mask,
) noexcept nogil
# `argument` is PHYS_I64, PHYS_U64 or PHYS_I128. The result is not zero if a sum has more than 38 digits.
cdef int sum_integers(
    int128* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
) noexcept nogil
# The same for 64-bit sums. `magnitude` is a bound of all sums, and is raised. Returns False, and adds nothing, if a sum
# might become too large for 64 bits.
cdef bint sum_narrow(
    int64_t* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
    uint64_t* magnitude,
) noexcept nogil
# counts[groups[i]] += values[i]
cdef void add_counts(int64_t* counts, const uint32_t* groups, int64_t n, const int64_t* values) noexcept nogil
