"""Array groups: the groups of keys with few possible values, looked up in an array without hashing or comparing."""

from libc.stdint cimport (
    INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport VECTOR_ROWS, StringView, Vector
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_U16, PHYS_U32, PHYS_VIEW, DataType,
)
from qcore_ext.ground.bitmap cimport bit_get
from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.dispatch cimport grouping_kernels
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, buffer_grow, buffer_new, buffer_unref, bytes_fill, struct_free, struct_new,
)

cdef enum:
    CODES_MAX = 65536           # 256 KB of groups, which fit in the second-level cache
    REBUILDS_MAX = 32
    # The first slack of a lone key's range is a 16th of its length, each next one twice as much, up to the length.
    # Keys in random order have nearly the whole range in their first vector; ascending keys extend it again and again.
    FIRST_SLACK = 4

ctypedef fused CodedInteger:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t


cdef ArrayGroups* array_groups_new(
    MemoryAccount* account, const DataType* types, int32_t n_columns,
) except NULL nogil:
    cdef ArrayGroups* direct = <ArrayGroups*> struct_new(sizeof(ArrayGroups))
    cdef int32_t c
    cdef uint8_t phys
    direct.account = account
    direct.enabled = n_columns <= DIRECT_COLUMNS_MAX
    direct.n_columns = n_columns
    if direct.enabled:
        for c in range(n_columns):
            phys = types[c].phys
            direct.fields[c].phys = phys
            if phys != PHYS_VIEW and not (PHYS_BOOL <= phys <= PHYS_U32):
                direct.enabled = False
        direct.is_lone = direct.enabled and n_columns == 1 and types[0].phys != PHYS_VIEW
    return direct


cdef void array_groups_free(ArrayGroups* direct) noexcept nogil:
    if direct == NULL:
        return
    buffer_unref(direct.groups)
    buffer_unref(direct.codes)
    struct_free(direct)


cdef void array_groups_clear(ArrayGroups* direct) noexcept nogil:
    if direct.is_lone:
        # The next keys may be in another range.
        drop_groups(direct)
        direct.fields[0].seen = False
        direct.enabled = True
    elif direct.groups != NULL:
        memset(direct.groups.data, 0xFF, direct.n_codes * sizeof(uint32_t))


cdef void drop_groups(ArrayGroups* direct) noexcept nogil:
    buffer_unref(direct.groups)
    direct.groups = NULL
    direct.coded = False


# --- numbering ---

cdef uint64_t add_integers(
    const CodedInteger* values, const uint8_t* validity, int64_t n, int64_t low, uint64_t span, uint32_t stride,
    uint32_t* codes,
) noexcept nogil:
    """Add each row's number times stride to its code. The result is not zero if a value is outside low..low + span - 1.
    """
    cdef uint64_t distance
    cdef uint64_t outside = 0
    cdef int64_t i
    if validity == NULL:
        for i in range(n):
            distance = <uint64_t> <int64_t> values[i] - <uint64_t> low
            outside |= distance >= span
            codes[i] += <uint32_t> (distance + 1) * stride
    else:
        for i in range(n):
            if bit_get(validity, i):
                distance = <uint64_t> <int64_t> values[i] - <uint64_t> low
                outside |= distance >= span
                codes[i] += <uint32_t> (distance + 1) * stride
    return outside


cdef uint32_t add_strings(
    const uint32_t* words, const uint8_t* validity, int64_t n, uint32_t low, uint32_t span, uint32_t stride,
    uint32_t* codes,
) noexcept nogil:
    """Like add_integers. The number of a string is the one of GroupingKernels.add_letters."""
    cdef uint32_t distance
    cdef uint32_t outside = 0
    cdef int64_t i
    if validity == NULL:
        return grouping_kernels().add_letters(words, n, low, span, stride, codes)
    for i in range(n):
        if bit_get(validity, i):
            distance = words[4 * i] + words[4 * i + 1] - low
            outside |= (words[4 * i] >> 1) | <uint32_t> (distance >= span)
            codes[i] += (distance + 1) * stride
    return outside


