"""Counts and sums by group, a vector at a time."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.data.column cimport VECTOR_ROWS, Vector
from qcore_ext.data.schema cimport PHYS_I64, PHYS_U64
from qcore_ext.ground.bitmap cimport bit_get, qc_count_bits
from qcore_ext.ground.dispatch cimport grouping_kernels
from qcore_ext.ground.grouping cimport GROUPING_FEW
from qcore_ext.ground.wide cimport int128, wide_apply, wide_power_of_ten

cdef enum:
    COPIES = 4
    # A 64-bit sum of the 2**11 values of a vector cannot overflow if their magnitudes are below 2**52.
    SAFE_BITS = 52
    NARROW_BITS = 62            # magnitudes of 64-bit sums are at most 2**62

ctypedef fused Number:
    int64_t
    double


cdef void mask_numbers(const Number* values, const uint8_t* mask, int64_t n, Number* out) noexcept nogil:
    """Copy the values. Rows that the mask excludes become zero."""
    grouping_kernels().mask_words(<const uint64_t*> values, mask, n, <uint64_t*> out)


cdef int128 total(const int64_t* values, const uint8_t* mask, int64_t n) noexcept nogil:
    cdef int64_t high
    cdef uint64_t low
    grouping_kernels().sum_all(values, mask, n, &high, &low)
    return (<int128> high << 32) + <int128> low


cdef void add_few(const double* values, const uint32_t* groups, int64_t n, double* sums) noexcept nogil:
    """Add the values to four copies of GROUPING_FEW sums."""
    cdef int64_t i
    cdef int64_t quarters = n >> 2
    for i in range(quarters):
        sums[groups[4 * i]] += values[4 * i]
        sums[GROUPING_FEW + groups[4 * i + 1]] += values[4 * i + 1]
        sums[2 * GROUPING_FEW + groups[4 * i + 2]] += values[4 * i + 2]
        sums[3 * GROUPING_FEW + groups[4 * i + 3]] += values[4 * i + 3]
    for i in range(4 * quarters, n):
        sums[groups[i]] += values[i]


# --- counts ---

cdef void count_rows(
    int64_t* counts, int64_t n_groups, const uint32_t* groups, int64_t n, const uint8_t* mask,
) noexcept nogil:
    cdef int64_t few[GROUPING_FEW]
    cdef int64_t i
    if groups == NULL or n_groups == 1:
        counts[0] += n if mask == NULL else qc_count_bits(mask, n)
    elif n_groups <= GROUPING_FEW:
        grouping_kernels().count_few(groups, mask, n, n_groups, few)
        for i in range(n_groups):
            counts[i] += few[i]
    elif mask != NULL:
        for i in range(n):
            counts[groups[i]] += bit_get(mask, i)
    else:
        for i in range(n):
            counts[groups[i]] += 1


cdef void add_counts(int64_t* counts, const uint32_t* groups, int64_t n, const int64_t* values) noexcept nogil:
    cdef int64_t i
    if groups == NULL:
        counts[0] += <int64_t> total(values, NULL, n)
    else:
        for i in range(n):
            counts[groups[i]] += values[i]


# --- sums ---

cdef void sum_doubles(
    double* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const double* values, const uint8_t* mask,
) noexcept nogil:
    cdef double masked[VECTOR_ROWS]
    cdef double few[COPIES * GROUPING_FEW]
    cdef int64_t i
    if groups == NULL or n_groups == 1:
        sums[0] += grouping_kernels().sum_doubles(values, mask, n)
        return
    if mask != NULL:
        mask_numbers[double](values, mask, n, masked)
        values = masked
    if n_groups <= GROUPING_FEW:
        memset(few, 0, sizeof(few))
        add_few(values, groups, n, few)
        for i in range(n_groups):
            sums[i] += (few[i] + few[GROUPING_FEW + i]) + (few[2 * GROUPING_FEW + i] + few[3 * GROUPING_FEW + i])
    else:
        for i in range(n):
            sums[groups[i]] += values[i]


cdef int sum_wide(
    int128* sums, const uint32_t* groups, int64_t n, const int128* values, const uint8_t* mask,
) noexcept nogil:
    cdef int128 limit = wide_power_of_ten(38) - 1
    cdef int128 result
    cdef int64_t i, group
    cdef int bad = 0
    for i in range(n):
        if mask == NULL or bit_get(mask, i):
            group = groups[i] if groups != NULL else 0
            bad |= wide_apply(0, sums[group], values[i], limit, &result)
            sums[group] = result
    return bad


cdef void sum_unsigned(
    int128* sums, const uint32_t* groups, int64_t n, const uint64_t* values, const uint8_t* mask,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if mask == NULL or bit_get(mask, i):
            sums[groups[i] if groups != NULL else 0] += <int128> values[i]


cdef uint64_t any_bits(const uint64_t* values, int64_t n) noexcept nogil:
    """The bits that are set in some value."""
    cdef uint64_t bits = 0
    cdef int64_t i
    for i in range(n):
        bits |= values[i]
    return bits


cdef int sum_integers(
    int128* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
) noexcept nogil:
    cdef int64_t masked[VECTOR_ROWS]
    cdef int64_t few[GROUPING_FEW]
    cdef const int64_t* values = <const int64_t*> argument.values
    cdef bint lone = groups == NULL or n_groups == 1
    cdef int64_t i
    if argument.phys != PHYS_I64 and argument.phys != PHYS_U64:
        return sum_wide(sums, groups, n, <const int128*> argument.values, mask)
    if argument.phys == PHYS_U64:
        if mask != NULL:
            mask_numbers[int64_t](values, mask, n, masked)
            values = masked
            mask = NULL
        # As signed integers the largest values would look small.
        if any_bits(<const uint64_t*> values, n) >> SAFE_BITS != 0:
            sum_unsigned(sums, groups, n, <const uint64_t*> values, NULL)
            return 0
    if lone:
        sums[0] += total(values, mask, n)
        return 0
    if n_groups <= GROUPING_FEW:
        if grouping_kernels().sum_few(values, groups, mask, n, n_groups, few) >> SAFE_BITS == 0:
            for i in range(n_groups):
                sums[i] += few[i]
            return 0
    if mask != NULL:
        mask_numbers[int64_t](values, mask, n, masked)
        values = masked
    for i in range(n):
        sums[groups[i]] += values[i]
    return 0


cdef bint sum_narrow(
    int64_t* sums, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
    uint64_t* magnitude,
) noexcept nogil:
    cdef int64_t masked[VECTOR_ROWS]
    cdef int64_t few[GROUPING_FEW]
    cdef const int64_t* values = <const int64_t*> argument.values
    cdef uint64_t limit = (<uint64_t> 1) << NARROW_BITS
    cdef uint64_t most
    cdef int128 whole
    cdef int64_t i
    if argument.phys != PHYS_I64 and argument.phys != PHYS_U64:
        return False
    if mask != NULL and (argument.phys == PHYS_U64 or groups != NULL and n_groups > GROUPING_FEW):
        mask_numbers[int64_t](values, mask, n, masked)
        values = masked
        mask = NULL
    if argument.phys == PHYS_U64 and any_bits(<const uint64_t*> values, n) >> SAFE_BITS != 0:
        return False                # as signed integers the largest values would look small
    if groups == NULL or n_groups == 1:
        whole = total(values, mask, n)
        if (whole if whole >= 0 else -whole) > <int128> (limit - magnitude[0]):
            return False
        sums[0] += <int64_t> whole
        magnitude[0] += <uint64_t> (whole if whole >= 0 else -whole)
        return True
    if n_groups <= GROUPING_FEW:
        most = grouping_kernels().sum_few(values, groups, mask, n, n_groups, few)
    else:
        most = grouping_kernels().magnitude_bits(values, n)
    if most >> SAFE_BITS != 0 or (most + 1) * <uint64_t> n > limit - magnitude[0]:
        return False
    magnitude[0] += (most + 1) * <uint64_t> n
    if n_groups <= GROUPING_FEW:
        for i in range(n_groups):
            sums[i] += few[i]
    else:
        for i in range(n):
            sums[groups[i]] += values[i]
    return True
