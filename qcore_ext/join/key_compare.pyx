"""Comparison of probe keys and build keys with equal hashes."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from qcore_ext.data.column cimport VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector
from qcore_ext.data.schema cimport PHYS_F32, PHYS_F64, PHYS_VIEW, phys_width
from qcore_ext.ground.check cimport qc_check_rows
from qcore_ext.ground.prefetch cimport qc_prefetch_range
from qcore_ext.ground.words cimport Real, Unsigned
from qcore_ext.rows.long_text cimport views_equal

cdef enum:
    # Rows between the prefetch of a build side's view or text and their comparison. Without it each row waits for one
    # cache miss after the other; the comparison takes 40 % of a join by a million texts.
    VIEWS_AHEAD = 32
    TEXTS_AHEAD = 16
    TEXT_BYTES_AHEAD = 128


cdef void compare_words(
    const Unsigned* here, const Unsigned* there, const uint32_t* at, const uint32_t* rows, int64_t n, uint8_t* equal,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        equal[i] &= here[at[i]] == there[rows[i]]


cdef void compare_pairs(
    const uint64_t* here, const uint64_t* there, const uint32_t* at, const uint32_t* rows, int64_t n, uint8_t* equal,
) noexcept nogil:
    cdef int64_t i, a, b
    for i in range(n):
        a = at[i]
        b = rows[i]
        equal[i] &= here[2 * a] == there[2 * b] and here[2 * a + 1] == there[2 * b + 1]


cdef void compare_reals(
    const Real* here, const Real* there, const uint32_t* at, const uint32_t* rows, int64_t n, uint8_t* equal,
) noexcept nogil:
    cdef int64_t i
    cdef Real a, b
    for i in range(n):
        a = here[at[i]]
        b = there[rows[i]]
        equal[i] &= a == b or (a != a and b != b)


cdef inline void fetch_text(const StringView* view) noexcept nogil:
    if view.length > VIEW_INLINE_BYTES:
        qc_prefetch_range(view.pointer, min(<int64_t> view.length, <int64_t> TEXT_BYTES_AHEAD))


cdef void compare_views(
    const StringView* here, const StringView* there, const uint32_t* at, const uint32_t* rows, int64_t n,
    uint8_t* equal,
) noexcept nogil:
    cdef int64_t i
    for i in range(min(n, <int64_t> VIEWS_AHEAD)):
        qc_prefetch_range(<const char*> &there[rows[i]], sizeof(StringView))
    for i in range(min(n, <int64_t> TEXTS_AHEAD)):
        fetch_text(&there[rows[i]])
    for i in range(n):
        if i + VIEWS_AHEAD < n:
            qc_prefetch_range(<const char*> &there[rows[i + VIEWS_AHEAD]], sizeof(StringView))
        if i + TEXTS_AHEAD < n:
            fetch_text(&there[rows[i + TEXTS_AHEAD]])
        equal[i] = equal[i] and views_equal(&here[at[i]], &there[rows[i]])


cdef void keys_compare(
    const Vector* vector, const Column* column, const uint32_t* at, const uint32_t* rows, int64_t n, uint8_t* equal,
) noexcept nogil:
    cdef const void* here = vector.values
    cdef const void* there = column.values
    cdef int width = phys_width(vector.phys)
    qc_check_rows(rows, n, column.n_rows, b"a build row to compare is a row of the key column")
    qc_check_rows(at, n, VECTOR_ROWS, b"a probe row to compare is a row of the vector")
    if vector.phys == PHYS_VIEW:
        compare_views(<const StringView*> here, <const StringView*> there, at, rows, n, equal)
    elif vector.phys == PHYS_F64:
        compare_reals[double](<const double*> here, <const double*> there, at, rows, n, equal)
    elif vector.phys == PHYS_F32:
        compare_reals[float](<const float*> here, <const float*> there, at, rows, n, equal)
    elif width == 8:
        compare_words[uint64_t](<const uint64_t*> here, <const uint64_t*> there, at, rows, n, equal)
    elif width == 4:
        compare_words[uint32_t](<const uint32_t*> here, <const uint32_t*> there, at, rows, n, equal)
    elif width == 16:
        compare_pairs(<const uint64_t*> here, <const uint64_t*> there, at, rows, n, equal)
    elif width == 2:
        compare_words[uint16_t](<const uint16_t*> here, <const uint16_t*> there, at, rows, n, equal)
    elif width == 1:
        compare_words[uint8_t](<const uint8_t*> here, <const uint8_t*> there, at, rows, n, equal)


cdef bint keys_equal(
    const Vector* vectors, Column** columns, const int32_t* key_columns, int32_t n_keys, uint32_t at, uint32_t row,
) noexcept nogil:
    cdef uint8_t equal = 1
    cdef int32_t k
    for k in range(n_keys):
        keys_compare(&vectors[k], columns[key_columns[k]], &at, &row, 1, &equal)
    return equal


cdef bint rows_equal(
    Column** columns, const int32_t* key_columns, int32_t n_keys, uint32_t row, uint32_t other,
) noexcept nogil:
    cdef Vector vector
    cdef const Column* column
    cdef uint32_t at = 0
    cdef uint8_t equal = 1
    cdef int32_t k
    for k in range(n_keys):
        column = columns[key_columns[k]]
        vector.phys = column.type.phys
        vector.values = <const char*> column.values + <int64_t> row * phys_width(vector.phys)
        vector.validity = NULL
        keys_compare(&vector, column, &at, &other, 1, &equal)
    return equal
