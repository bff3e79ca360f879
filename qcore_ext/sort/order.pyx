"""The order of rows: sort keys, 64-bit prefixes that sort like the keys, and a comparison of values for ties."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from qcore_ext.data.column cimport NO_ROW, VECTOR_BITMAP_BYTES, VECTOR_ROWS, StringView, Vector, view_data
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_INTERVAL, PHYS_NESTED,
    PHYS_NONE,
    PHYS_U8, PHYS_U16, PHYS_U32, PHYS_U64, PHYS_VIEW, CSchema, schema_index, type_name,
)
from qcore_ext.data.take cimport gather_validity, gather_width
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport CHECK_ROWS, MemoryAccount, account_check, struct_free, struct_new
from qcore_ext.ground.prefetch cimport LINE_BYTES, qc_prefetch_stream
from qcore_ext.ground.wide cimport int128
from qcore_ext.ground.words cimport Real, Signed, Unsigned

from qcore_ext.ground.status import PlanError

cdef extern from "native/clz.h" nogil:
    int qc_log2_ceil(uint64_t value)

cdef extern from "native/byte_order.h" nogil:
    uint64_t qc_swap_bytes(uint64_t value)

cdef int64_t STRING_LENGTH_MAX = 0xFFFFFFFF

ctypedef fused Plain:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    int128

cdef int value_bits(uint8_t phys) noexcept nogil:
    """The number of bits of a value's sortable code; 0 for type null."""
    if phys == PHYS_NONE:
        return 0
    if phys == PHYS_BOOL:
        return 1
    if phys == PHYS_I8 or phys == PHYS_U8:
        return 8
    if phys == PHYS_I16 or phys == PHYS_U16:
        return 16
    return 32 if phys == PHYS_I32 or phys == PHYS_U32 or phys == PHYS_F32 else 64


cdef class SortOrder:
    """The keys that rows are ordered by.

    Parameters
    ----------
    keys : list of (str, bool, bool)
        Column name, descending, nulls first.
    """

    def __init__(self, list keys):
        self.keys = [(str(name), bool(descending), bool(nulls_first)) for name, descending, nulls_first in keys]
        self.n_keys = <int32_t> len(keys)
        self.parts = <SortKey*> struct_new(max(self.n_keys, 1) * sizeof(SortKey))

    def __dealloc__(self):
        struct_free(self.parts)

    cdef int resolve(self, CSchema* schema) except -1:
        cdef int32_t k, column
        cdef SortKey* part
        cdef uint8_t phys
        cdef bytes kinds = b""
        for k, (name, descending, nulls_first) in enumerate(self.keys):
            text = name.encode()
            column = schema_index(schema, text)
            if column < 0:
                names = ", ".join(schema.fields[i].name.decode() for i in range(schema.n_fields))
                raise PlanError(f"cannot order by {name!r}: the columns are {names}")
            phys = schema.fields[column].type.phys
            if phys == PHYS_NESTED or phys == PHYS_INTERVAL:
                type = type_name(&schema.fields[column].type)
                raise PlanError(f"cannot order by {name!r}: {type} values have no order")
            part = &self.parts[k]
            part.column = column
            part.descending = descending
            part.nulls_first = nulls_first
            kinds += bytes([phys])
        self.lay_out(<const uint8_t*> <const char*> kinds)
        return 0

    cdef int lay_out(self, const uint8_t* phys) except -1 nogil:
        cdef KeyRange* ranges = <KeyRange*> struct_new(max(self.n_keys, 1) * sizeof(KeyRange))
        cdef int32_t k
        for k in range(self.n_keys):
            key_range_full(&ranges[k], phys[k])
        self.first_open = sort_layout(self.parts, phys, ranges, self.n_keys)
        struct_free(ranges)
        return 0


cdef inline uint64_t ones_of(int bits) noexcept nogil:
    return 0xFFFFFFFFFFFFFFFFULL if bits >= 64 else ((<uint64_t> 1) << bits) - 1


