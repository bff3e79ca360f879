"""Join table: the build side of a join, as flat columns and an index from keys to rows."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.exact_values cimport exact_vector
from qcore_ext.compute.row_hash cimport hash_vector
from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch, column_unref
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport DataType, type_equal
from qcore_ext.ground.check cimport qc_check, qc_check_rows, qc_check_selection
from qcore_ext.ground.memory cimport (
    MemoryAccount, Owner, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.dispatch cimport probe_kernels, simd_kernels
from qcore_ext.ground.probe cimport FREE_KEY, Group, Slot
from qcore_ext.join.key_codes cimport key_coder_free, key_codes, key_codes_wide, rows_without_null
from qcore_ext.join.key_compare cimport keys_compare, keys_equal
from qcore_ext.join.hashed_keys cimport hashed_keys_free, hashed_keys_make, hashed_keys_note
from qcore_ext.rows.perfect_hash cimport perfect_hash_test

cdef enum:
    # Rows are separated by the table's filter if it rules out half of a vector. Otherwise it is tried again after this
    # number of rows; a trial takes 3 ns a row.
    FILTER_SHARE = 2
    UNFILTERED_ROWS = 131072


cdef void join_table_free(Owner* self) noexcept nogil:
    cdef JoinTable* table = <JoinTable*> self
    cdef int32_t i
    if table.columns != NULL:
        for i in range(table.n_columns):
            column_unref(table.columns[i])
    struct_free(table.columns)
    struct_free(table.key_columns)
    struct_free(table.value_shifts)
    key_coder_free(&table.coder)
    buffer_unref(table.index_buffer)
    buffer_unref(table.filter_buffer)
    buffer_unref(table.starts_buffer)
    buffer_unref(table.rows_buffer)
    buffer_unref(table.matched_buffer)
    owner_unref(<Owner*> table.account)
    struct_free(table)


cdef JoinTable* join_table_new(MemoryAccount* account) except NULL nogil:
    cdef JoinTable* table = <JoinTable*> struct_new(sizeof(JoinTable))
    table.owner.references = 1
    table.owner.release = join_table_free
    table.account = <MemoryAccount*> owner_ref(<Owner*> account)
    return table


cdef int join_lookup_open(JoinLookup* lookup, int32_t n_keys, MemoryAccount* account) except -1 nogil:
    cdef int64_t n = VECTOR_ROWS
    cdef char* at
    join_lookup_close(lookup)
    # 16 more entries than a vector, because kernels store whole registers.
    lookup.buffer = buffer_new(
        account, n_keys * (sizeof(VectorScratch) + sizeof(Vector)) + (n + 16) * (2 * (8 + 8) + 7 * 4 + 3) + 64
    )
    at = lookup.buffer.data
    lookup.n_keys = n_keys
    lookup.scratch = <VectorScratch*> at
    at += n_keys * sizeof(VectorScratch)
    lookup.codes = <uint64_t*> at
    at += (n + 16) * 8
    lookup.groups = <Group*> at
    lookup.values = <uint64_t*> at
    at += (n + 16) * 8
    lookup.passed_codes = <uint64_t*> at
    at += (n + 16) * 8
    lookup.passed_groups = <Group*> at
    at += (n + 16) * 8
    lookup.passed_slots = <uint32_t*> at
    at += (n + 16) * 4
    lookup.passed = <uint32_t*> at
    at += (n + 16) * 4
    lookup.slot_numbers = <uint32_t*> at
    at += (n + 16) * 4
    lookup.high_codes = <uint32_t*> at
    at += (n + 16) * 4
    lookup.hits = <uint32_t*> at
    at += (n + 16) * 4
    lookup.starts = <uint32_t*> at
    at += (n + 16) * 4
    lookup.counts = <uint32_t*> at
    at += (n + 16) * 4
    lookup.keys = <Vector*> at
    at += n_keys * sizeof(Vector)
    lookup.flags = <uint8_t*> at
    at += n + 16
    lookup.valid = <uint8_t*> at
    at += n + 16
    lookup.passed_flags = <uint8_t*> at
    lookup.n_hits = 0
    lookup.rows_unfiltered = 0
    return 0


cdef void join_lookup_close(JoinLookup* lookup) noexcept nogil:
    buffer_unref(lookup.buffer)
    buffer_unref(lookup.conversion_buffer)
    hashed_keys_free(&lookup.hashed)
    lookup.buffer = NULL
    lookup.conversion_buffer = NULL
    lookup.conversions = NULL


cdef int join_lookup_convert(
    JoinLookup* lookup, MemoryAccount* account, const DataType* given, const DataType* wanted,
) except -1 nogil:
    cdef bint is_any = False
    cdef int32_t k
    buffer_unref(lookup.conversion_buffer)
    lookup.conversion_buffer = NULL
    lookup.conversions = NULL
    for k in range(lookup.n_keys):
        is_any = is_any or not type_equal(&given[k], &wanted[k])
    if not is_any:
        return 0
    lookup.conversion_buffer = buffer_new(
        account, sizeof(KeyConversions) + lookup.n_keys * (sizeof(KeyConversion) + VECTOR_ROWS * 16)
    )
    lookup.conversions = <KeyConversions*> lookup.conversion_buffer.data
    lookup.conversions.keys = <KeyConversion*> (lookup.conversions + 1)
    lookup.conversions.values = <char*> (lookup.conversions.keys + lookup.n_keys)
    for k in range(lookup.n_keys):
        lookup.conversions.keys[k].is_needed = not type_equal(&given[k], &wanted[k])
        lookup.conversions.keys[k].given = given[k]
        lookup.conversions.keys[k].wanted = wanted[k]
    return 0


cdef void convert_keys(JoinLookup* lookup, int64_t n) noexcept nogil:
    """Convert the keys to the table's types. `fits` is 1 for the rows whose keys are values of these types."""
    cdef KeyConversions* conversions = lookup.conversions
    cdef KeyConversion* key
    cdef Vector converted
    cdef int32_t k
    memset(conversions.fits, 1, n)
    for k in range(lookup.n_keys):
        key = &conversions.keys[k]
        if key.is_needed:
            exact_vector(
                &lookup.keys[k], &key.given, &key.wanted, n, conversions.values + k * VECTOR_ROWS * 16,
                conversions.fits_key, &converted,
            )
            lookup.keys[k] = converted
            simd_kernels().mask_and(conversions.fits, conversions.fits_key, conversions.fits, n)


