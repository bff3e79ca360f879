"""Moments by group: count, mean and sum of squared distances. Welford's method avoids cancellation."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport VECTOR_ROWS, Vector
from qcore_ext.data.schema cimport PHYS_F64, PHYS_I64, PHYS_U64
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.wide cimport int128

ctypedef fused Whole:
    int64_t
    uint64_t
    int128


cdef void to_doubles(const Whole* values, int64_t n, double unit, double* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <double> values[i] / unit


cdef void moments_update(
    Moments* moments, const uint32_t* groups, int64_t n, const Vector* argument, double unit, const uint8_t* mask,
) noexcept nogil:
    cdef double converted[VECTOR_ROWS]
    cdef const double* values = converted
    cdef Moments* at
    cdef double distance
    cdef int64_t i
    if argument.phys == PHYS_F64:
        values = <const double*> argument.values
    elif argument.phys == PHYS_I64:
        to_doubles[int64_t](<const int64_t*> argument.values, n, unit, converted)
    elif argument.phys == PHYS_U64:
        to_doubles[uint64_t](<const uint64_t*> argument.values, n, unit, converted)
    else:
        to_doubles[int128](<const int128*> argument.values, n, unit, converted)
    for i in range(n):
        if is_valid(mask, i):
            at = &moments[groups[i] if groups != NULL else 0]
            at.count += 1
            distance = values[i] - at.mean
            at.mean += distance / at.count
            at.m2 += distance * (values[i] - at.mean)


cdef void moments_merge(
    Moments* moments, const uint32_t* groups, int64_t n, const int64_t* counts, const double* means, const double* m2s,
) noexcept nogil:
    cdef Moments* at
    cdef double distance, count
    cdef int64_t i
    for i in range(n):
        if counts[i] > 0:
            at = &moments[groups[i] if groups != NULL else 0]
            count = at.count + counts[i]
            distance = means[i] - at.mean
            at.m2 += m2s[i] + distance * distance * (at.count * counts[i] / count)
            at.mean += distance * (counts[i] / count)
            at.count = count