cdef bint array_groups_encode(ArrayGroups* direct, const Vector* keys, int64_t n) noexcept nogil:
    cdef uint32_t* codes = <uint32_t*> direct.codes.data
    cdef DirectField* field
    cdef const void* values
    cdef const uint8_t* validity
    cdef uint64_t span
    cdef uint64_t outside = 0
    cdef int32_t c
    memset(codes, 0, n * sizeof(uint32_t))
    for c in range(direct.n_columns):
        field = &direct.fields[c]
        values = keys[c].values
        validity = keys[c].validity
        span = <uint64_t> (field.high - field.low + 1) if field.seen else 0
        if field.phys == PHYS_VIEW:
            outside |= add_strings(
                <const uint32_t*> values, validity, n, <uint32_t> field.low, <uint32_t> span, field.stride, codes
            )
        elif field.phys == PHYS_I64:
            outside |= add_integers[int64_t](<const int64_t*> values, validity, n, field.low, span, field.stride, codes)
        elif field.phys == PHYS_I32:
            outside |= add_integers[int32_t](<const int32_t*> values, validity, n, field.low, span, field.stride, codes)
        elif field.phys == PHYS_I16:
            outside |= add_integers[int16_t](<const int16_t*> values, validity, n, field.low, span, field.stride, codes)
        elif field.phys == PHYS_I8:
            outside |= add_integers[int8_t](<const int8_t*> values, validity, n, field.low, span, field.stride, codes)
        elif field.phys == PHYS_U32:
            outside |= add_integers[uint32_t](
                <const uint32_t*> values, validity, n, field.low, span, field.stride, codes
            )
        elif field.phys == PHYS_U16:
            outside |= add_integers[uint16_t](
                <const uint16_t*> values, validity, n, field.low, span, field.stride, codes
            )
        else:
            outside |= add_integers[uint8_t](<const uint8_t*> values, validity, n, field.low, span, field.stride, codes)
        if outside:
            return False
    return True


cdef bint array_groups_find(ArrayGroups* direct, const Vector* keys, int64_t n, uint32_t* groups) noexcept nogil:
    cdef const uint32_t* known
    cdef const uint32_t* codes
    cdef uint32_t missing = 0
    cdef int64_t i
    direct.coded = False
    if not direct.enabled or direct.groups == NULL:
        return False
    if not array_groups_encode(direct, keys, n):
        return False
    direct.coded = True
    known = <const uint32_t*> direct.groups.data
    codes = <const uint32_t*> direct.codes.data
    qc_check_rows(codes, n, direct.n_codes, b"a row's code is one of the codes")
    for i in range(n):
        groups[i] = known[codes[i]]
        missing |= groups[i]
    return missing >> 31 == 0


cdef bint array_groups_find_some(
    ArrayGroups* direct, const Vector* keys, int64_t n, const uint8_t* bits, uint32_t* groups,
) noexcept nogil:
    cdef int64_t i
    cdef uint32_t missing = 0
    cdef uint32_t unknown
    if array_groups_find(direct, keys, n, groups):
        return True
    if not direct.coded:
        return False
    for i in range(n):
        unknown = groups[i] >> 31
        missing |= unknown & bit_get(bits, i)
        groups[i] &= unknown - 1
    return missing == 0


# --- learning ---

cdef void range_of_integers(
    const CodedInteger* values, const uint8_t* validity, int64_t n, DirectField* field,
) noexcept nogil:
    cdef int64_t value, low, high
    cdef int64_t i
    cdef bint seen = field.seen
    low = field.low
    high = field.high
    for i in range(n):
        if validity == NULL or bit_get(validity, i):
            value = <int64_t> values[i]
            low = value if not seen or value < low else low
            high = value if not seen or value > high else high
            seen = True
    field.low = low
    field.high = high
    field.seen = seen


