"""Key columns: rows of keys in growing arrays, one array a column. Row g holds the keys of group g."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport NO_ROW, VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector, column_new_flat
from qcore_ext.data.schema cimport (
    PHYS_F32, PHYS_F64, PHYS_I64, PHYS_VIEW, DataType, phys_width,
)
from qcore_ext.data.take cimport gather_width
from qcore_ext.ground.bitmap cimport bit_clear, bit_get, bitmap_bytes, is_valid
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport (
    Arena, Buffer, MemoryAccount, Owner, arena_new, arena_take, buffer_grow, buffer_new, buffer_unref, owner_ref,
    owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.words cimport Real, Unsigned, Word128
from qcore_ext.rows.long_text cimport text_copy, views_equal

cdef KeyColumns* key_columns_new(MemoryAccount* account, const DataType* types, int32_t n_columns) except NULL nogil:
    cdef KeyColumns* keys = <KeyColumns*> struct_new(sizeof(KeyColumns))
    cdef int32_t c
    cdef bint done = False
    try:
        keys.account = account
        keys.columns = <StoredColumn*> struct_new(max(n_columns, 1) * sizeof(StoredColumn))
        keys.n_columns = n_columns
        keys.arena = arena_new(account)
        for c in range(n_columns):
            keys.columns[c].type = types[c]
            keys.columns[c].width = phys_width(types[c].phys)
        done = True
    finally:
        if not done:
            key_columns_free(keys)
    return keys


cdef void key_columns_free(KeyColumns* keys) noexcept nogil:
    cdef int32_t c
    if keys == NULL:
        return
    for c in range(keys.n_columns):
        buffer_unref(keys.columns[c].values)
        buffer_unref(keys.columns[c].nulls)
    struct_free(keys.columns)
    owner_unref(<Owner*> keys.arena)
    struct_free(keys)


cdef int reserve(MemoryAccount* account, Buffer** buffer, int64_t used, int64_t size) except -1 nogil:
    if buffer[0] == NULL:
        buffer[0] = buffer_new(account, size)
        return 0
    return buffer_grow(buffer, used, size)


cdef int key_columns_reserve(KeyColumns* keys, int64_t n_rows) except -1 nogil:
    cdef int64_t capacity = max(keys.capacity, <int64_t> 256)
    cdef StoredColumn* column
    cdef int32_t c
    if n_rows <= keys.capacity:
        return 0
    while capacity < n_rows:
        capacity *= 2
    for c in range(keys.n_columns):
        column = &keys.columns[c]
        reserve(keys.account, &column.values, keys.n_rows * column.width, capacity * column.width)
        reserve(keys.account, &column.nulls, keys.n_rows, capacity)
    keys.capacity = capacity
    return 0


# --- appending ---


cdef void copy_wide(const Vector* vector, const uint32_t* rows, int64_t n, Word128* out) noexcept nogil:
    cdef const int64_t* narrow = <const int64_t*> vector.values
    cdef const Word128* wide = <const Word128*> vector.values
    cdef int64_t i, at
    for i in range(n):
        at = rows[i] if rows != NULL else i
        if vector.phys == PHYS_I64:
            out[i].low = <uint64_t> narrow[at]
            out[i].high = <uint64_t> (narrow[at] >> 63)
        else:
            out[i] = wide[at]


cdef int copy_strings(
    Arena* arena, const Vector* vector, const uint32_t* rows, int64_t n, StringView* out,
) except -1 nogil:
    cdef const StringView* views = <const StringView*> vector.values
    cdef char* copy
    cdef int64_t i, at
    for i in range(n):
        at = rows[i] if rows != NULL else i
        if not is_valid(vector.validity, at):
            memset(&out[i], 0, sizeof(StringView))
            continue
        out[i] = views[at]
        if views[at].length > VIEW_INLINE_BYTES:
            copy = <char*> arena_take(arena, views[at].length)
            text_copy(copy, views[at].pointer, views[at].length)
            out[i].pointer = copy
    return 0


cdef int key_columns_append(KeyColumns* keys, const Vector* vectors, const uint32_t* rows, int64_t n) except -1 nogil:
    cdef StoredColumn* column
    cdef const Vector* vector
    cdef char* out
    cdef uint8_t* nulls
    cdef int32_t c
    cdef int64_t i
    if n == 0:
        # The arrays may not be reserved yet.
        return 0
    key_columns_reserve(keys, keys.n_rows + n)
    qc_check(keys.n_rows + n <= keys.capacity, b"the key columns have capacity for the rows that are appended")
    for c in range(keys.n_columns):
        column = &keys.columns[c]
        vector = &vectors[c]
        out = column.values.data + keys.n_rows * column.width
        nulls = <uint8_t*> column.nulls.data + keys.n_rows
        if column.type.phys == PHYS_VIEW:
            copy_strings(keys.arena, vector, rows, n, <StringView*> out)
        elif column.width == 16:
            copy_wide(vector, rows, n, <Word128*> out)
        elif rows == NULL:
            memcpy(out, vector.values, n * column.width)
        else:
            # The caller knows how many values the vectors have, and checks the rows.
            gather_width(vector.values, NO_ROW, column.width, rows, n, out)
        if vector.validity == NULL:
            memset(nulls, 0, n)
        else:
            for i in range(n):
                nulls[i] = not bit_get(vector.validity, rows[i] if rows != NULL else i)
    keys.n_rows += n
    return 0


# --- comparing ---

cdef void compare_words(
    const Unsigned* values, const Unsigned* stored_values, const uint32_t* rows, const uint32_t* stored, int64_t n,
    uint8_t* same,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        same[i] = values[rows[i]] == stored_values[stored[i]]


cdef void compare_reals(
    const Real* values, const Real* stored_values, const uint32_t* rows, const uint32_t* stored, int64_t n,
    uint8_t* same,
) noexcept nogil:
    cdef Real a, b
    cdef int64_t i
    for i in range(n):
        a = values[rows[i]]
        b = stored_values[stored[i]]
        same[i] = a == b or (a != a and b != b)


cdef void compare_wide(
    const Vector* vector, const Word128* stored_values, const uint32_t* rows, const uint32_t* stored, int64_t n,
    uint8_t* same,
) noexcept nogil:
    cdef const int64_t* narrow = <const int64_t*> vector.values
    cdef const Word128* wide = <const Word128*> vector.values
    cdef const Word128* b
    cdef int64_t i, a
    for i in range(n):
        b = &stored_values[stored[i]]
        if vector.phys == PHYS_I64:
            a = narrow[rows[i]]
            same[i] = b.low == <uint64_t> a and b.high == <uint64_t> (a >> 63)
        else:
            same[i] = b.low == wide[rows[i]].low and b.high == wide[rows[i]].high


cdef void compare_strings(
    const Vector* vector, const StringView* stored_values, const uint32_t* rows, const uint32_t* stored, int64_t n,
    uint8_t* same,
) noexcept nogil:
    cdef const StringView* a
    cdef const StringView* b
    cdef int64_t i
    if vector.validity == NULL:
        for i in range(n):
            same[i] = views_equal(&(<const StringView*> vector.values)[rows[i]], &stored_values[stored[i]])
        return
    for i in range(n):
        a = &(<const StringView*> vector.values)[rows[i]]
        b = &stored_values[stored[i]]
        same[i] = is_valid(vector.validity, rows[i]) and views_equal(a, b)


cdef void key_columns_compare(
    const KeyColumns* keys, const Vector* vectors, const uint32_t* rows, const uint32_t* stored, int64_t n,
    uint8_t* equal,
) noexcept nogil:
    cdef uint8_t same[VECTOR_ROWS]
    cdef const StoredColumn* column
    cdef const Vector* vector
    cdef const uint8_t* nulls
    cdef int32_t c
    cdef int64_t i
    cdef uint8_t a_null
    qc_check(0 <= n <= VECTOR_ROWS, b"at most a vector of rows is compared at a time")
    qc_check_rows(stored, n, keys.n_rows, b"a row to compare with is one of the stored rows")
    memset(equal, 1, n)
    for c in range(keys.n_columns):
        column = &keys.columns[c]
        vector = &vectors[c]
        nulls = <const uint8_t*> column.nulls.data
        if column.type.phys == PHYS_VIEW:
            compare_strings(vector, <const StringView*> column.values.data, rows, stored, n, same)
        elif column.type.phys == PHYS_F64:
            compare_reals[double](
                <const double*> vector.values, <const double*> column.values.data, rows, stored, n, same
            )
        elif column.type.phys == PHYS_F32:
            compare_reals[float](<const float*> vector.values, <const float*> column.values.data, rows, stored, n, same)
        elif column.width == 16:
            compare_wide(vector, <const Word128*> column.values.data, rows, stored, n, same)
        elif column.width == 8:
            compare_words[uint64_t](
                <const uint64_t*> vector.values, <const uint64_t*> column.values.data, rows, stored, n, same
            )
        elif column.width == 4:
            compare_words[uint32_t](
                <const uint32_t*> vector.values, <const uint32_t*> column.values.data, rows, stored, n, same
            )
        elif column.width == 2:
            compare_words[uint16_t](
                <const uint16_t*> vector.values, <const uint16_t*> column.values.data, rows, stored, n, same
            )
        elif column.width == 1:
            compare_words[uint8_t](
                <const uint8_t*> vector.values, <const uint8_t*> column.values.data, rows, stored, n, same
            )
        else:
            continue            # type null: all rows are equal
        if vector.validity == NULL:
            for i in range(n):
                equal[i] &= same[i] & (nulls[stored[i]] ^ 1)
        else:
            for i in range(n):
                a_null = not bit_get(vector.validity, rows[i])
                equal[i] &= (a_null & nulls[stored[i]]) | (same[i] & (a_null ^ 1) & (nulls[stored[i]] ^ 1))


# --- reading back ---

cdef bint validity_from_nulls(const uint8_t* nulls, int64_t n, uint8_t* validity) noexcept nogil:
    cdef int64_t i
    cdef bint any_null = False
    memset(validity, 0xFF, bitmap_bytes(n))
    for i in range(n):
        if nulls[i]:
            bit_clear(validity, i)
            any_null = True
    return any_null


cdef void key_columns_vector(
    const KeyColumns* keys, int32_t column, int64_t start, int64_t n, uint8_t* validity, Vector* out,
) noexcept nogil:
    cdef const StoredColumn* stored = &keys.columns[column]
    cdef bint any_null
    qc_check((start >= 0) & (n >= 0) & (start + n <= keys.n_rows), b"rows to read are stored rows")
    any_null = validity_from_nulls(<const uint8_t*> stored.nulls.data + start, n, validity)
    out.phys = stored.type.phys
    out.values = stored.values.data + start * stored.width
    out.validity = validity if any_null else NULL


cdef Column* key_columns_column(
    const KeyColumns* keys, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    cdef const StoredColumn* stored = &keys.columns[column]
    cdef Buffer* values
    cdef uint8_t* validity
    cdef Column* out = column_new_flat(&stored.type, n, True, account, &values, &validity)
    qc_check((start >= 0) & (n >= 0) & (start + n <= keys.n_rows), b"rows to read are stored rows")
    memcpy(values.data, stored.values.data + start * stored.width, n * stored.width)
    if not validity_from_nulls(<const uint8_t*> stored.nulls.data + start, n, validity):
        out.validity = NULL
    if stored.type.phys == PHYS_VIEW:
        out.heap_owner = owner_ref(<Owner*> keys.arena)
    return out
