"""Smallest, largest, first and last values by group, a vector at a time.

NaN is larger than every other float. extreme_fill sets `best` of a group without a value to the worst possible value,
so that the loops do not check for it. The kernels of strings and of FIRST and LAST check `seen`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport StringView, Vector
from qcore_ext.ground.memory cimport Arena

# `rep` is a StateRep other than REP_VIEW. `largest` selects MAX, otherwise MIN.
cdef void extreme_fill(int rep, bint largest, char* best, int64_t start, int64_t stop) noexcept nogil
cdef void extreme_update(
    int rep, bint largest, char* best, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
) noexcept nogil
# `order` is -1 for the smallest string and 1 for the largest. The bytes of kept strings are copied to the arena.
cdef int string_update(
    int order, StringView* best, uint8_t* seen, Arena* arena, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask,
) except -1 nogil
# `only_unseen` selects FIRST, otherwise LAST. `width` is 8 or 16 bytes.
cdef void pick_update(
    bint only_unseen, int width, char* kept, uint8_t* seen, const uint32_t* groups, int64_t n, const char* values,
    const uint8_t* mask,
) noexcept nogil
cdef int pick_strings(
    bint only_unseen, StringView* kept, uint8_t* seen, Arena* arena, const uint32_t* groups, int64_t n,
    const Vector* argument, const uint8_t* mask,
) except -1 nogil
