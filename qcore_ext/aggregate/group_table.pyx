"""Group table: finds or creates the group of each key of a vector. Groups are numbered from 0 without gaps."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.row_hash cimport HASH_TAG_SHIFT, hash_vector
from qcore_ext.data.column cimport (
    VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, StringView, Vector, column_new_flat,
)
from qcore_ext.data.schema cimport PHYS_VIEW, DataType
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.dispatch cimport grouping_kernels
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, Owner, account_check, buffer_grow, buffer_new, buffer_new_zeroed, buffer_unref,
    bytes_fill, owner_ref, struct_free, struct_new,
)
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.aggregate.array_groups cimport (
    ARRAY_EMPTY, ARRAY_TOO_LARGE, ArrayAnswer, ArrayGroups, array_groups_clear, array_groups_encode,
    array_groups_extend, array_groups_find, array_groups_find_some, array_groups_free, array_groups_learn,
    array_groups_new, array_groups_see,
)
from qcore_ext.aggregate.key_packing cimport (
    KEYS_NONE, KEYS_ONE_WORD, KEYS_STORED, KEYS_TWO_WORDS, key_layout_choose, key_pack, key_unpack, key_words,
)
from qcore_ext.rows.key_columns cimport (
    key_columns_append, key_columns_column, key_columns_compare, key_columns_free, key_columns_new, key_columns_vector,
)
from qcore_ext.rows.known_texts cimport (
    TextsDraft, known_texts_begin, known_texts_end, known_texts_find, known_texts_free, known_texts_note,
    texts_draft_free, texts_draft_put, texts_pick,
)
from qcore_ext.rows.perfect_hash cimport (
    GROUP_ROWS_A_KEY, perfect_hash_find, perfect_hash_free, perfect_hash_make, perfect_hash_note,
)

cdef extern from "native/mix.h" nogil:
    uint64_t qc_mix(uint64_t value)

cdef enum:
    SLOTS_MIN = 64
    GROUPS_MIN = 64
    # Up to this number the slots fit in the caches and are at most a quarter full: at 1K groups a load of 0.12 instead
    # of 0.49 takes 1.6 instead of 2.8 ns a row. In a larger table each row misses the cache, and memory counts more.
    SPARSE_SLOTS_MAX = 524288
    # A lone integer key is looked up in an array of at most that many codes a group, 4 bytes each. Any key may have 64K
    # codes, and none more than 16M.
    CODES_PER_GROUP_MAX = 32
    CODES_FREE = 65536
    CODES_MAX = 16777216
    TRY_ARRAY_AT = 4096
    HASHED_GROUPS_MAX = 131072   # more are partitioned first; a megabyte of words, and as much of the hash

cdef int64_t GROUPS_MAX = 0xFFFFFFFE
cdef uint32_t NO_GROUP = 0xFFFFFFFF         # of a code whose key has no group yet
cdef uint32_t[VECTOR_ROWS] NO_NULLS         # the null masks of rows whose columns are all valid
cdef uint32_t NO_SLOT = 0                   # the only slot of a table without slots
cdef uint32_t[VECTOR_ROWS] EVERY_ROW        # the rows of a vector


cdef void number_rows() noexcept:
    cdef int i
    for i in range(VECTOR_ROWS):
        EVERY_ROW[i] = <uint32_t> i


number_rows()


ctypedef struct StoredSlot:
    uint32_t tag                # upper half of the hash
    uint32_t group

ctypedef struct GroupScratch:
    uint64_t low[VECTOR_ROWS]
    uint64_t high[VECTOR_ROWS]
    uint64_t hashes[VECTOR_ROWS]
    uint64_t moved_low[VECTOR_ROWS]     # keys of groups that move to a larger table
    uint64_t moved_high[VECTOR_ROWS]
    uint64_t moved_hashes[VECTOR_ROWS]
    uint32_t nulls[VECTOR_ROWS]
    uint32_t pending[VECTOR_ROWS]       # rows whose group is not known yet
    uint32_t rows[VECTOR_ROWS]          # candidates: rows[i] may belong to groups[i]
    uint32_t groups[VECTOR_ROWS]
    uint32_t fresh[VECTOR_ROWS]         # rows that made a new group
    uint8_t hit[VECTOR_ROWS]
    uint32_t unknown[VECTOR_ROWS]       # rows whose text is not known
    uint32_t unknown_groups[VECTOR_ROWS]
    StringView views[VECTOR_ROWS]       # their texts, or those of groups
    uint8_t validity[VECTOR_BITMAP_BYTES]


cdef GroupTable* group_table_new(
    MemoryAccount* account, const DataType* types, int32_t n_columns, Buffer* scratch,
) except NULL nogil:
    cdef GroupTable* table = <GroupTable*> struct_new(sizeof(GroupTable))
    cdef bint done = False
    try:
        table.account = account
        table.is_part = scratch != NULL
        table.n_columns = n_columns
        table.types = <DataType*> struct_new(max(n_columns, 1) * sizeof(DataType))
        memcpy(table.types, types, n_columns * sizeof(DataType))
        key_layout_choose(&table.layout, types, n_columns)
        if table.layout.mode == KEYS_NONE:
            table.n_groups = 1
        elif scratch == NULL:
            table.scratch = buffer_new(account, GROUP_SCRATCH_BYTES)
        else:
            table.scratch = <Buffer*> owner_ref(<Owner*> scratch)
        if table.layout.mode == KEYS_STORED:
            table.stored = key_columns_new(account, types, n_columns)
        elif table.layout.mode != KEYS_NONE and scratch == NULL:
            table.direct = array_groups_new(account, types, n_columns)
        table.try_array_at = TRY_ARRAY_AT
        done = True
    finally:
        if not done:
            group_table_free(table)
    return table


cdef void group_table_free(GroupTable* table) noexcept nogil:
    if table == NULL:
        return
    struct_free(table.types)
    buffer_unref(table.slots)
    buffer_unref(table.words)
    buffer_unref(table.nulls)
    buffer_unref(table.scratch)
    perfect_hash_free(&table.perfect)
    known_texts_free(&table.texts)
    key_columns_free(table.stored)
    array_groups_free(table.direct)
    struct_free(table)


cdef int group_table_clear(GroupTable* table) except -1 nogil:
    cdef KeyColumns* stored
    if table.layout.mode == KEYS_NONE:
        return 0
    if table.layout.mode == KEYS_STORED:
        # Output columns may point to the old arena.
        stored = key_columns_new(table.account, table.types, table.n_columns)
        key_columns_free(table.stored)
        table.stored = stored
    table.try_array_at = TRY_ARRAY_AT
    perfect_hash_free(&table.perfect)
    known_texts_free(&table.texts)
    table.n_in_slots = 0
    if table.slots != NULL:
        bytes_fill(table.slots.data, 0, table.n_slots * slot_width(table.layout.mode), table.account)
    if table.direct != NULL:
        array_groups_clear(table.direct)
    table.n_groups = 0
    return 0


cdef int slot_width(int mode) noexcept nogil:
    return sizeof(StoredSlot) if mode == KEYS_STORED else sizeof(uint32_t)


cdef int64_t group_table_slot_bytes(const GroupTable* table) noexcept nogil:
    return table.n_slots * slot_width(table.layout.mode)


cdef inline int key_bytes(int mode) noexcept nogil:
    """The bytes of a group in `words`."""
    return 16 if mode == KEYS_TWO_WORDS else 8


cdef int64_t group_table_word_bytes(const GroupTable* table) noexcept nogil:
    return table.n_groups * key_bytes(table.layout.mode)


# --- growing ---

cdef inline const uint32_t* null_masks(const GroupTable* table, int64_t start) noexcept nogil:
    """The null masks of the groups from start, or NULL: no key has a null."""
    return (<const uint32_t*> table.nulls.data) + start if table.nulls != NULL else NULL


cdef int fill_packed_slots(GroupTable* table) except -1 nogil:
    """Insert all groups of packed keys into empty slots."""
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef uint32_t* slots = <uint32_t*> table.slots.data
    cdef const uint64_t* words = <const uint64_t*> table.words.data
    cdef const uint64_t* hashes = scratch.moved_hashes
    cdef const uint32_t* nulls
    cdef int64_t mask = table.n_slots - 1
    cdef int64_t n, i, at
    cdef int64_t start = 0
    qc_check(table.n_groups <= mask, b"a slot of a group table stays empty")
    while start < table.n_groups:
        account_check(table.account)
        n = min(table.n_groups - start, <int64_t> VECTOR_ROWS)
        nulls = null_masks(table, start)
        if nulls == NULL:
            nulls = NO_NULLS
        if table.layout.mode == KEYS_ONE_WORD:
            grouping_kernels().hash_one(words + start, nulls, n, scratch.moved_hashes)
        else:
            for i in range(n):
                scratch.moved_low[i] = words[2 * (start + i)]
                scratch.moved_high[i] = words[2 * (start + i) + 1]
            grouping_kernels().hash_two(scratch.moved_low, scratch.moved_high, nulls, n, scratch.moved_hashes)
        for i in range(n):
            at = <int64_t> hashes[i] & mask
            while slots[at] != 0:
                at = (at + 1) & mask
            slots[at] = <uint32_t> (start + i + 1)
        start += n
    return 0


cdef int fill_stored_slots(
    StoredSlot* slots, int64_t mask, const uint64_t* hashes, int64_t n_groups, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t i, at
    qc_check(n_groups <= mask, b"a slot of a group table stays empty")
    for i in range(n_groups):
        if i % CHECK_ROWS == 0:
            account_check(account)
        at = <int64_t> hashes[i] & mask
        while slots[at].group != 0:
            at = (at + 1) & mask
        slots[at].tag = <uint32_t> (hashes[i] >> HASH_TAG_SHIFT)
        slots[at].group = <uint32_t> (i + 1)
    return 0


cdef int64_t limit_of(const GroupTable* table, int64_t n_slots) noexcept nogil:
    """The number of groups at which n_slots reaches its load factor.

    A table that is a part is never sparse, because it shares the second-level cache with the rows of all parts.
    """
    cdef bint sparse = not table.is_part and n_slots <= SPARSE_SLOTS_MAX
    return n_slots // (4 if sparse else 2)


cdef int resize_slots(GroupTable* table, int64_t n_slots) except -1 nogil:
    cdef Buffer* slots = buffer_new_zeroed(table.account, n_slots * slot_width(table.layout.mode))
    buffer_unref(table.slots)
    table.slots = slots
    table.n_slots = n_slots
    table.groups_limit = limit_of(table, n_slots)
    table.n_in_slots = table.n_groups
    if table.n_groups == 0:
        return 0
    if table.layout.mode != KEYS_STORED:
        return fill_packed_slots(table)
    return fill_stored_slots(
        <StoredSlot*> slots.data, n_slots - 1, <uint64_t*> table.words.data, table.n_groups, table.account
    )


cdef int reserve_keys(GroupTable* table, int64_t n_more) except -1 nogil:
    """Reserve space for n_more new groups in the keys by group."""
    cdef int64_t n_groups = table.n_groups + n_more
    cdef int64_t capacity = max(table.capacity, <int64_t> GROUPS_MIN)
    cdef int word_bytes = key_bytes(table.layout.mode)
    if n_groups > GROUPS_MAX:
        return raise_execution(b"an aggregation has more than 2**32 - 2 groups in one driver; use more drivers")
    if n_groups > table.capacity:
        while capacity < n_groups:
            capacity *= 2
        if table.words == NULL:
            table.words = buffer_new(table.account, capacity * word_bytes)
        else:
            buffer_grow(&table.words, table.n_groups * word_bytes, capacity * word_bytes)
        if table.nulls != NULL:
            buffer_grow(&table.nulls, table.n_groups * 4, capacity * 4)
        table.capacity = capacity
    return 0


cdef int reserve_nulls(GroupTable* table, const uint32_t* nulls, int64_t n) except -1 nogil:
    """Make the null masks of all groups, if one of n keys has a null and none had one before."""
    if table.nulls == NULL and nulls != NO_NULLS and any_null(nulls, n):
        table.nulls = buffer_new(table.account, max(table.capacity, <int64_t> GROUPS_MIN) * 4)
        bytes_fill(table.nulls.data, 0, table.n_groups * 4, table.account)
    return 0


cdef int reserve(GroupTable* table, int64_t n_more) except -1 nogil:
    """Reserve space for n_more new groups, in the slots and in the keys by group."""
    cdef int64_t n_groups = table.n_groups + n_more
    cdef int64_t n_slots = max(table.n_slots, <int64_t> SLOTS_MIN)
    reserve_keys(table, n_more)
    if n_groups <= table.groups_limit:
        return 0
    while n_groups > limit_of(table, n_slots):
        n_slots *= 2
    return resize_slots(table, n_slots)


# --- packed keys ---

cdef bint any_null(const uint32_t* nulls, int64_t n) noexcept nogil:
    cdef uint32_t any = 0
    cdef int64_t i
    for i in range(n):
        any |= nulls[i]
    return any != 0


cdef int64_t list_misses(const uint8_t* hit, int64_t n, uint32_t* pending) noexcept nogil:
    cdef int64_t i
    cdef int64_t count = 0
    for i in range(n):
        pending[count] = <uint32_t> i
        count += hit[i] ^ 1
    return count


cdef inline bint is_key(
    bint two, const uint64_t* words, const uint32_t* masks, int64_t group, uint64_t low, uint64_t high, uint32_t nulls,
) noexcept nogil:
    if words[(1 + two) * group] != low or (two and words[2 * group + 1] != high):
        return False
    return (masks[group] if masks != NULL else 0) == nulls


cdef inline int64_t insert_packed(
    bint two, uint32_t* slots, int64_t mask, const uint64_t* hashes, const uint64_t* low, const uint64_t* high,
    const uint32_t* nulls, const uint32_t* pending, int64_t n_pending, int64_t n_groups, uint64_t* words,
    uint32_t* masks, uint32_t* groups,
) noexcept nogil:
    """Find or insert the keys of the rows `pending`. Returns the new number of groups."""
    cdef int64_t j, i, at
    cdef uint32_t slot
    for j in range(n_pending):
        i = pending[j]
        at = <int64_t> hashes[i] & mask
        while True:
            qc_check(0 <= at <= mask, b"a slot is one of the slots of the table")
            slot = slots[at]
            qc_check(slot <= n_groups, b"the group in a slot is one of the groups")
            if slot == 0:
                qc_check(n_groups < mask, b"a slot of a group table stays empty")
                words[(1 + two) * n_groups] = low[i]
                if two:
                    words[2 * n_groups + 1] = high[i]
                if masks != NULL:
                    masks[n_groups] = nulls[i]
                n_groups += 1
                slot = <uint32_t> n_groups
                slots[at] = slot
                break
            if is_key(two, words, masks, slot - 1, low[i], high[i] if two else 0, nulls[i]):
                break
            at = (at + 1) & mask
        groups[i] = slot - 1
    return n_groups


cdef int64_t list_unequal(
    const uint64_t* words, const uint64_t* low, const uint32_t* groups, int64_t n, uint32_t* pending,
) noexcept nogil:
    """List the rows whose key is not that of their group."""
    cdef int64_t i
    cdef int64_t count = 0
    for i in range(n):
        pending[count] = <uint32_t> i
        count += words[groups[i]] != low[i]
    return count


cdef int64_t find_by_perfect_hash(GroupTable* table, const uint64_t* low, int64_t n, uint32_t* groups) noexcept nogil:
    """Find the groups of n keys of one word without nulls by a perfect hash. Returns the number of rows that are
    pending, whose hashes are in the scratch.
    """
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef const uint64_t* words = <const uint64_t*> table.words.data
    cdef int64_t n_pending, j
    if perfect_hash_find(&table.perfect, words, low, n, groups):
        return 0
    n_pending = list_unequal(words, low, groups, n, scratch.pending)
    for j in range(n_pending):
        scratch.hashes[scratch.pending[j]] = qc_mix(low[scratch.pending[j]])
    return n_pending


cdef int64_t find_packed(
    GroupTable* table, const uint64_t* low, const uint32_t* nulls, int64_t n, uint32_t* groups,
) noexcept nogil:
    """Find the groups of n packed keys in the first slots of their hashes. Returns the number of pending rows."""
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef const uint64_t* words = <const uint64_t*> table.words.data if table.words != NULL else NULL
    cdef const uint32_t* slots = <const uint32_t*> table.slots.data if table.slots != NULL else &NO_SLOT
    cdef int64_t mask = table.n_slots - 1 if table.slots != NULL else 0
    if table.layout.mode == KEYS_ONE_WORD:
        return grouping_kernels().find_one(
            slots, mask, words, null_masks(table, 0), low, nulls, n, scratch.hashes, groups, scratch.pending
        )
    return grouping_kernels().find_two(
        slots, mask, words, null_masks(table, 0), low, scratch.high, nulls, n, scratch.hashes, groups, scratch.pending
    )


cdef int insert_pending(
    GroupTable* table, const uint64_t* low, const uint32_t* nulls, int64_t n_pending, uint32_t* groups,
) except -1 nogil:
    """Find or create the groups of the rows scratch.pending, whose hashes are in the scratch."""
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef uint32_t* slots
    cdef uint64_t* words
    cdef uint32_t* masks
    cdef int64_t mask
    reserve(table, n_pending)
    qc_check(table.n_groups + n_pending <= table.capacity, b"a group table has capacity for the keys of its groups")
    slots = <uint32_t*> table.slots.data
    words = <uint64_t*> table.words.data
    masks = <uint32_t*> null_masks(table, 0)
    mask = table.n_slots - 1
    # Two calls, so that the compiler knows how many words a key has.
    if table.layout.mode == KEYS_ONE_WORD:
        table.n_groups = insert_packed(
            False, slots, mask, scratch.hashes, low, NULL, nulls, scratch.pending, n_pending, table.n_groups, words,
            masks, groups,
        )
    else:
        table.n_groups = insert_packed(
            True, slots, mask, scratch.hashes, low, scratch.high, nulls, scratch.pending, n_pending, table.n_groups,
            words, masks, groups,
        )
    table.n_in_slots = table.n_groups
    return 0


cdef int assign_packed(
    GroupTable* table, const uint64_t* low, const uint32_t* nulls, int64_t n, uint32_t* groups,
) except -1 nogil:
    """Find or create the groups of n keys. The scratch has the second words of keys of two."""
    cdef bint one_word = table.layout.mode == KEYS_ONE_WORD
    cdef bint hashable = one_word and nulls == NO_NULLS
    cdef int64_t n_pending, n_without
    if table.n_in_slots < table.n_groups:
        table.groups_limit = 0          # the array had the groups until now: insert all of them
        reserve(table, n)
    reserve_nulls(table, nulls, n)
    if hashable and table.perfect.buffer != NULL:
        n_pending = find_by_perfect_hash(table, low, n, groups)
        n_without = n_pending
    else:
        n_pending = find_packed(table, low, nulls, n, groups)
        n_without = n
    if n_pending > 0:
        insert_pending(table, low, nulls, n_pending, groups)
    if hashable and n_without > 0 and perfect_hash_note(
        &table.perfect, n_without, table.n_groups, HASHED_GROUPS_MAX, GROUP_ROWS_A_KEY
    ):
        return perfect_hash_make(
            &table.perfect, <uint64_t*> table.words.data, null_masks(table, 0), table.n_groups, table.account
        )
    return 0


# --- stored keys ---

cdef int hash_keys(
    const Vector* keys, int32_t n_columns, int64_t n, uint64_t* hashes, const MemoryAccount* account,
) except -1 nogil:
    cdef int32_t c
    for c in range(n_columns):
        hash_vector(&keys[c], n, c > 0, hashes, account)
    return 0


cdef int64_t probe_stored(
    StoredSlot* slots, int64_t mask, GroupScratch* scratch, const uint64_t* hashes, int64_t n_pending, int64_t n_groups,
    uint64_t* group_hashes, uint32_t* groups, int64_t* n_fresh,
) noexcept nogil:
    """Probe the table for each pending row until the row makes a new group or finds a candidate with its hash tag.

    scratch.low holds the slot of each row, and is advanced with it. Returns the number of candidates.
    """
    cdef StoredSlot* slot
    cdef int64_t j, i
    cdef int64_t n_candidates = 0
    cdef uint32_t tag
    for j in range(n_pending):
        i = scratch.pending[j]
        tag = <uint32_t> (hashes[i] >> HASH_TAG_SHIFT)
        while True:
            qc_check(scratch.low[i] <= <uint64_t> mask, b"a slot is one of the slots of the table")
            slot = &slots[scratch.low[i]]
            qc_check(slot.group <= n_groups + n_fresh[0], b"the group in a slot is one of the groups")
            if slot.group == 0:
                qc_check(n_groups + n_fresh[0] < mask, b"a slot of a group table stays empty")
                group_hashes[n_groups + n_fresh[0]] = hashes[i]
                groups[i] = <uint32_t> (n_groups + n_fresh[0])
                scratch.fresh[n_fresh[0]] = <uint32_t> i
                n_fresh[0] += 1
                slot.tag = tag
                slot.group = groups[i] + 1
                break
            if slot.tag == tag:
                scratch.rows[n_candidates] = <uint32_t> i
                scratch.groups[n_candidates] = slot.group - 1
                n_candidates += 1
                break
            scratch.low[i] = (scratch.low[i] + 1) & <uint64_t> mask
    return n_candidates


cdef int64_t find_stored(
    GroupTable* table, const Vector* keys, const uint64_t* hashes, int64_t n, uint32_t* groups,
) noexcept nogil:
    """Find the groups of n rows in the first slots of their hashes. Returns the number of rows that are pending."""
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef const StoredSlot* slots = <const StoredSlot*> table.slots.data
    cdef uint64_t mask = <uint64_t> (table.n_slots - 1)
    cdef uint32_t candidate = 0
    cdef StoredSlot slot
    cdef int64_t i
    for i in range(n):
        slot = slots[hashes[i] & mask]
        # Where the slot has another key, the row is compared with the group before, which is in the cache.
        candidate = slot.group - 1 if (slot.tag == hashes[i] >> HASH_TAG_SHIFT) & (slot.group != 0) else candidate
        groups[i] = candidate
    key_columns_compare(table.stored, keys, EVERY_ROW, groups, n, scratch.hit)
    return list_misses(scratch.hit, n, scratch.pending)


cdef int assign_stored(
    GroupTable* table, const Vector* keys, const uint64_t* hashes, int64_t n, uint32_t* groups,
) except -1 nogil:
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef int64_t n_pending = n
    cdef int64_t n_candidates, n_fresh, i, row
    cdef uint64_t mask
    reserve(table, n)
    qc_check(table.n_groups + n <= table.capacity, b"a group table has capacity for the hashes of its groups")
    mask = <uint64_t> (table.n_slots - 1)
    if hashes == NULL:
        hash_keys(keys, table.n_columns, n, scratch.hashes, table.account)
        hashes = scratch.hashes
    if table.n_groups > 0:
        n_pending = find_stored(table, keys, hashes, n, groups)
    else:
        memcpy(scratch.pending, EVERY_ROW, n * sizeof(uint32_t))
    for i in range(n_pending):
        scratch.low[scratch.pending[i]] = hashes[scratch.pending[i]] & mask
    while n_pending > 0:
        n_fresh = 0
        n_candidates = probe_stored(
            <StoredSlot*> table.slots.data, <int64_t> mask, scratch, hashes, n_pending, table.n_groups,
            <uint64_t*> table.words.data, groups, &n_fresh,
        )
        if n_fresh > 0:
            # The keys must be stored before the comparison, because a candidate may be one of the new groups.
            qc_check_rows(scratch.fresh, n_fresh, n, b"the row of a new group is a row of the vector")
            key_columns_append(table.stored, keys, scratch.fresh, n_fresh)
            table.n_groups += n_fresh
        key_columns_compare(table.stored, keys, scratch.rows, scratch.groups, n_candidates, scratch.hit)
        n_pending = 0
        for i in range(n_candidates):
            row = scratch.rows[i]
            if scratch.hit[i]:
                groups[row] = scratch.groups[i]
            else:
                scratch.low[row] = (scratch.low[row] + 1) & mask
                scratch.pending[n_pending] = <uint32_t> row
                n_pending += 1
    return 0


cdef int unpack_vectors(
    GroupTable* table, int64_t start, int64_t n, char* scratch, Vector* out,
) except -1 nogil:
    """Unpack the keys of n groups to vectors. `scratch` has VECTOR_ROWS * 16 + VECTOR_BITMAP_BYTES a column."""
    cdef char* values = scratch
    cdef int stride = 2 if table.layout.mode == KEYS_TWO_WORDS else 1
    cdef int32_t c
    qc_check((n >= 0) & (n <= VECTOR_ROWS) & (start + n <= table.n_groups), b"keys to unpack are those of groups")
    for c in range(table.n_columns):
        key_unpack(
            &table.layout, c, (<uint64_t*> table.words.data) + start * stride, null_masks(table, start), n, values,
            <uint8_t*> values + VECTOR_ROWS * 16,
        )
        out[c].phys = table.types[c].phys
        out[c].values = values
        out[c].validity = <uint8_t*> values + VECTOR_ROWS * 16
        values += VECTOR_ROWS * 16 + VECTOR_BITMAP_BYTES
    return 0


cdef int store_keys(GroupTable* table) except -1 nogil:
    """Change packed keys to stored keys. Groups keep their numbers."""
    cdef Vector vectors[16]
    cdef Buffer* scratch = NULL
    cdef Buffer* hashes = NULL
    cdef KeyColumns* stored = NULL
    cdef int64_t n
    cdef int64_t start = 0
    cdef bint done = False
    try:
        scratch = buffer_new(table.account, table.n_columns * (VECTOR_ROWS * 16 + VECTOR_BITMAP_BYTES))
        hashes = buffer_new(table.account, max(table.capacity, <int64_t> GROUPS_MIN) * 8)
        stored = key_columns_new(table.account, table.types, table.n_columns)
        while start < table.n_groups:
            account_check(table.account)
            n = min(table.n_groups - start, <int64_t> VECTOR_ROWS)
            unpack_vectors(table, start, n, scratch.data, vectors)
            hash_keys(vectors, table.n_columns, n, (<uint64_t*> hashes.data) + start, table.account)
            key_columns_append(stored, vectors, NULL, n)
            start += n
        done = True
    finally:
        buffer_unref(scratch)
        if not done:
            buffer_unref(hashes)
            key_columns_free(stored)
    buffer_unref(table.words)
    buffer_unref(table.nulls)
    array_groups_free(table.direct)
    perfect_hash_free(&table.perfect)
    table.words = hashes
    table.nulls = NULL
    table.capacity = max(table.capacity, <int64_t> GROUPS_MIN)
    table.stored = stored
    table.direct = NULL
    table.layout.mode = KEYS_STORED
    return resize_slots(table, max(table.n_slots, <int64_t> SLOTS_MIN))


# --- lone integer keys in an array ---

cdef int64_t codes_max(const GroupTable* table, int64_t n_more) noexcept nogil:
    return min(max(<int64_t> CODES_FREE, CODES_PER_GROUP_MAX * (table.n_groups + n_more)), <int64_t> CODES_MAX)


cdef void unpack_lone(GroupTable* table, int64_t start, int64_t n, Vector* out) noexcept nogil:
    """Unpack the keys of n groups, an integer each, to the scratch of keys that move."""
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    memset(out, 0, sizeof(Vector))
    out.phys = table.types[0].phys
    out.values = scratch.moved_low
    out.validity = NULL
    if key_unpack(
        &table.layout, 0, (<uint64_t*> table.words.data) + start, null_masks(table, start), n,
        <char*> scratch.moved_low, <uint8_t*> scratch.moved_high,
    ):
        out.validity = <uint8_t*> scratch.moved_high


cdef int fill_array(GroupTable* table) except -1 nogil:
    """Put the groups that the table has into the array, which has the codes of their keys."""
    cdef const uint32_t* codes = <const uint32_t*> table.direct.codes.data
    cdef uint32_t* known = <uint32_t*> table.direct.groups.data
    cdef Vector vector
    cdef int64_t n, i
    cdef int64_t start = 0
    while start < table.n_groups:
        account_check(table.account)
        n = min(table.n_groups - start, <int64_t> VECTOR_ROWS)
        unpack_lone(table, start, n, &vector)
        array_groups_encode(table.direct, &vector, n)
        for i in range(n):
            known[codes[i]] = <uint32_t> (start + i)
        start += n
    return 0


cdef int try_array(GroupTable* table, const Vector* keys, int64_t n) except -1 nogil:
    """Change from slots to an array if the keys of all groups have become dense enough."""
    cdef Vector vector
    cdef int64_t n_groups
    cdef int64_t start = 0
    array_groups_clear(table.direct)
    while start < table.n_groups:
        account_check(table.account)
        n_groups = min(table.n_groups - start, <int64_t> VECTOR_ROWS)
        unpack_lone(table, start, n_groups, &vector)
        array_groups_see(table.direct, &vector, n_groups)
        start += n_groups
    if array_groups_extend(table.direct, keys, n, codes_max(table, n)) != ARRAY_TOO_LARGE:
        fill_array(table)
        buffer_unref(table.slots)
        table.slots = NULL
        table.n_slots = 0
        table.n_in_slots = 0
        table.groups_limit = 0
    return 0


cdef bint assign_by_code(GroupTable* table, const Vector* keys, int64_t n, uint32_t* groups) except -1 nogil:
    """Find or create the groups of a lone integer key in the array. Returns False if the array has become too large."""
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef ArrayGroups* direct = table.direct
    cdef uint32_t* known
    cdef uint64_t* words
    cdef uint32_t* masks
    cdef const uint32_t* codes
    cdef int64_t n_groups = table.n_groups
    cdef int64_t i
    cdef uint32_t group
    cdef ArrayAnswer answer = ARRAY_TOO_LARGE
    if not direct.enabled:
        if n_groups < table.try_array_at:
            return False
        try_array(table, keys, n)
    if direct.groups != NULL and array_groups_find(direct, keys, n, groups):
        return True
    if not direct.coded:
        if direct.enabled:
            answer = array_groups_extend(direct, keys, n, codes_max(table, n))
        if answer == ARRAY_TOO_LARGE:
            table.try_array_at = max(<int64_t> TRY_ARRAY_AT, 2 * n_groups)
            return False
        if answer == ARRAY_EMPTY:
            fill_array(table)
        array_groups_encode(direct, keys, n)
    key_pack(&table.layout, keys, n, scratch.low, scratch.high, scratch.nulls, scratch.hashes)
    reserve_keys(table, n)
    reserve_nulls(table, scratch.nulls, n)
    known = <uint32_t*> direct.groups.data
    words = <uint64_t*> table.words.data
    masks = <uint32_t*> null_masks(table, 0)
    codes = <const uint32_t*> direct.codes.data
    qc_check_rows(codes, n, direct.n_codes, b"a row's code is one of the codes")
    for i in range(n):
        group = known[codes[i]]
        if group == NO_GROUP:
            group = <uint32_t> n_groups
            known[codes[i]] = group
            words[n_groups] = scratch.low[i]
            if masks != NULL:
                masks[n_groups] = scratch.nulls[i]
            n_groups += 1
        groups[i] = group
    table.n_groups = n_groups
    return True


cdef bint group_table_is_array(const GroupTable* table) noexcept nogil:
    return table.direct != NULL and table.direct.is_lone and table.direct.groups != NULL


# --- groups of keys, keys of groups ---

cdef int assign_looked_up(
    GroupTable* table, const Vector* keys, const uint64_t* hashes, int64_t n, uint32_t* groups,
) except -1 nogil:
    """Find or create the groups of n rows in an array or in slots."""
    cdef GroupScratch* scratch
    cdef const uint64_t* low
    cdef const uint32_t* nulls
    cdef bint is_lone = table.direct != NULL and table.direct.is_lone
    if is_lone:
        if assign_by_code(table, keys, n, groups):
            return 0
    elif table.direct != NULL and array_groups_find(table.direct, keys, n, groups):
        return 0
    if table.layout.mode != KEYS_STORED:
        scratch = <GroupScratch*> table.scratch.data
        nulls = NO_NULLS
        low = key_words(&table.layout, keys)
        if low == NULL and key_pack(&table.layout, keys, n, scratch.low, scratch.high, scratch.nulls, scratch.hashes):
            low = scratch.low
            if any_null(scratch.nulls, n):
                nulls = scratch.nulls
        if low != NULL:
            assign_packed(table, low, nulls, n, groups)
            if table.direct != NULL and not is_lone:
                return array_groups_learn(table.direct, keys, n, groups)
            return 0
        store_keys(table)
    return assign_stored(table, keys, hashes, n, groups)


# --- known texts ---

cdef int know_texts(GroupTable* table) except -1 nogil:
    """Make the texts of all groups known."""
    cdef Vector vector
    cdef TextsDraft draft
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef int64_t start = 0
    cdef int64_t n
    if not known_texts_begin(&table.texts, &draft, table.n_groups, table.account):
        return 0
    try:
        while start < table.n_groups:
            account_check(table.account)
            n = min(table.n_groups - start, <int64_t> VECTOR_ROWS)
            if table.layout.mode == KEYS_STORED:
                key_columns_vector(table.stored, 0, start, n, scratch.validity, &vector)
            else:
                unpack_vectors(table, start, n, <char*> scratch.views, &vector)     # to views and validity
            texts_draft_put(&draft, &vector, start, n)
            start += n
        known_texts_end(&table.texts, &draft, table.account)
    finally:
        texts_draft_free(&draft)
    return 0


cdef int assign_unknown(GroupTable* table, const Vector* key, int64_t n, uint32_t* groups) except -1 nogil:
    """Find or create the groups of the n rows scratch.unknown, whose text is not known."""
    cdef GroupScratch* scratch = <GroupScratch*> table.scratch.data
    cdef Vector rest
    cdef int64_t i
    texts_pick(key, scratch.unknown, n, scratch.views, scratch.validity, &rest)
    assign_looked_up(table, &rest, NULL, n, scratch.unknown_groups)
    for i in range(n):
        groups[scratch.unknown[i]] = scratch.unknown_groups[i]
    return 0


cdef int assign_groups(
    GroupTable* table, const Vector* keys, const uint64_t* hashes, int64_t n, uint32_t* groups,
) except -1 nogil:
    cdef bint is_text = table.n_columns == 1 and table.types[0].phys == PHYS_VIEW
    cdef int64_t n_unknown = n
    if table.direct != NULL and table.direct.enabled:
        is_text = False         # texts of one byte are the codes of an array
    if not is_text or table.texts.keys == NULL:
        assign_looked_up(table, keys, hashes, n, groups)
    else:
        n_unknown = known_texts_find(
            &table.texts, keys, n, groups, (<GroupScratch*> table.scratch.data).unknown
        )
        if n_unknown > 0:
            assign_unknown(table, keys, n_unknown, groups)
    if is_text and n_unknown > 0 and known_texts_note(&table.texts, n_unknown, table.n_groups):
        know_texts(table)
    return 0


cdef int group_table_assign(
    GroupTable* table, const Vector* keys, const uint64_t* hashes, int64_t n, uint32_t* groups,
) except -1 nogil:
    qc_check(0 <= n <= VECTOR_ROWS, b"the groups of at most a vector of rows are assigned at a time")
    if table.layout.mode == KEYS_NONE:
        memset(groups, 0, n * sizeof(uint32_t))
        return 0
    assign_groups(table, keys, hashes, n, groups)
    qc_check_rows(groups, n, table.n_groups, b"a row's group is one of the groups")
    return 0


cdef bint group_table_find_some(
    GroupTable* table, const Vector* keys, int64_t n, const uint8_t* bits, uint32_t* groups,
) noexcept nogil:
    if table.direct == NULL or table.n_groups == 0:
        return False
    if not array_groups_find_some(table.direct, keys, n, bits, groups):
        return False
    qc_check_rows(groups, n, table.n_groups, b"a row's group is one of the groups")
    return True


cdef double group_table_recent_share(const GroupTable* table, const uint32_t* groups, int64_t n) noexcept nogil:
    cdef int64_t recent = table.n_groups - 2 * VECTOR_ROWS
    cdef int64_t n_recent = 0
    cdef int64_t i
    for i in range(n):
        n_recent += groups[i] >= recent
    return <double> n_recent / max(n, <int64_t> 1)


cdef Column* group_table_column(
    GroupTable* table, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    cdef Column* out
    cdef Buffer* values
    cdef uint8_t* validity
    cdef int stride = 2 if table.layout.mode == KEYS_TWO_WORDS else 1
    qc_check((start >= 0) & (n >= 0) & (start + n <= table.n_groups), b"keys to read are those of groups")
    qc_check(0 <= column < table.n_columns, b"a key column is one of the key columns")
    if table.layout.mode == KEYS_STORED:
        return key_columns_column(table.stored, column, start, n, account)
    out = column_new_flat(&table.types[column], n, True, account, &values, &validity)
    if n > 0 and not key_unpack(
        &table.layout, column, (<uint64_t*> table.words.data) + start * stride, null_masks(table, start), n,
        values.data, validity,
    ):
        out.validity = NULL
    return out
