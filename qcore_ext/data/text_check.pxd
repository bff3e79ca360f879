"""Whether bytes are UTF-8."""

from libc.stdint cimport int32_t, int64_t, uint8_t

ctypedef fused Offset:
    int32_t
    int64_t

# No byte of data[0..n) is above 127.
cdef bint is_ascii(const uint8_t* data, int64_t n) noexcept nogil
# data[0..n) is well-formed UTF-8: no overlong form, no surrogate, nothing past U+10FFFF.
cdef bint is_utf8(const uint8_t* data, int64_t n) noexcept nogil
# Each of the n strings that offsets[0..n] cut out of `data` is UTF-8. Those of null rows (validity, from bit `first`
# on; NULL: no nulls) may hold anything. The offsets ascend.
cdef bint are_utf8(
    const Offset* offsets, const uint8_t* data, int64_t n, const uint8_t* validity, int64_t first,
) noexcept nogil