cdef inline int bits_of(uint64_t value) noexcept nogil:
    return 64 if value >> 63 else qc_log2_ceil(value + 1)


# --- ranges and the layout of prefixes ---

cdef void key_range_full(KeyRange* seen, uint8_t phys) noexcept nogil:
    memset(seen, 0, sizeof(KeyRange))
    seen.has_nulls = True
    seen.has_values = True
    seen.high = ones_of(value_bits(phys))
    seen.length_max = STRING_LENGTH_MAX


cdef int64_t shared_bytes(const StringView* a, const StringView* b, int64_t most) noexcept nogil:
    """The number of leading bytes, at most `most`, that two strings share."""
    cdef const char* x = view_data(a)
    cdef const char* y = view_data(b)
    cdef int64_t n = min(most, <int64_t> min(a.length, b.length))
    cdef int64_t i
    if memcmp(x, y, n) == 0:
        return n
    for i in range(n):
        if x[i] != y[i]:
            return i
    return n


cdef void measure_strings(KeyRange* seen, const Vector* key, int64_t start, int64_t n) noexcept nogil:
    cdef const StringView* views = <const StringView*> key.values
    cdef int64_t i, length
    for i in range(start, start + n):
        if not is_valid(key.validity, i):
            seen.has_nulls = True
            continue
        length = views[i].length
        if not seen.has_values:
            seen.has_values = True
            seen.sample = views[i]
            seen.n_shared = length
            seen.length_min = length
            seen.length_max = length
        seen.length_min = min(seen.length_min, length)
        seen.length_max = max(seen.length_max, length)
        if seen.n_shared > 0:
            seen.n_shared = shared_bytes(&seen.sample, &views[i], seen.n_shared)


cdef void measure_codes(
    KeyRange* seen, const uint64_t* codes, const uint8_t* validity, int64_t start, int64_t n,
) noexcept nogil:
    cdef uint64_t low = seen.low
    cdef uint64_t high = seen.high
    cdef int64_t i
    cdef bint has_values = seen.has_values
    if validity == NULL:
        for i in range(n):
            low = min(low, codes[i])
            high = max(high, codes[i])
        has_values = has_values or n > 0
    else:
        for i in range(n):
            if is_valid(validity, start + i):
                low = min(low, codes[i])
                high = max(high, codes[i])
                has_values = True
            else:
                seen.has_nulls = True
    seen.low = low
    seen.high = high
    seen.has_values = has_values


cdef int key_range_measure(KeyRange* seen, const Vector* key, int64_t n, const MemoryAccount* account) except -1 nogil:
    cdef uint64_t codes[VECTOR_ROWS]
    cdef Vector block
    cdef int64_t m
    cdef int64_t start = 0
    memset(seen, 0, sizeof(KeyRange))
    if key.phys == PHYS_NONE:
        seen.has_nulls = n > 0
        return 0
    seen.low = 0xFFFFFFFFFFFFFFFFULL
    block.phys = key.phys
    block.validity = NULL
    while start < n:
        if start % CHECK_ROWS == 0:
            account_check(account)
        m = min(n - start, <int64_t> VECTOR_ROWS)
        if key.phys == PHYS_VIEW:
            measure_strings(seen, key, start, m)
        else:
            block.values = (<const char*> key.values) + start * phys_bytes(key.phys)
            key_codes(&block, m, 0, codes)
            measure_codes(seen, codes, key.validity, start, m)
        start += m
    if not seen.has_values or key.phys == PHYS_VIEW:
        seen.low = 0
        seen.high = 0
    return 0


