"""Whether bytes are UTF-8."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.dispatch cimport simd_kernels

cdef enum:
    # Bytes to read between two tests whether all of them are ASCII.
    BLOCK_BYTES = 4096

cdef uint64_t HIGH_BITS = 0x8080808080808080


cdef bint is_ascii(const uint8_t* data, int64_t n) noexcept nogil:
    cdef int64_t start = 0
    cdef int64_t end
    while start < n:
        end = min(start + BLOCK_BYTES, n)
        if simd_kernels().or_bytes(data + start, end - start) & 0x80:
            return False
        start = end
    return True


cdef bint is_utf8(const uint8_t* data, int64_t n) noexcept nogil:
    cdef int64_t i = 0
    cdef int64_t j, length
    cdef uint64_t word
    cdef uint8_t head, second, low, high
    while i < n:
        if i + 8 <= n:
            memcpy(&word, data + i, 8)
            if word & HIGH_BITS == 0:
                i += 8
                continue
        head = data[i]
        if head < 0x80:
            i += 1
            continue
        if head < 0xC2 or head > 0xF4:
            return False            # a continuation byte, an overlong form, or past U+10FFFF
        length = 2 if head < 0xE0 else 3 if head < 0xF0 else 4
        if i + length > n:
            return False
        # The second byte's range excludes overlong forms, surrogates and values that are too large.
        low = 0xA0 if head == 0xE0 else 0x90 if head == 0xF0 else 0x80
        high = 0x9F if head == 0xED else 0x8F if head == 0xF4 else 0xBF
        second = data[i + 1]
        if second < low or second > high:
            return False
        for j in range(i + 2, i + length):
            if data[j] & 0xC0 != 0x80:
                return False
        i += length
    return True


cdef bint are_utf8(
    const Offset* offsets, const uint8_t* data, int64_t n, const uint8_t* validity, int64_t first,
) noexcept nogil:
    cdef int64_t i
    if is_ascii(data + offsets[0], offsets[n] - offsets[0]):
        return True
    for i in range(n):
        if is_valid(validity, first + i) and not is_utf8(data + offsets[i], offsets[i + 1] - offsets[i]):
            return False
    return True
