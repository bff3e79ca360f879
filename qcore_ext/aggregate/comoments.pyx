"""Moments of pairs by group: covariance, correlation and regression without cancellation.

Rows update the moments by Welford's method, for both arguments and for the product of their distances from their means.
States are merged by Chan's method.
"""

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.ground.bitmap cimport bit_clear, is_valid


cdef void comoments_update(
    Comoments* moments, const uint32_t* groups, int64_t n, const double* ys, const double* xs, const uint8_t* mask,
) noexcept nogil:
    cdef Comoments* at
    cdef double from_y, from_x
    cdef int64_t i
    for i in range(n):
        if is_valid(mask, i):
            at = &moments[groups[i] if groups != NULL else 0]
            at.count += 1
            from_y = ys[i] - at.mean_y
            from_x = xs[i] - at.mean_x
            at.mean_y += from_y / at.count
            at.mean_x += from_x / at.count
            at.m2_y += from_y * (ys[i] - at.mean_y)
            at.m2_x += from_x * (xs[i] - at.mean_x)
            at.products += from_x * (ys[i] - at.mean_y)


cdef void comoments_merge(
    Comoments* moments, const uint32_t* groups, int64_t n, const Vector* columns,
) noexcept nogil:
    cdef const int64_t* counts = <const int64_t*> columns[0].values
    cdef const double* means_y = <const double*> columns[1].values
    cdef const double* means_x = <const double*> columns[2].values
    cdef const double* m2s_y = <const double*> columns[3].values
    cdef const double* m2s_x = <const double*> columns[4].values
    cdef const double* products = <const double*> columns[5].values
    cdef Comoments* at
    cdef double from_y, from_x, count, share
    cdef int64_t i
    for i in range(n):
        if counts[i] > 0:
            at = &moments[groups[i] if groups != NULL else 0]
            count = at.count + counts[i]
            share = counts[i] / count
            from_y = means_y[i] - at.mean_y
            from_x = means_x[i] - at.mean_x
            at.m2_y += m2s_y[i] + from_y * from_y * (at.count * share)
            at.m2_x += m2s_x[i] + from_x * from_x * (at.count * share)
            at.products += products[i] + from_x * from_y * (at.count * share)
            at.mean_y += from_y * share
            at.mean_x += from_x * share
            at.count = count


cdef void comoments_out(const Comoments* moments, int32_t column, int64_t n, char* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if column == 0:
            (<int64_t*> out)[i] = <int64_t> moments[i].count
        else:
            # The fields are in the order of the columns.
            (<double*> out)[i] = (<const double*> &moments[i])[column]


cdef inline bint is_defined(const Comoments* at, int result) noexcept nogil:
    if result == COVAR_SAMP:
        return at.count > 1
    if result == REGR_INTERCEPT or result == REGR_R2:
        return at.m2_x != 0
    return at.count > 0


cdef inline double value_of(const Comoments* at, int result) noexcept nogil:
    cdef double share
    if result == COVAR_POP:
        return at.products / at.count
    if result == COVAR_SAMP:
        return at.products / (at.count - 1)
    if result == CORR:
        # For points on a vertical or horizontal line the result is 0 / 0, NaN. Rounding may exceed 1 or -1.
        share = at.products / (sqrt(at.m2_x) * sqrt(at.m2_y))
        return 1.0 if share > 1.0 else -1.0 if share < -1.0 else share
    if result == REGR_AVGX:
        return at.mean_x
    if result == REGR_AVGY:
        return at.mean_y
    if result == REGR_SXX:
        return at.m2_x
    if result == REGR_SYY:
        return at.m2_y
    if result == REGR_SXY:
        return at.products
    if result == REGR_SLOPE:
        return at.products / at.m2_x
    if result == REGR_INTERCEPT:
        return at.mean_y - at.products / at.m2_x * at.mean_x
    if at.m2_y == 0:
        return 1.0
    return at.products / at.m2_x * (at.products / at.m2_y)


cdef void comoments_result(
    const Comoments* moments, int result, int64_t n, char* out, uint8_t* validity,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if result == REGR_COUNT:
            (<int64_t*> out)[i] = <int64_t> moments[i].count
        elif is_defined(&moments[i], result):
            (<double*> out)[i] = value_of(&moments[i], result)
        else:
            (<double*> out)[i] = 0
            bit_clear(validity, i)