cdef void key_range_merge(KeyRange* seen, const KeyRange* other, uint8_t phys) noexcept nogil:
    cdef bint has_nulls = seen.has_nulls or other.has_nulls
    if not seen.has_values:
        seen[0] = other[0]
    elif other.has_values:
        seen.low = min(seen.low, other.low)
        seen.high = max(seen.high, other.high)
        if phys == PHYS_VIEW:
            seen.n_shared = min(seen.n_shared, other.n_shared)
            seen.n_shared = shared_bytes(&seen.sample, &other.sample, seen.n_shared)
            seen.length_min = min(seen.length_min, other.length_min)
            seen.length_max = max(seen.length_max, other.length_max)
    seen.has_nulls = has_nulls


cdef bint lay_out_string(SortKey* part, const KeyRange* seen) noexcept nogil:
    """Choose what of the strings is in their code. Returns whether the code is the whole string."""
    cdef int64_t rest = seen.length_max - seen.n_shared
    part.n_shared = seen.n_shared
    part.length_min = seen.length_min
    part.n_bytes = <uint8_t> min(rest, <int64_t> 8)
    part.length_bits = 0
    if rest < 8:
        # In a shorter string zeros may hide where it ends, so the length decides last.
        part.length_bits = <uint8_t> bits_of(<uint64_t> (seen.length_max - seen.length_min))
    part.low = 0
    part.high = ones_of(8 * part.n_bytes + part.length_bits)
    return rest < 8 or (rest == 8 and seen.length_min == seen.length_max)


cdef int32_t sort_layout(SortKey* parts, const uint8_t* phys, const KeyRange* ranges, int32_t n_keys) noexcept nogil:
    cdef int32_t first_open = n_keys
    cdef int free_bits = 64
    cdef int bits, flag
    cdef int32_t k
    cdef bint whole
    for k in range(n_keys):
        parts[k].low = ranges[k].low
        parts[k].high = ranges[k].high
        parts[k].has_values = ranges[k].has_values
        whole = True
        if phys[k] == PHYS_VIEW:
            whole = lay_out_string(&parts[k], &ranges[k])
        elif phys[k] == PHYS_I128:
            whole = ranges[k].low > 0 and ranges[k].high < 0xFFFFFFFFFFFFFFFFULL    # no code was clamped
        whole = whole or not ranges[k].has_values
        bits = bits_of(parts[k].high - parts[k].low)
        flag = ranges[k].has_nulls and ranges[k].has_values
        if first_open < n_keys or free_bits < flag + (bits > 0):
            # After a key that is not wholly in the prefix, the prefix has no other key.
            parts[k].nullable = False
            parts[k].bits = 0
            if flag + bits > 0 or not whole:
                first_open = min(first_open, k)
            continue
        parts[k].nullable = flag
        parts[k].bits = <uint8_t> min(bits, free_bits - flag)
        parts[k].drop = <uint8_t> (bits - parts[k].bits)
        free_bits -= flag + parts[k].bits
        parts[k].shift = <uint8_t> free_bits
        if parts[k].drop > 0 or not whole:
            first_open = k
    return first_open


# --- prefixes: every value as an unsigned number of value_bits(phys) bits ---

