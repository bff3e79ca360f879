"""Moments by group: count, mean and sum of squared distances. Welford's method avoids cancellation."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.state_kind cimport Moments
from qcore_ext.data.column cimport Vector

# If groups is NULL all rows belong to group 0. If mask is NULL all rows take part. Integers are divided by `unit`,
# which is 10**scale for decimals.
cdef void moments_update(
    Moments* moments, const uint32_t* groups, int64_t n, const Vector* argument, double unit, const uint8_t* mask,
) noexcept nogil
cdef void moments_merge(
    Moments* moments, const uint32_t* groups, int64_t n, const int64_t* counts, const double* means, const double* m2s,
) noexcept nogil
