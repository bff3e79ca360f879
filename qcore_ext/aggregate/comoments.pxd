"""Moments of pairs by group: covariance, correlation and regression without cancellation."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.state_kind cimport Comoments
from qcore_ext.data.column cimport Vector

cpdef enum ComomentResult:
    COVAR_POP = 0
    COVAR_SAMP = 1
    CORR = 2
    REGR_COUNT = 3
    REGR_AVGX = 4
    REGR_AVGY = 5
    REGR_SXX = 6
    REGR_SYY = 7
    REGR_SXY = 8
    REGR_SLOPE = 9
    REGR_INTERCEPT = 10
    REGR_R2 = 11

# If groups is NULL all rows belong to group 0. If mask is NULL all rows take part.
cdef void comoments_update(
    Comoments* moments, const uint32_t* groups, int64_t n, const double* ys, const double* xs, const uint8_t* mask,
) noexcept nogil
# The same for rows that are states: vectors of the six columns that comoments_out writes.
cdef void comoments_merge(
    Comoments* moments, const uint32_t* groups, int64_t n, const Vector* columns,
) noexcept nogil
# Column `column` of n states. The count is int64, the other columns are doubles.
cdef void comoments_out(const Comoments* moments, int32_t column, int64_t n, char* out) noexcept nogil
# One result of n groups. REGR_COUNT is int64, the other results are doubles. A result that is not defined is null.
cdef void comoments_result(
    const Comoments* moments, int result, int64_t n, char* out, uint8_t* validity,
) noexcept nogil
