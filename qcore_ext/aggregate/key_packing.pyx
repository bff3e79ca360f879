"""Key packing: group keys as one or two 64-bit words, if their types and lengths fit."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport VIEW_INLINE_BYTES, StringView, Vector
from qcore_ext.data.schema cimport (
    PHYS_F32, PHYS_F64, PHYS_I64, PHYS_NESTED, PHYS_U64, PHYS_VIEW, DataType, phys_width,
)
from qcore_ext.ground.bitmap cimport bit_clear, bit_get, bitmap_bytes
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.words cimport Unsigned

cdef enum:
    SHORT_STRING_BYTES = 7      # the eighth byte of the word is the length

cdef void key_layout_choose(KeyLayout* layout, const DataType* types, int32_t n_columns) noexcept nogil:
    cdef int32_t i
    cdef int width, size, used
    cdef int total = 0
    memset(layout, 0, sizeof(KeyLayout))
    layout.n_columns = n_columns
    layout.mode = KEYS_NONE
    if n_columns == 0:
        return
    layout.mode = KEYS_STORED
    if n_columns > PACKED_COLUMNS_MAX:
        return
    for i in range(n_columns):
        if types[i].phys == PHYS_NESTED:
            return
        width = phys_width(types[i].phys)
        if types[i].phys == PHYS_VIEW and n_columns > 1:
            width = 8
        layout.fields[i].phys = types[i].phys
        layout.fields[i].width = <uint8_t> width
        total += width
    if total > 16:
        return
    layout.mode = KEYS_ONE_WORD if total <= 8 else KEYS_TWO_WORDS
    layout.is_empty = total == 0
    # The widest fields come first. Widths are powers of two, so no field crosses from one word into the other.
    used = 0
    size = 16
    while size > 0:
        for i in range(n_columns):
            if layout.fields[i].width == size:
                layout.fields[i].word = <uint8_t> (used >> 3)
                layout.fields[i].shift = <uint8_t> ((used & 7) * 8)
                used += size
        size >>= 1
    qc_check(used == total, b"each byte of the key's words belongs to one field")


# --- packing ---

cdef void words_from_integers(const Unsigned* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = values[i]


cdef void words_from_doubles(const double* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    cdef double value
    cdef double nan = <double> 0.0 / <double> 0.0
    for i in range(n):
        # Adding 0.0 turns -0.0 into 0.0.
        value = values[i] + 0.0 if values[i] == values[i] else nan
        memcpy(&out[i], &value, 8)


cdef void words_from_floats(const float* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    cdef float value
    cdef uint32_t bits
    cdef float nan = <float> 0.0 / <float> 0.0
    for i in range(n):
        value = values[i] + <float> 0.0 if values[i] == values[i] else nan
        memcpy(&bits, &value, 4)
        out[i] = bits


cdef uint64_t words_from_strings(const StringView* values, int64_t n, uint64_t* out) noexcept nogil:
    """Write short strings as words. Returns the length of the longest string, which may be too long for a word."""
    cdef const uint64_t* halves = <const uint64_t*> values
    cdef uint64_t first, longest = 0
    cdef int64_t i
    for i in range(n):
        # The first half of a view has the length and 4 bytes, the second half has the other bytes. Unused bytes are 0.
        first = halves[2 * i]
        longest = longest if longest > (first & 0xFFFFFFFFULL) else first & 0xFFFFFFFFULL
        out[i] = (first >> 32) | (halves[2 * i + 1] & 0xFFFFFFULL) << 32 | first << 56
    return longest


cdef bint valid_string_longer(
    const StringView* values, const uint8_t* validity, int64_t n, uint32_t limit,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if values[i].length > limit and (validity == NULL or bit_get(validity, i)):
            return True
    return False


cdef void words_from_pairs(const uint64_t* values, int64_t n, uint64_t* low, uint64_t* high) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        low[i] = values[2 * i]
        high[i] = values[2 * i + 1]


cdef bint field_words(const KeyField* field, const Vector* key, int64_t n, uint64_t* out) noexcept nogil:
    """Write column `key` as words of field.width bytes, with zeros above. Returns False if a string is too long."""
    if field.phys == PHYS_VIEW:
        if words_from_strings(<const StringView*> key.values, n, out) > SHORT_STRING_BYTES:
            return not valid_string_longer(<const StringView*> key.values, key.validity, n, SHORT_STRING_BYTES)
    elif field.phys == PHYS_F64:
        words_from_doubles(<const double*> key.values, n, out)
    elif field.phys == PHYS_F32:
        words_from_floats(<const float*> key.values, n, out)
    elif field.width == 8:
        words_from_integers[uint64_t](<const uint64_t*> key.values, n, out)
    elif field.width == 4:
        words_from_integers[uint32_t](<const uint32_t*> key.values, n, out)
    elif field.width == 2:
        words_from_integers[uint16_t](<const uint16_t*> key.values, n, out)
    elif field.width == 1:
        words_from_integers[uint8_t](<const uint8_t*> key.values, n, out)
    return True


cdef bint pack_wide(const KeyField* field, const Vector* key, int64_t n, uint64_t* low, uint64_t* high) noexcept nogil:
    """Pack an only key of 16 bytes: a wide decimal, an interval or an inline string. Returns False if a string is too
    long.
    """
    cdef const int64_t* narrow
    cdef int64_t i
    if key.phys == PHYS_I64:
        narrow = <const int64_t*> key.values
        for i in range(n):
            low[i] = <uint64_t> narrow[i]
            high[i] = <uint64_t> (narrow[i] >> 63)
        return True
    words_from_pairs(<const uint64_t*> key.values, n, low, high)
    if field.phys == PHYS_VIEW:
        return not valid_string_longer(<const StringView*> key.values, key.validity, n, VIEW_INLINE_BYTES)
    return True


cdef void clear_nulls(
    const uint8_t* validity, int64_t n, uint32_t flag, uint64_t* words, uint32_t* nulls,
) noexcept nogil:
    cdef int64_t i
    cdef uint64_t keep
    for i in range(n):
        keep = <uint64_t> 0 - <uint64_t> ((validity[i >> 3] >> (i & 7)) & 1)
        words[i] &= keep
        nulls[i] |= flag & ~<uint32_t> keep


cdef bint key_pack(
    const KeyLayout* layout, const Vector* keys, int64_t n, uint64_t* low, uint64_t* high, uint32_t* nulls,
    uint64_t* scratch,
) noexcept nogil:
    cdef const KeyField* field
    cdef uint64_t* target
    cdef uint64_t* into
    cdef int32_t c
    cdef int64_t i
    cdef int shift
    memset(nulls, 0, n * sizeof(uint32_t))
    if layout.is_empty:
        memset(low, 0, n * sizeof(uint64_t))
    # The field at shift 0 of each word is written first. Then the other fields are combined with it.
    for shift in range(2):
        for c in range(layout.n_columns):
            field = &layout.fields[c]
            if (field.shift != 0) != shift:
                continue
            target = high if field.word else low
            into = scratch if shift else target
            if field.width == 16:
                if not pack_wide(field, &keys[c], n, low, high):
                    return False
            elif field.width > 0 and not field_words(field, &keys[c], n, into):
                return False
            if field.width == 0:
                for i in range(n):
                    nulls[i] |= (<uint32_t> 1) << c
                continue
            if keys[c].validity != NULL:
                clear_nulls(keys[c].validity, n, (<uint32_t> 1) << c, into, nulls)
                if field.width == 16:
                    clear_nulls(keys[c].validity, n, (<uint32_t> 1) << c, high, nulls)
            if shift:
                for i in range(n):
                    target[i] |= scratch[i] << field.shift
    return True


cdef const uint64_t* key_words(const KeyLayout* layout, const Vector* keys) noexcept nogil:
    if layout.mode != KEYS_ONE_WORD or layout.n_columns != 1 or keys.validity != NULL:
        return NULL
    if layout.fields[0].phys != PHYS_I64 and layout.fields[0].phys != PHYS_U64:
        return NULL
    return <const uint64_t*> keys.values


# --- unpacking ---

cdef void integers_from_words(
    const uint64_t* words, int64_t stride, int shift, int64_t n, Unsigned* out,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <Unsigned> (words[i * stride] >> shift)


cdef bint any_null(const uint32_t* nulls, int32_t column, int64_t n) noexcept nogil:
    cdef uint32_t any = 0
    cdef int64_t i
    for i in range(n):
        any |= nulls[i]
    return (any >> column) & 1


cdef void strings_from_words(const uint64_t* words, int64_t stride, int64_t n, uint64_t* out) noexcept nogil:
    cdef uint64_t word
    cdef int64_t i
    for i in range(n):
        word = words[i * stride]
        out[2 * i] = word >> 56 | word << 32
        out[2 * i + 1] = (word >> 32) & 0xFFFFFFULL


cdef bint key_unpack(
    const KeyLayout* layout, int32_t column, const uint64_t* words, const uint32_t* nulls, int64_t n,
    char* values, uint8_t* validity,
) noexcept nogil:
    cdef const KeyField* field = &layout.fields[column]
    cdef int64_t stride = 1 if layout.mode == KEYS_ONE_WORD else 2
    cdef int64_t i
    if field.width == 16:
        memcpy(values, words, n * 16)
    elif stride == 1 and field.width == 8 and field.phys != PHYS_VIEW:
        memcpy(values, words, n * 8)
    elif field.phys == PHYS_VIEW:
        strings_from_words(words + field.word, stride, n, <uint64_t*> values)
    elif field.width == 8:
        integers_from_words[uint64_t](words + field.word, stride, field.shift, n, <uint64_t*> values)
    elif field.width == 4:
        integers_from_words[uint32_t](words + field.word, stride, field.shift, n, <uint32_t*> values)
    elif field.width == 2:
        integers_from_words[uint16_t](words + field.word, stride, field.shift, n, <uint16_t*> values)
    elif field.width == 1:
        integers_from_words[uint8_t](words + field.word, stride, field.shift, n, <uint8_t*> values)
    memset(validity, 0xFF, bitmap_bytes(n))
    if nulls == NULL or not any_null(nulls, column, n):
        return False
    for i in range(n):
        if (nulls[i] >> column) & 1:
            bit_clear(validity, i)
    return True