cdef bint range_of_strings(
    const StringView* views, const uint8_t* validity, int64_t n, DirectField* field,
) noexcept nogil:
    """Extend the range by the strings' numbers. Returns False if a string has more than one byte."""
    cdef int64_t value
    cdef int64_t i
    for i in range(n):
        if validity == NULL or bit_get(validity, i):
            if views[i].length > 1:
                return False
            value = 0 if views[i].length == 0 else 1 + <int64_t> <uint8_t> views[i].prefix[0]
            field.low = value if not field.seen or value < field.low else field.low
            field.high = value if not field.seen or value > field.high else field.high
            field.seen = True
    return True


cdef bint see_values(DirectField* field, const Vector* keys, int64_t n) noexcept nogil:
    """Extend the range of a column to a vector's values. Returns False if one of them has no number."""
    cdef const void* values = keys.values
    if field.phys == PHYS_VIEW:
        return range_of_strings(<const StringView*> values, keys.validity, n, field)
    if field.phys == PHYS_I64:
        range_of_integers[int64_t](<const int64_t*> values, keys.validity, n, field)
    elif field.phys == PHYS_I32:
        range_of_integers[int32_t](<const int32_t*> values, keys.validity, n, field)
    elif field.phys == PHYS_I16:
        range_of_integers[int16_t](<const int16_t*> values, keys.validity, n, field)
    elif field.phys == PHYS_I8:
        range_of_integers[int8_t](<const int8_t*> values, keys.validity, n, field)
    elif field.phys == PHYS_U32:
        range_of_integers[uint32_t](<const uint32_t*> values, keys.validity, n, field)
    elif field.phys == PHYS_U16:
        range_of_integers[uint16_t](<const uint16_t*> values, keys.validity, n, field)
    else:
        range_of_integers[uint8_t](<const uint8_t*> values, keys.validity, n, field)
    return True


