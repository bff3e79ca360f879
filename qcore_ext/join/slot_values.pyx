"""Slot values: the columns of a join table's rows in the slots of its index, instead of the numbers of the rows."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport FLAT, STORE_CANONICAL, VECTOR_ROWS, Column, column_unref
from qcore_ext.data.schema cimport phys_width
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, account_check, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.probe cimport FREE_KEY
from qcore_ext.join.hashed_keys cimport HASHED_ROWS_MAX
from qcore_ext.join.key_codes cimport key_codes
from qcore_ext.join.table cimport JoinLookup, JoinTable, find_first_slots, join_lookup_load

cdef enum:
    # Vectors of the sample of keys. If each of a million keys occurs twice, it is likely to have 32 keys twice.
    SAMPLE_VECTORS = 4
    SAMPLE_SLOTS = 32768

ctypedef fused Narrow:
    uint8_t
    uint16_t
    uint32_t


cdef bint is_key(const JoinTable* table, int32_t column) noexcept nogil:
    cdef int32_t k
    for k in range(table.n_keys):
        if table.key_columns[k] == column:
            return True
    return False


cdef bint place_columns(JoinTable* table) except -1 nogil:
    """Find the place of each column in the slots' values. Returns False if they do not fit."""
    cdef const Column* column
    cdef int n_bits = 0
    cdef int width
    cdef int32_t i
    struct_free(table.value_shifts)
    table.value_shifts = <int32_t*> struct_new(table.n_columns * sizeof(int32_t) + 1)
    for i in range(table.n_columns):
        column = table.columns[i]
        if is_key(table, i):
            continue
        width = phys_width(column.type.phys)
        if column.encoding != FLAT or column.storage != STORE_CANONICAL or column.validity != NULL or width == 0:
            return False
        table.value_shifts[i] = n_bits
        n_bits += 8 * width
    return n_bits <= 64


cdef bint sample_repeats(
    const JoinTable* table, Column** keys, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil:
    """Whether a key occurs twice in some vectors of the rows."""
    cdef Buffer* seen = buffer_new(account, SAMPLE_SLOTS * sizeof(uint64_t))
    cdef uint64_t* slots = <uint64_t*> seen.data
    cdef int64_t start, n, v, i
    cdef uint64_t code
    cdef uint32_t at
    try:
        memset(slots, 0xFF, SAMPLE_SLOTS * sizeof(uint64_t))
        for v in range(SAMPLE_VECTORS):
            # Vectors of a store begin at multiples of VECTOR_ROWS.
            start = table.n_rows * v // SAMPLE_VECTORS // VECTOR_ROWS * VECTOR_ROWS
            n = min(<int64_t> VECTOR_ROWS, table.n_rows - start)
            account_check(account)
            join_lookup_load(lookup, keys, start, NULL, n)
            key_codes(&table.coder, lookup.keys, n, lookup.codes, lookup.flags)
            find_first_slots(lookup.codes, n, SAMPLE_SLOTS - 1, False, lookup.slot_numbers)
            lookup.n_hits = simd_kernels().mask_rows(lookup.flags, n, 0, lookup.hits)
            for i in range(lookup.n_hits):
                code = lookup.codes[lookup.hits[i]]
                at = lookup.slot_numbers[lookup.hits[i]]
                while slots[at] != FREE_KEY and slots[at] != code:
                    at = (at + 1) & (SAMPLE_SLOTS - 1)
                if slots[at] == code:
                    return True
                slots[at] = code
    finally:
        buffer_unref(seen)
    return False


cdef bint slot_values_suit(
    JoinTable* table, Column** keys, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil:
    # A table of few rows has its keys in a perfect hash, and its columns in the second-level cache.
    if table.n_rows <= HASHED_ROWS_MAX or table.coder.range == FREE_KEY:
        return False
    return place_columns(table) and not sample_repeats(table, keys, lookup, account)


cdef void pack(const Narrow* values, int64_t n, int shift, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] |= <uint64_t> values[i] << shift


cdef int slot_values_pack(const JoinTable* table, int64_t start, int64_t n, uint64_t* out) except -1 nogil:
    cdef const Column* column
    cdef const char* values
    cdef int32_t i
    cdef int width, shift
    qc_check((start >= 0) & (start + n <= table.n_rows), b"the rows whose values go into slots are rows of the table")
    memset(out, 0, n * sizeof(uint64_t))
    for i in range(table.n_columns):
        if is_key(table, i):
            continue
        column = table.columns[i]
        width = phys_width(column.type.phys)
        shift = table.value_shifts[i]
        values = <const char*> column.values + (column.offset + start) * width
        if width == 8:
            memcpy(out, values, n * sizeof(uint64_t))
        elif width == 4:
            pack[uint32_t](<const uint32_t*> values, n, shift, out)
        elif width == 2:
            pack[uint16_t](<const uint16_t*> values, n, shift, out)
        else:
            pack[uint8_t](<const uint8_t*> values, n, shift, out)
    return 0


cdef void unpack(const uint64_t* values, int64_t n, int shift, Narrow* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <Narrow> (values[i] >> shift)


cdef void slot_values_unpack(const uint64_t* values, int64_t n, int shift, int width, void* out) noexcept nogil:
    if width == 4:
        unpack[uint32_t](values, n, shift, <uint32_t*> out)
    elif width == 2:
        unpack[uint16_t](values, n, shift, <uint16_t*> out)
    else:
        unpack[uint8_t](values, n, shift, <uint8_t*> out)


cdef void slot_values_drop_columns(JoinTable* table) noexcept nogil:
    cdef int32_t i
    for i in range(table.n_columns):
        if not is_key(table, i):
            column_unref(table.columns[i])
            table.columns[i] = NULL
