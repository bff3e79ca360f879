"""Bitwise and, or and exclusive or by group."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.aggregate.state_kind cimport STATE_BIT_AND, STATE_BIT_OR
from qcore_ext.ground.bitmap cimport is_valid


cdef void bits_update(
    int kind, uint64_t* bits, const uint32_t* groups, int64_t n, const uint64_t* values, const uint8_t* mask,
) noexcept nogil:
    cdef int64_t i, group
    for i in range(n):
        if not is_valid(mask, i):
            continue
        group = groups[i] if groups != NULL else 0
        if kind == STATE_BIT_AND:
            bits[group] &= values[i]
        elif kind == STATE_BIT_OR:
            bits[group] |= values[i]
        else:
            bits[group] ^= values[i]