cdef bint is_codable(const DirectField* field, int64_t codes_max) noexcept nogil:
    """Whether the column alone has at most that many codes."""
    if not field.seen:
        return True
    # The subtraction is unsigned, so that it does not overflow for a range over most of the 64 bits.
    if <uint64_t> field.high - <uint64_t> field.low >= <uint64_t> codes_max:
        return False
    return field.low >= -(INT64_MAX // 2) and field.high <= INT64_MAX // 2


cdef void array_groups_see(ArrayGroups* direct, const Vector* keys, int64_t n) noexcept nogil:
    see_values(&direct.fields[0], keys, n)


cdef int move_codes(ArrayGroups* direct, const DirectField* old, int64_t n_old) except -1 nogil:
    """Make the array for the field's new range. It keeps the groups of the n_old codes that it had."""
    cdef const DirectField* field = &direct.fields[0]
    cdef int64_t code_bytes = sizeof(uint32_t)
    cdef int64_t shift = old.low - field.low if old.seen else 0
    cdef Buffer* moved
    cdef char* first
    qc_check(shift >= 0 and n_old + shift <= direct.n_codes, b"the new range has all old codes")
    if shift == 0:
        buffer_grow(&direct.groups, n_old * code_bytes, direct.n_codes * code_bytes)
        first = direct.groups.data + n_old * code_bytes
        bytes_fill(first, 0xFF, (direct.n_codes - n_old) * code_bytes, direct.account)
        return 0
    moved = buffer_new(direct.account, direct.n_codes * code_bytes)
    # Code 0 is that of the null, and stays.
    memcpy(moved.data, direct.groups.data, code_bytes)
    memcpy(moved.data + (1 + shift) * code_bytes, direct.groups.data + code_bytes, (n_old - 1) * code_bytes)
    buffer_unref(direct.groups)
    direct.groups = moved
    bytes_fill(moved.data + code_bytes, 0xFF, shift * code_bytes, direct.account)
    first = moved.data + (n_old + shift) * code_bytes
    bytes_fill(first, 0xFF, (direct.n_codes - n_old - shift) * code_bytes, direct.account)
    return 0


cdef ArrayAnswer array_groups_extend(
    ArrayGroups* direct, const Vector* keys, int64_t n, int64_t codes_max,
) except <ArrayAnswer> -1 nogil:
    cdef DirectField* field = &direct.fields[0]
    cdef DirectField old = field[0]
    cdef int64_t n_old = direct.n_codes
    cdef int64_t n_bytes, span
    cdef bint done = False
    see_values(field, keys, n)
    direct.enabled = is_codable(field, codes_max)
    if not direct.enabled:
        drop_groups(direct)
        return ARRAY_TOO_LARGE
    if old.seen:
        # Add to a side that has grown, so that ascending values seldom rebuild the array.
        span = (field.high - field.low + 1) >> max(FIRST_SLACK - direct.n_rebuilds, <int64_t> 0)
        direct.n_rebuilds += 1
        field.high += span if field.high > old.high else 0
        field.low -= span if field.low < old.low else 0
    field.stride = 1
    direct.n_codes = field.high - field.low + 2 if field.seen else 1
    if direct.codes == NULL:
        direct.codes = buffer_new(direct.account, VECTOR_ROWS * sizeof(uint32_t))
    n_bytes = direct.n_codes * <int64_t> sizeof(uint32_t)
    # Both arrays take memory while the codes move.
    if direct.groups != NULL and 2 * n_bytes <= bytes_left(direct.account):
        direct.coded = False
        try:
            move_codes(direct, &old, n_old)
            done = True
        finally:
            if not done:
                drop_groups(direct)         # it is too short for the codes
        return ARRAY_KEPT
    drop_groups(direct)
    direct.groups = buffer_new(direct.account, n_bytes)
    bytes_fill(direct.groups.data, 0xFF, n_bytes, direct.account)
    return ARRAY_EMPTY


cdef bint widen_ranges(ArrayGroups* direct, const Vector* keys, int64_t n) noexcept nogil:
    """Extend the ranges to the vector's values. Returns False if values have no number or there are too many codes."""
    cdef DirectField* field
    cdef int32_t c
    cdef int64_t slack, total, loose_total, span
    cdef bint loose
    for c in range(direct.n_columns):
        field = &direct.fields[c]
        if not see_values(field, &keys[c], n) or not is_codable(field, CODES_MAX):
            return False
    # Extend each range by half of its length on both sides if the codes are still few. If values grow slowly, this
    # avoids rebuilds.
    total = 1
    loose_total = 1
    for c in range(direct.n_columns):
        field = &direct.fields[c]
        span = field.high - field.low + 1 if field.seen else 0
        total *= span + 1
        loose_total *= span + 2 * (span >> 1) + 1
        if total > CODES_MAX:
            return False
    loose = loose_total <= CODES_MAX
    total = 1
    for c in range(direct.n_columns):
        field = &direct.fields[c]
        field.stride = <uint32_t> total
        slack = (field.high - field.low + 1) >> 1 if loose and field.seen else 0
        field.low -= slack
        field.high += slack
        total *= (field.high - field.low + 1 if field.seen else 0) + 1
    direct.n_codes = total
    return True


cdef int rebuild(ArrayGroups* direct, const Vector* keys, int64_t n) except -1 nogil:
    cdef Buffer* groups
    direct.n_rebuilds += 1
    if direct.n_rebuilds > REBUILDS_MAX or not widen_ranges(direct, keys, n):
        direct.enabled = False
        drop_groups(direct)
        return 0
    if direct.codes == NULL:
        direct.codes = buffer_new(direct.account, VECTOR_ROWS * sizeof(uint32_t))
    groups = buffer_new(direct.account, direct.n_codes * sizeof(uint32_t))
    buffer_unref(direct.groups)
    direct.groups = groups
    array_groups_clear(direct)
    direct.coded = array_groups_encode(direct, keys, n)
    return 0


cdef int array_groups_learn(
    ArrayGroups* direct, const Vector* keys, int64_t n, const uint32_t* groups,
) except -1 nogil:
    cdef uint32_t* known
    cdef const uint32_t* codes
    cdef int64_t i
    if not direct.enabled:
        return 0
    if not direct.coded:
        rebuild(direct, keys, n)
    if direct.coded:
        known = <uint32_t*> direct.groups.data
        codes = <const uint32_t*> direct.codes.data
        qc_check_rows(codes, n, direct.n_codes, b"a row's code is one of the codes")
        for i in range(n):
            known[codes[i]] = groups[i]
    return 0