cdef void find_first_slots(
    const uint64_t* keys, int64_t n, uint64_t mask, bint mixed, uint32_t* slot_numbers,
) noexcept nogil:
    cdef int64_t i
    if not mixed:
        probe_kernels().home_slots(keys, n, mask, slot_numbers)
        return
    for i in range(n):
        slot_numbers[i] = <uint32_t> (keys[i] & mask)


cdef void walk_slots(
    const JoinTable* table, const uint64_t* keys, const uint32_t* pending, int64_t n_pending,
    uint32_t* slot_numbers, uint8_t* flags, Group* groups,
) noexcept nogil:
    cdef const Slot* slots = table.slots
    cdef uint64_t mask = table.slot_mask
    cdef bint of_values = table.index == INDEX_VALUES
    cdef int64_t i, at
    cdef uint64_t slot
    for i in range(n_pending):
        at = pending[i]
        slot = slot_numbers[at]
        while True:
            slot = (slot + 1) & mask
            if (slots[slot].key == FREE_KEY) if of_values else (slots[slot].group.count == 0):
                break
            if slots[slot].key == keys[at]:
                slot_numbers[at] = <uint32_t> slot
                groups[at] = slots[slot].group
                flags[at] = 1
                break


cdef void search_slots(
    const JoinTable* table, const uint64_t* keys, uint32_t* slot_numbers, int64_t n, uint8_t* flags, Group* groups,
    uint32_t* scratch,
) noexcept nogil:
    """Find each flagged key from its home slot on. `scratch` has space for n rows."""
    cdef uint8_t pending[VECTOR_ROWS]
    cdef int64_t n_pending
    if probe_kernels().line_slots(
        table.slots, table.index == INDEX_VALUES, keys, slot_numbers, n, flags, pending, groups
    ) > 0:
        n_pending = simd_kernels().mask_rows(pending, n, 0, scratch)
        walk_slots(table, keys, scratch, n_pending, slot_numbers, flags, groups)


cdef bint find_passed(const JoinTable* table, JoinLookup* lookup, int64_t n, bint mixed) noexcept nogil:
    """Find the slots of the rows that the table's filter does not rule out.

    Returns False if these are so many that they are not worth separating. The flags are then still to be found.
    """
    cdef uint64_t* codes = lookup.passed_codes
    cdef uint32_t* numbers = lookup.passed_slots
    cdef uint32_t* passed = lookup.passed
    cdef uint8_t* flags = lookup.passed_flags
    cdef int64_t n_passed, j
    find_first_slots(lookup.codes, n, FILTER_HASHES, mixed, lookup.slot_numbers)
    probe_kernels().filter_test(table.filter, <uint32_t> table.filter_mask, lookup.slot_numbers, n, lookup.flags)
    n_passed = simd_kernels().mask_rows(lookup.flags, n, 0, passed)
    if n_passed <= 0:
        return True
    if n_passed * FILTER_SHARE > n:
        lookup.rows_unfiltered = UNFILTERED_ROWS
        return False
    for j in range(n_passed):
        codes[j] = lookup.codes[passed[j]]
        numbers[j] = <uint32_t> (lookup.slot_numbers[passed[j]] & table.slot_mask)
    memset(flags, 1, n_passed)
    # The array of hits is not used yet.
    search_slots(table, codes, numbers, n_passed, flags, lookup.passed_groups, lookup.hits)
    for j in range(n_passed):
        lookup.flags[passed[j]] = flags[j]
        lookup.groups[passed[j]] = lookup.passed_groups[j]
        lookup.slot_numbers[passed[j]] = numbers[j]
    return True