cdef void codes_of_signed(const Signed* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef uint64_t half = (<uint64_t> 1) << (8 * sizeof(Signed) - 1)
    cdef int64_t in_line = LINE_BYTES // sizeof(Signed)
    cdef int64_t at = 0
    cdef int64_t i
    while at + in_line <= n:
        qc_prefetch_stream(values + at)
        for i in range(in_line):
            out[at + i] = (<uint64_t> <int64_t> values[at + i] + half) & (half - 1 + half)
        at += in_line
    for i in range(at, n):
        out[i] = (<uint64_t> <int64_t> values[i] + half) & (half - 1 + half)


cdef void codes_of_unsigned(const Unsigned* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = values[i]


cdef void codes_of_doubles(const double* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef double nan = <double> 0.0 / <double> 0.0
    cdef double value
    cdef uint64_t bits
    cdef int64_t i
    for i in range(n):
        value = values[i] + 0.0 if values[i] == values[i] else nan
        memcpy(&bits, &value, 8)
        if values[i] != values[i]:
            bits = 0x7FF8000000000000ULL
        # Positive: set the sign bit; negative: invert all.
        out[i] = bits ^ (<uint64_t> ((<int64_t> bits) >> 63) | 0x8000000000000000ULL)


cdef void codes_of_floats(const float* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef float value
    cdef uint32_t bits
    cdef int64_t i
    for i in range(n):
        value = values[i] + <float> 0.0
        memcpy(&bits, &value, 4)
        if values[i] != values[i]:
            bits = 0x7FC00000U
        out[i] = <uint32_t> (bits ^ (<uint32_t> ((<int32_t> bits) >> 31) | 0x80000000U))


cdef void codes_of_wide(const int128* values, int64_t n, uint64_t* out) noexcept nogil:
    """Codes clamped to 64 bits. Wide decimals are mostly sums, and their values rarely need more."""
    cdef int128 low = -(<int128> 0x7FFFFFFFFFFFFFFFULL) - 1
    cdef int128 high = <int128> 0x7FFFFFFFFFFFFFFFULL
    cdef int128 value
    cdef int64_t i
    for i in range(n):
        value = values[i]
        value = low if value < low else (high if value > high else value)
        out[i] = <uint64_t> <int64_t> value + 0x8000000000000000ULL


cdef void codes_of_strings(
    const StringView* values, const uint8_t* validity, int64_t n, int64_t offset, uint64_t* out,
) noexcept nogil:
    """Eight bytes from `offset` on, the first one highest. Bytes past the end of the string are zero."""
    cdef uint64_t word
    cdef int64_t i, length
    for i in range(n):
        word = 0
        length = <int64_t> values[i].length - offset
        if length > 0 and is_valid(validity, i):
            memcpy(&word, view_data(&values[i]) + offset, min(length, <int64_t> 8))
        out[i] = qc_swap_bytes(word)


cdef void key_codes(const Vector* key, int64_t n, int64_t offset, uint64_t* out) noexcept nogil:
    cdef uint8_t phys = key.phys
    if phys == PHYS_I64:
        codes_of_signed[int64_t](<const int64_t*> key.values, n, out)
    elif phys == PHYS_I32:
        codes_of_signed[int32_t](<const int32_t*> key.values, n, out)
    elif phys == PHYS_F64:
        codes_of_doubles(<const double*> key.values, n, out)
    elif phys == PHYS_VIEW:
        codes_of_strings(<const StringView*> key.values, key.validity, n, offset, out)
    elif phys == PHYS_I128:
        codes_of_wide(<const int128*> key.values, n, out)
    elif phys == PHYS_F32:
        codes_of_floats(<const float*> key.values, n, out)
    elif phys == PHYS_I16:
        codes_of_signed[int16_t](<const int16_t*> key.values, n, out)
    elif phys == PHYS_I8:
        codes_of_signed[int8_t](<const int8_t*> key.values, n, out)
    elif phys == PHYS_U64:
        codes_of_unsigned[uint64_t](<const uint64_t*> key.values, n, out)
    elif phys == PHYS_U32:
        codes_of_unsigned[uint32_t](<const uint32_t*> key.values, n, out)
    elif phys == PHYS_U16:
        codes_of_unsigned[uint16_t](<const uint16_t*> key.values, n, out)
    elif phys == PHYS_U8 or phys == PHYS_BOOL:
        codes_of_unsigned[uint8_t](<const uint8_t*> key.values, n, out)
    else:
        memset(out, 0, n * 8)


cdef void add_lengths(const SortKey* part, const StringView* values, int64_t n, uint64_t* codes) noexcept nogil:
    """Make the codes of strings of their first eight bytes: their leading bytes, then their lengths."""
    cdef int drop = 8 * (8 - part.n_bytes)
    cdef int64_t i
    if part.n_bytes == 0:
        memset(codes, 0, n * 8)
    elif drop > 0:
        for i in range(n):
            codes[i] >>= drop
    if part.length_bits > 0:
        for i in range(n):
            # The length of a null row is stale: its code is replaced.
            codes[i] = (codes[i] << part.length_bits) | <uint64_t> (<int64_t> values[i].length - part.length_min)


cdef void add_key(
    const SortKey* part, const Vector* key, int64_t n, bint is_first, uint64_t* codes, uint64_t* prefixes,
) noexcept nogil:
    """Add one key's codes to the prefixes. The key must have bits in the prefix. The first key sets them."""
    cdef int drop = part.drop
    cdef int shift = part.shift
    cdef uint64_t low = part.low
    cdef uint64_t high = part.high
    cdef uint64_t flag = (<uint64_t> 1) << part.bits if part.nullable else 0
    cdef uint64_t value_flag = flag if part.nulls_first else 0
    cdef int64_t i
    if part.bits == 0:
        memset(codes, 0, n * 8)         # a shift by 64 is undefined
    elif part.descending:
        for i in range(n):
            codes[i] = (high - codes[i]) >> drop
    else:
        for i in range(n):
            codes[i] = (codes[i] - low) >> drop
    if part.nullable:
        for i in range(n):
            codes[i] |= value_flag
        if key.validity != NULL or key.phys == PHYS_NONE:
            for i in range(n):
                if key.phys == PHYS_NONE or not is_valid(key.validity, i):
                    codes[i] = value_flag ^ flag
    if is_first:
        for i in range(n):
            prefixes[i] = codes[i] << shift
    else:
        for i in range(n):
            prefixes[i] |= codes[i] << shift


cdef int sort_prefixes(
    const SortKey* parts, int32_t n_keys, const Vector* keys, int64_t n, uint64_t* prefixes,
    const MemoryAccount* account,
) except -1 nogil:
    cdef uint64_t codes[VECTOR_ROWS]
    cdef Vector block
    cdef int64_t m
    cdef int64_t start = 0
    cdef int32_t k
    cdef bint is_first
    while start < n:
        account_check(account)
        m = min(n - start, <int64_t> VECTOR_ROWS)
        is_first = True
        for k in range(n_keys):
            if parts[k].bits == 0 and not parts[k].nullable:
                continue            # the same in all rows, or not in the prefix
            qc_check(parts[k].nullable + parts[k].bits + parts[k].shift <= 64, b"a key's bits are within the prefix")
            block.phys = keys[k].phys
            block.values = (<const char*> keys[k].values) + start * phys_bytes(keys[k].phys)
            block.validity = keys[k].validity + (start >> 3) if keys[k].validity != NULL else NULL
            if block.phys == PHYS_VIEW:
                key_codes(&block, m, parts[k].n_shared, codes)
                add_lengths(&parts[k], <const StringView*> block.values, m, codes)
            else:
                key_codes(&block, m, 0, codes)
            add_key(&parts[k], &block, m, is_first, codes, prefixes + start)
            is_first = False
        if is_first:
            memset(prefixes + start, 0, m * 8)
        start += m
    return 0


cdef int phys_bytes(uint8_t phys) noexcept nogil:
    if phys == PHYS_I128 or phys == PHYS_VIEW:
        return 16
    return (value_bits(phys) + 7) >> 3


cdef void sort_key_words(
    const SortKey* part, const Vector* key, const uint32_t* rows, int64_t n, int64_t offset, uint64_t* words,
) noexcept nogil:
    cdef char values[VECTOR_ROWS * 16]
    cdef uint8_t validity[VECTOR_BITMAP_BYTES]
    cdef uint64_t codes[VECTOR_ROWS]
    cdef SortKey whole = part[0]
    cdef Vector gathered
    qc_check(0 <= n <= VECTOR_ROWS, b"words are computed for at most a vector of rows")
    whole.bits = <uint8_t> (8 * STRING_WORD_BYTES if key.phys == PHYS_VIEW else min(value_bits(key.phys), 63))
    whole.shift = <uint8_t> (63 - whole.bits)
    whole.drop = <uint8_t> (value_bits(key.phys) - whole.bits)
    whole.nullable = True
    whole.low = 0
    whole.high = ones_of(value_bits(key.phys))
    gathered.phys = key.phys
    gathered.values = values
    gathered.validity = NULL
    # The key has the values of a run, whose rows are checked when it is made.
    gather_width(key.values, NO_ROW, phys_bytes(key.phys), rows, n, values)
    if key.validity != NULL:
        gather_validity(key.validity, NO_ROW, rows, n, validity)
        gathered.validity = validity
    key_codes(&gathered, n, offset, codes)
    add_key(&whole, &gathered, n, True, codes, words)


# --- comparing values ---

cdef inline int compare_plain(const Plain* a, int64_t i, const Plain* b, int64_t j) noexcept nogil:
    return (a[i] > b[j]) - (a[i] < b[j])


cdef inline int compare_reals(const Real* a, int64_t i, const Real* b, int64_t j) noexcept nogil:
    if a[i] != a[i] or b[j] != b[j]:
        return (a[i] != a[i]) - (b[j] != b[j])
    return (a[i] > b[j]) - (a[i] < b[j])


cdef int compare_views(const StringView* a, const StringView* b) noexcept nogil:
    cdef uint32_t shorter = a.length if a.length < b.length else b.length
    cdef int order = memcmp(view_data(a), view_data(b), shorter)
    if order != 0:
        return order
    return (a.length > b.length) - (a.length < b.length)


cdef int compare_values(uint8_t phys, const void* a, int64_t i, const void* b, int64_t j) noexcept nogil:
    if phys == PHYS_I64:
        return compare_plain[int64_t](<const int64_t*> a, i, <const int64_t*> b, j)
    if phys == PHYS_I32:
        return compare_plain[int32_t](<const int32_t*> a, i, <const int32_t*> b, j)
    if phys == PHYS_VIEW:
        return compare_views(&(<const StringView*> a)[i], &(<const StringView*> b)[j])
    if phys == PHYS_F64:
        return compare_reals[double](<const double*> a, i, <const double*> b, j)
    if phys == PHYS_I128:
        return compare_plain[int128](<const int128*> a, i, <const int128*> b, j)
    if phys == PHYS_F32:
        return compare_reals[float](<const float*> a, i, <const float*> b, j)
    if phys == PHYS_I16:
        return compare_plain[int16_t](<const int16_t*> a, i, <const int16_t*> b, j)
    if phys == PHYS_I8:
        return compare_plain[int8_t](<const int8_t*> a, i, <const int8_t*> b, j)
    if phys == PHYS_U64:
        return compare_plain[uint64_t](<const uint64_t*> a, i, <const uint64_t*> b, j)
    if phys == PHYS_U32:
        return compare_plain[uint32_t](<const uint32_t*> a, i, <const uint32_t*> b, j)
    if phys == PHYS_U16:
        return compare_plain[uint16_t](<const uint16_t*> a, i, <const uint16_t*> b, j)
    if phys == PHYS_U8 or phys == PHYS_BOOL:
        return compare_plain[uint8_t](<const uint8_t*> a, i, <const uint8_t*> b, j)
    return 0


cdef int sort_compare(
    const SortKey* parts, int32_t first, int32_t n_keys, const Vector* a, int64_t i, const Vector* b, int64_t j,
) noexcept nogil:
    cdef bint valid_a, valid_b
    cdef int order
    cdef int32_t k
    for k in range(first, n_keys):
        valid_a = is_valid(a[k].validity, i)
        valid_b = is_valid(b[k].validity, j)
        if valid_a and valid_b:
            order = compare_values(a[k].phys, a[k].values, i, b[k].values, j)
            if order != 0:
                return -order if parts[k].descending else order
        elif valid_a != valid_b:
            return 1 if valid_a == parts[k].nulls_first else -1
    return 0
