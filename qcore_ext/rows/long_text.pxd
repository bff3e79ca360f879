"""Comparing and copying long strings, those whose bytes are not in the view.

Most of them have a few words. A call of memcmp or memcpy takes longer than that.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy

from qcore_ext.data.column cimport VIEW_INLINE_BYTES, StringView
from qcore_ext.ground.words cimport Word128

cdef enum:
    CALL_BYTES_MIN = 64         # from this length on a call of memcmp or memcpy is faster


cdef inline bint text_equal(const char* a, const char* b, int64_t n) noexcept nogil:
    """Whether n > 8 bytes are equal. The last word overlaps the one before."""
    cdef Word128 first, other, last, other_last
    cdef uint64_t here, there
    cdef int64_t i = 0
    if n >= CALL_BYTES_MIN:
        return memcmp(a, b, n) == 0
    if 16 <= n <= 32:
        memcpy(&first, a, 16)
        memcpy(&other, b, 16)
        memcpy(&last, a + n - 16, 16)
        memcpy(&other_last, b + n - 16, 16)
        return (
            (first.low ^ other.low) | (first.high ^ other.high)
            | (last.low ^ other_last.low) | (last.high ^ other_last.high)
        ) == 0
    while i < n - 8:
        memcpy(&here, a + i, 8)
        memcpy(&there, b + i, 8)
        if here != there:
            return False
        i += 8
    memcpy(&here, a + n - 8, 8)
    memcpy(&there, b + n - 8, 8)
    return here == there


cdef inline bint views_equal(const StringView* a, const StringView* b) noexcept nogil:
    cdef const uint64_t* words = <const uint64_t*> a
    cdef const uint64_t* others = <const uint64_t*> b
    if words[0] != others[0]:
        return False                # length and the first four bytes
    if a.length <= VIEW_INLINE_BYTES:
        return words[1] == others[1]
    return a.pointer == b.pointer or text_equal(a.pointer, b.pointer, a.length)


cdef inline void text_copy(char* out, const char* text, int64_t n) noexcept nogil:
    """Copy n > 8 bytes, and no byte after them. The last word overlaps the one before."""
    cdef Word128 wide
    cdef uint64_t word
    cdef int64_t i = 0
    if n >= CALL_BYTES_MIN:
        memcpy(out, text, n)
        return
    if n >= 16:
        while i < n - 16:
            memcpy(&wide, text + i, 16)
            memcpy(out + i, &wide, 16)
            i += 16
        memcpy(&wide, text + n - 16, 16)
        memcpy(out + n - 16, &wide, 16)
        return
    memcpy(&word, text, 8)
    memcpy(out, &word, 8)
    memcpy(&word, text + n - 8, 8)
    memcpy(out + n - 8, &word, 8)
