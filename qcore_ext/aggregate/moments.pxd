"""Count, mean and squared distances by group: variance without cancellation (Welford)."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.state_kind cimport Moments
from qcore_ext.data.column cimport Vector

# groups NULL: every row is of group 0. mask NULL: every row takes part. Integers are divided by `unit` (a decimal's
# 10**scale).
cdef void moments_update(
    Moments* moments, const uint32_t* groups, int64_t n, const Vector* argument, double unit, const uint8_t* mask,
) noexcept nogil
cdef void moments_merge(
    Moments* moments, const uint32_t* groups, int64_t n, const int64_t* counts, const double* means, const double* m2s,
) noexcept nogil
