"""Validity bitmaps: row i is valid if bit i is set, counted from the least significant bit."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "native/bits.h" nogil:
    # The bits rows[0..n), in whole words of 64 bits. The bits behind the last row are ones.
    void qc_gather_bits(const uint8_t* bits, const uint32_t* rows, int64_t n, uint8_t* out)
    # How many of n bits are set.
    int64_t qc_count_bits(const uint8_t* bits, int64_t n)
    # List the positions of those of n bits that are set; NULL: all of them are. Returns how many.
    int64_t qc_set_rows(const uint8_t* bits, int64_t n, uint32_t* rows)
    # Clear those of the bits at..at+n of `out` for which the bits start..start+n of `bits` are 0.
    void qc_clear_missing(uint8_t* out, int64_t at, const uint8_t* bits, int64_t start, int64_t n)

cdef extern from "native/clz.h" nogil:
    int qc_count_trailing_zeros(uint64_t value)
    int qc_popcount(uint64_t value)


cdef inline bint bit_get(const uint8_t* bits, int64_t i) noexcept nogil:
    """Whether row i is valid. `bits` is not NULL."""
    return (bits[i >> 3] >> (i & 7)) & 1


cdef inline bint is_valid(const uint8_t* bits, int64_t i) noexcept nogil:
    """Whether row i is valid. `bits` may be NULL: every row is valid."""
    return bits == NULL or (bits[i >> 3] >> (i & 7)) & 1


cdef inline void bit_set(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] = <uint8_t> (bits[i >> 3] | (1 << (i & 7)))


cdef inline void bit_clear(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] = <uint8_t> (bits[i >> 3] & ~(1 << (i & 7)))


cdef inline int64_t bitmap_bytes(int64_t n_rows) noexcept nogil:
    """Bytes of a bitmap over n_rows, rounded up to whole 64-bit words."""
    return ((n_rows + 63) >> 6) << 3
