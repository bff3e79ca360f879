"""Smallest, largest, first and last values by group, a vector at a time."""

from libc.stdint cimport INT64_MAX, INT64_MIN, UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from qcore_ext.aggregate.state_kind cimport REP_F64, REP_I64, REP_U64
from qcore_ext.data.column cimport VECTOR_ROWS, VIEW_INLINE_BYTES, StringView, Vector, view_data
from qcore_ext.data.schema cimport PHYS_I64
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport Arena, arena_take
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.wide cimport int128, wide_power_of_ten
from qcore_ext.ground.words cimport Word128

ctypedef fused Value:
    int64_t
    uint64_t
    double
    int128

ctypedef fused StateWord:
    uint64_t
    Word128


cdef inline bint before(Value a, Value b) noexcept nogil:
    if Value is double:
        return a < b or (a == a and b != b)
    else:
        return a < b


cdef void fill(Value value, Value* best, int64_t start, int64_t stop) noexcept nogil:
    cdef int64_t i
    for i in range(start, stop):
        best[i] = value


cdef void extreme_fill(int rep, bint largest, char* best, int64_t start, int64_t stop) noexcept nogil:
    cdef double infinity = 1e308 * 10
    cdef int128 widest = wide_power_of_ten(38)
    if rep == REP_I64:
        fill[int64_t](INT64_MIN if largest else INT64_MAX, <int64_t*> best, start, stop)
    elif rep == REP_U64:
        fill[uint64_t](0 if largest else UINT64_MAX, <uint64_t*> best, start, stop)
    elif rep == REP_F64:
        fill[double](-infinity if largest else infinity - infinity, <double*> best, start, stop)
    else:
        fill[int128](-widest if largest else widest, <int128*> best, start, stop)


cdef void extreme(
    bint largest, Value* best, const uint32_t* groups, int64_t n, const Value* values, const uint8_t* mask,
) noexcept nogil:
    cdef int64_t i, group
    if largest:
        for i in range(n):
            group = groups[i] if groups != NULL else 0
            if before(best[group], values[i]) and is_valid(mask, i):
                best[group] = values[i]
    else:
        for i in range(n):
            group = groups[i] if groups != NULL else 0
            if before(values[i], best[group]) and is_valid(mask, i):
                best[group] = values[i]


cdef void extreme_update(
    int rep, bint largest, char* best, const uint32_t* groups, int64_t n, const Vector* argument, const uint8_t* mask,
) noexcept nogil:
    cdef int128 wide[VECTOR_ROWS]
    cdef const int128* values = <const int128*> argument.values
    if rep == REP_I64:
        extreme[int64_t](largest, <int64_t*> best, groups, n, <const int64_t*> argument.values, mask)
    elif rep == REP_U64:
        extreme[uint64_t](largest, <uint64_t*> best, groups, n, <const uint64_t*> argument.values, mask)
    elif rep == REP_F64:
        extreme[double](largest, <double*> best, groups, n, <const double*> argument.values, mask)
    else:
        if argument.phys == PHYS_I64:
            simd_kernels().widen(<const int64_t*> argument.values, n, <int64_t*> wide)
            values = wide
        extreme[int128](largest, <int128*> best, groups, n, values, mask)


# --- strings ---

cdef int compare_views(const StringView* a, const StringView* b) noexcept nogil:
    """Compare the bytes, as memcmp does."""
    cdef uint32_t shorter = a.length if a.length < b.length else b.length
    cdef int order = memcmp(view_data(a), view_data(b), shorter)
    if order != 0:
        return order
    return (a.length > b.length) - (a.length < b.length)


cdef int keep_string(StringView* kept, bint had_one, const StringView* view, Arena* arena) except -1 nogil:
    cdef char* copy
    if view.length <= VIEW_INLINE_BYTES:
        kept[0] = view[0]
        return 0
    # The bytes of a longer string kept before are reused, so that a falling minimum does not fill the arena.
    if had_one and kept.length >= view.length:
        copy = kept.pointer
    else:
        copy = <char*> arena_take(arena, view.length)
    memcpy(copy, view.pointer, view.length)
    kept[0] = view[0]
    kept.pointer = copy
    return 0


cdef int string_update(
    int order, StringView* best, uint8_t* seen, Arena* arena, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask,
) except -1 nogil:
    cdef const StringView* views = <const StringView*> argument.values
    cdef int64_t i, group
    for i in range(n):
        if is_valid(mask, i):
            group = groups[i] if groups != NULL else 0
            if not seen[group] or compare_views(&views[i], &best[group]) * order > 0:
                keep_string(&best[group], seen[group], &views[i], arena)
                seen[group] = 1
    return 0


# --- first and last ---

cdef void pick(
    bint only_unseen, StateWord* kept, uint8_t* seen, const uint32_t* groups, int64_t n, const StateWord* values,
    const uint8_t* mask,
) noexcept nogil:
    cdef int64_t i, group
    for i in range(n):
        if is_valid(mask, i):
            group = groups[i] if groups != NULL else 0
            if not (only_unseen and seen[group]):
                kept[group] = values[i]
                seen[group] = 1


cdef void pick_update(
    bint only_unseen, int width, char* kept, uint8_t* seen, const uint32_t* groups, int64_t n, const char* values,
    const uint8_t* mask,
) noexcept nogil:
    if width == 8:
        pick[uint64_t](only_unseen, <uint64_t*> kept, seen, groups, n, <const uint64_t*> values, mask)
    else:
        pick[Word128](only_unseen, <Word128*> kept, seen, groups, n, <const Word128*> values, mask)


cdef int pick_strings(
    bint only_unseen, StringView* kept, uint8_t* seen, Arena* arena, const uint32_t* groups, int64_t n,
    const Vector* argument, const uint8_t* mask,
) except -1 nogil:
    cdef const StringView* views = <const StringView*> argument.values
    cdef int64_t i, group
    for i in range(n):
        if is_valid(mask, i):
            group = groups[i] if groups != NULL else 0
            if not (only_unseen and seen[group]):
                keep_string(&kept[group], seen[group], &views[i], arena)
                seen[group] = 1
    return 0