cdef void find_slots(const JoinTable* table, JoinLookup* lookup, int64_t n, bint mixed) noexcept nogil:
    if table.filter != NULL:
        if lookup.rows_unfiltered > 0:
            lookup.rows_unfiltered -= n
        elif find_passed(table, lookup, n, mixed):
            return
    find_first_slots(lookup.codes, n, table.slot_mask, mixed, lookup.slot_numbers)
    qc_check_rows(
        lookup.slot_numbers, n, <int64_t> table.slot_mask + 1, b"a key's home slot is one of the slots of the table"
    )
    search_slots(table, lookup.codes, lookup.slot_numbers, n, lookup.flags, lookup.groups, lookup.hits)


cdef int find_codes(const JoinTable* table, JoinLookup* lookup, int64_t n) except -1 nogil:
    """Find the keys of codes by a perfect hash, or in the slots. Makes the hash when it is worth it."""
    if lookup.hashed.hash.buffer != NULL:
        perfect_hash_test(
            &lookup.hashed.hash, lookup.hashed.words, lookup.codes, n, lookup.flags, lookup.slot_numbers
        )
        lookup.is_hashed = True
        return 0
    find_slots(table, lookup, n, False)
    if hashed_keys_note(&lookup.hashed, n, table.n_rows):
        return hashed_keys_make(
            &lookup.hashed, table.slots, <int64_t> table.slot_mask + 1, table.n_rows, lookup.buffer.account
        )
    return 0


cdef bint next_equal(const JoinTable* table, JoinLookup* lookup, uint32_t at) noexcept nogil:
    """Find the next slot with the same hash and equal keys. Returns False if there is none."""
    cdef uint64_t slot = lookup.slot_numbers[at]
    while True:
        slot = (slot + 1) & table.slot_mask
        if table.slots[slot].group.count == 0:
            return False
        qc_check(table.slots[slot].group.start < table.n_rows, b"the first row of a group is a row of the table")
        if table.slots[slot].key == lookup.codes[at] and keys_equal(
            lookup.keys, table.columns, table.key_columns, table.n_keys, at,
            group_row(table, table.slots[slot].group.start)
        ):
            lookup.groups[at] = table.slots[slot].group
            return True


cdef void verify_hits(const JoinTable* table, JoinLookup* lookup, int64_t n) noexcept nogil:
    """Compare the keys of hits column by column. For the few hits whose keys differ, continue the search row by
    row.
    """
    cdef uint8_t equal[VECTOR_ROWS]
    cdef uint32_t rows[VECTOR_ROWS]
    cdef int64_t n_hits = lookup.n_hits
    cdef int64_t i
    cdef int64_t n_equal = 0
    cdef int32_t k
    for i in range(n_hits):
        rows[i] = group_row(table, lookup.groups[lookup.hits[i]].start)
    qc_check_rows(rows, n_hits, table.n_rows, b"the first row of a group is a row of the table")
    memset(equal, 1, VECTOR_ROWS)
    for k in range(table.n_keys):
        keys_compare(&lookup.keys[k], table.columns[table.key_columns[k]], lookup.hits, rows, n_hits, equal)
    for i in range(n_hits):
        n_equal += equal[i]
    if n_equal == n_hits:
        return
    for i in range(n_hits):
        if not equal[i] and not next_equal(table, lookup, lookup.hits[i]):
            lookup.flags[lookup.hits[i]] = 0
    lookup.n_hits = simd_kernels().mask_rows(lookup.flags, n, 0, lookup.hits)


cdef bint next_wide(const JoinTable* table, JoinLookup* lookup, uint32_t at) noexcept nogil:
    """Find the next slot with the same wide code. Returns False if there is none."""
    cdef uint64_t slot = lookup.slot_numbers[at]
    while True:
        slot = (slot + 1) & table.slot_mask
        if table.slots[slot].group.count == 0:
            return False
        if table.slots[slot].key == lookup.codes[at] and table.slots[slot].group.count == lookup.high_codes[at]:
            lookup.groups[at] = table.slots[slot].group
            return True


