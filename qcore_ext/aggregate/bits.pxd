"""Bitwise and, or and exclusive or by group."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

# `kind` is STATE_BIT_AND, STATE_BIT_OR or STATE_BIT_XOR. If groups is NULL all rows belong to group 0. If mask is NULL
# all rows take part.
cdef void bits_update(
    int kind, uint64_t* bits, const uint32_t* groups, int64_t n, const uint64_t* values, const uint8_t* mask,
) noexcept nogil
