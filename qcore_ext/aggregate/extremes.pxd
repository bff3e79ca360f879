"""Least, greatest, first and last values by group, a vector at a time.

NaN is greater than every other float. `best` of a group without a value holds what any value beats (extreme_fill), so
that the loops need not ask; strings and FIRST ask `seen`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport StringView, Vector
from qcore_ext.ground.memory cimport Arena

# `rep` is a StateRep other than REP_VIEW, `largest`: MAX rather than MIN.
cdef void extreme_fill(int rep, bint largest, char* best, int64_t start, int64_t stop) noexcept nogil
cdef void extreme_update(
    int rep, bint largest, char* best, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
) noexcept nogil
# order: -1 keeps the least, 1 the greatest. Bytes of kept strings are copied to the arena.
cdef int string_update(
    int order, StringView* best, uint8_t* seen, Arena* arena, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask,
) except -1 nogil
# `only_unseen`: FIRST, else LAST. Values of `width` 8 or 16 bytes.
cdef void pick_update(
    bint only_unseen, int width, char* kept, uint8_t* seen, const uint32_t* groups, int64_t n, const char* values,
    const uint8_t* mask,
) noexcept nogil
cdef int pick_strings(
    bint only_unseen, StringView* kept, uint8_t* seen, Arena* arena, const uint32_t* groups, int64_t n,
    const Vector* argument, const uint8_t* mask,
) except -1 nogil