cdef void verify_wide_hits(const JoinTable* table, JoinLookup* lookup, int64_t n) noexcept nogil:
    """Compare the high numbers of hits. For the few hits whose numbers differ, continue the search row by row."""
    cdef const uint32_t* hits = lookup.hits
    cdef const uint32_t* high = lookup.high_codes
    cdef const Group* groups = lookup.groups
    cdef uint32_t differ = 0
    cdef int64_t i
    for i in range(lookup.n_hits):
        differ |= groups[hits[i]].count ^ high[hits[i]]
    if differ == 0:
        return
    for i in range(lookup.n_hits):
        if groups[hits[i]].count != high[hits[i]] and not next_wide(table, lookup, hits[i]):
            lookup.flags[hits[i]] = 0
    lookup.n_hits = simd_kernels().mask_rows(lookup.flags, n, 0, lookup.hits)


cdef int join_lookup_load(
    JoinLookup* lookup, Column** keys, int64_t start, const uint32_t* rows, int64_t n,
) except -1 nogil:
    cdef int32_t k
    qc_check(0 <= n <= VECTOR_ROWS, b"the keys of at most a vector of rows are loaded at a time")
    for k in range(lookup.n_keys):
        column_load(keys[k], start, rows, n, &lookup.scratch[k], &lookup.keys[k])
    if lookup.conversions != NULL:
        convert_keys(lookup, n)
    return 0


cdef int join_table_find(
    const JoinTable* table, JoinLookup* lookup, Column** keys, int64_t start, const uint32_t* rows, int64_t n,
) except -1 nogil:
    cdef int32_t k
    join_lookup_load(lookup, keys, start, rows, n)
    lookup.some_null = rows_without_null(lookup.keys, lookup.n_keys, n, lookup.valid)
    lookup.n_hits = 0
    lookup.is_hashed = False
    if table.index == INDEX_NONE:
        memset(lookup.flags, 0, n)
        return 0
    if table.index == INDEX_EVERY:
        memset(lookup.flags, 1, n)
    elif table.index == INDEX_HASHES:
        for k in range(lookup.n_keys):
            hash_vector(&lookup.keys[k], n, k > 0, lookup.codes, table.account)
        memcpy(lookup.flags, lookup.valid, n)
        find_slots(table, lookup, n, True)
    elif table.index == INDEX_WIDE_CODES:
        key_codes_wide(&table.coder, lookup.keys, n, lookup.codes, lookup.high_codes, lookup.flags)
        find_slots(table, lookup, n, False)
    else:
        key_codes(&table.coder, lookup.keys, n, lookup.codes, lookup.flags)
        if table.index == INDEX_RANKS:
            probe_kernels().rank_test(table.words, lookup.codes, n, lookup.flags)
        elif table.index == INDEX_VALUES:
            find_slots(table, lookup, n, False)
        else:
            find_codes(table, lookup, n)
    if lookup.conversions != NULL:
        simd_kernels().mask_and(lookup.flags, lookup.conversions.fits, lookup.flags, n)
    lookup.n_hits = simd_kernels().mask_rows(lookup.flags, n, 0, lookup.hits)
    qc_check_selection(lookup.hits, lookup.n_hits, n, b"the hits of a vector ascend")
    if table.index == INDEX_HASHES:
        verify_hits(table, lookup, n)
    elif table.index == INDEX_WIDE_CODES:
        verify_wide_hits(table, lookup, n)
    return 0


cdef void join_table_groups(const JoinTable* table, JoinLookup* lookup, int64_t n_rows) noexcept nogil:
    cdef const Group* groups = lookup.groups
    cdef const uint32_t* starts = table.group_starts
    cdef const uint32_t* hits = lookup.hits
    cdef uint32_t* out = lookup.starts
    cdef uint32_t* counts = lookup.counts
    cdef int64_t n = lookup.n_hits
    cdef int64_t i
    cdef uint32_t rank
    qc_check(table.index != INDEX_VALUES, b"slots of values have no groups")
    if table.index == INDEX_EVERY:
        memset(out, 0, n * 4)
        for i in range(n):
            counts[i] = <uint32_t> table.n_rows
    elif table.index == INDEX_RANKS:
        probe_kernels().ranks(table.words, lookup.codes, hits, n, out)
        if not table.unique:
            for i in range(n):
                rank = out[i]
                qc_check(starts[rank] < starts[rank + 1] <= table.n_rows, b"the starts of groups ascend")
                out[i] = starts[rank]
                counts[i] = starts[rank + 1] - starts[rank]
    elif lookup.is_hashed:
        if n == n_rows:
            memcpy(out, lookup.slot_numbers, n * sizeof(uint32_t))
        else:
            for i in range(n):
                out[i] = lookup.slot_numbers[hits[i]]
        if not table.unique:
            for i in range(n):
                counts[i] = lookup.hashed.counts[out[i]]
    else:
        for i in range(n):
            out[i] = groups[hits[i]].start
        if not table.unique:
            for i in range(n):
                counts[i] = groups[hits[i]].count
