"""Insert the entries of a join table's build into its slots, by partitions, and group the rows of equal keys."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from qcore_ext.ground.atomic cimport qc_fetch_add, qc_load
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport CHECK_ROWS, MemoryAccount, account_check, bytes_fill, struct_new
from qcore_ext.ground.prefetch cimport PREFETCH_ROWS, qc_prefetch_write
from qcore_ext.ground.probe cimport FREE_KEY, LINE_SLOTS, Slot
from qcore_ext.data.column cimport VECTOR_ROWS
from qcore_ext.join.build_state cimport NO_POSITION, BuildEntry, TableBuild, ValueEntry
from qcore_ext.join.key_codes cimport key_codes_wide
from qcore_ext.join.key_compare cimport rows_equal
from qcore_ext.join.table cimport (
    FILTER_HASHES, INDEX_HASHES, INDEX_VALUES, INDEX_WIDE_CODES, JoinLookup, JoinTable, find_first_slots,
    join_lookup_load,
)


cdef void add_to_filter(JoinTable* table, uint32_t* numbers, int64_t n) noexcept nogil:
    """Set the bits of hashes. Then make slots of them. Other partitions' bits are in other words."""
    cdef uint32_t* filter = table.filter
    cdef uint32_t filter_mask = <uint32_t> table.filter_mask
    cdef uint32_t mask = <uint32_t> table.slot_mask
    cdef int64_t i
    for i in range(n):
        filter[(numbers[i] & filter_mask) >> 5] |= (<uint32_t> 1) << (numbers[i] & 31) | (
            <uint32_t> 1 << (numbers[i] >> 27)
        )
        numbers[i] &= mask


cdef int64_t insert_entries(
    const JoinTable* table, BuildEntry* entries, const uint32_t* homes, int64_t n, uint64_t end, int64_t* n_deferred,
) noexcept nogil:
    """Count each entry in the slot of its key below `end`. The start of a slot is its first row. Returns the number of
    new slots.
    """
    cdef Slot* slots = table.slots
    cdef Slot* slot
    cdef bint hashed = table.index == INDEX_HASHES
    cdef int64_t n_new = 0
    cdef int64_t i
    cdef uint64_t at
    for i in range(n):
        if i + PREFETCH_ROWS < n:
            qc_prefetch_write(&slots[homes[i + PREFETCH_ROWS]])
        at = homes[i] & ~(<uint64_t> LINE_SLOTS - 1)
        while at < end:
            slot = &slots[at]
            if slot.group.count == 0:
                slot.key = entries[i].key
                slot.group.start = entries[i].row
                slot.group.count = 1
                n_new += 1
                break
            if slot.key == entries[i].key and (not hashed or rows_equal(
                table.columns, table.key_columns, table.n_keys, entries[i].row, slot.group.start
            )):
                slot.group.count += 1
                break
            at += 1
        if at < end:
            entries[i].position = <uint32_t> at
        else:
            entries[i].position = <uint32_t> NO_POSITION
            n_deferred[0] += 1
    return n_new


cdef int64_t insert_wide_entries(
    const JoinTable* table, BuildEntry* entries, const uint32_t* homes, int64_t n, uint64_t end, int64_t* n_deferred,
) noexcept nogil:
    """Insert the entries by their wide codes. Returns the number of those whose key has a slot already."""
    cdef Slot* slots = table.slots
    cdef int64_t n_repeated = 0
    cdef int64_t i
    cdef uint64_t at
    for i in range(n):
        if i + PREFETCH_ROWS < n:
            qc_prefetch_write(&slots[homes[i + PREFETCH_ROWS]])
        qc_check(entries[i].position != 0, b"the count of a slot that is taken is not 0")
        at = homes[i] & ~(<uint64_t> LINE_SLOTS - 1)
        while at < end and slots[at].group.count != 0 and (
            slots[at].key != entries[i].key or slots[at].group.count != entries[i].position
        ):
            at += 1
        if at == end:
            entries[i].position = <uint32_t> NO_POSITION
            n_deferred[0] += 1
        elif slots[at].group.count != 0:
            n_repeated += 1
        else:
            slots[at].key = entries[i].key
            slots[at].group.start = entries[i].row
            slots[at].group.count = entries[i].position
    return n_repeated


cdef int64_t insert_values(
    const JoinTable* table, const ValueEntry* entries, const uint32_t* homes, int64_t n, uint64_t end,
    ValueEntry* deferred, int64_t* n_deferred,
) noexcept nogil:
    """Insert the entries. Returns the number of those whose key has a slot already. Deferred entries are put one after
    the other; they may take the places of entries that were read.
    """
    cdef Slot* slots = table.slots
    cdef int64_t n_repeated = 0
    cdef int64_t i
    cdef uint64_t at
    for i in range(n):
        if i + PREFETCH_ROWS < n:
            qc_prefetch_write(&slots[homes[i + PREFETCH_ROWS]])
        at = homes[i] & ~(<uint64_t> LINE_SLOTS - 1)
        while at < end and slots[at].key != FREE_KEY and slots[at].key != entries[i].key:
            at += 1
        if at == end:
            deferred[n_deferred[0]] = entries[i]
            n_deferred[0] += 1
        elif slots[at].key != FREE_KEY:
            n_repeated += 1
        else:
            slots[at].key = entries[i].key
            slots[at].value = entries[i].value
    return n_repeated


cdef int insert_partition(
    TableBuild* build, int64_t partition, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil:
    cdef JoinTable* table = build.table
    cdef BuildEntry* entries = <BuildEntry*> build.entries.data
    cdef uint64_t first = <uint64_t> partition << build.shift
    cdef uint64_t end = first + (<uint64_t> 1 << build.shift)
    cdef int64_t at = build.begins[partition]
    cdef int64_t last = build.begins[partition + 1]
    cdef int64_t* n_deferred = &build.n_deferred[partition]
    cdef int64_t found = 0
    cdef int64_t n, i
    cdef bint hashed = table.index == INDEX_HASHES
    cdef bint wide = table.index == INDEX_WIDE_CODES
    cdef bint of_values = table.index == INDEX_VALUES
    if of_values and qc_load(&build.n_repeated) > 0:
        return 0                    # another index will be built
    qc_check(end <= table.slot_mask + 1, b"the slots of a partition are slots of the table")
    # FREE_KEY, or no rows.
    bytes_fill(&table.slots[first], 0xFF if of_values else 0, <int64_t> ((end - first) * sizeof(Slot)), account)
    while at < last:
        n = min(<int64_t> VECTOR_ROWS, last - at)
        account_check(account)
        for i in range(n):
            lookup.codes[i] = entries[at + i].key
        if table.filter != NULL:
            find_first_slots(lookup.codes, n, FILTER_HASHES, hashed, lookup.slot_numbers)
            add_to_filter(table, lookup.slot_numbers, n)
        else:
            find_first_slots(lookup.codes, n, table.slot_mask, hashed, lookup.slot_numbers)
        if of_values:
            found += insert_values(
                table, <const ValueEntry*> entries + at, lookup.slot_numbers, n, end,
                <ValueEntry*> entries + build.begins[partition], n_deferred
            )
        elif wide:
            found += insert_wide_entries(table, entries + at, lookup.slot_numbers, n, end, n_deferred)
        else:
            found += insert_entries(table, entries + at, lookup.slot_numbers, n, end, n_deferred)
        at += n
    if wide or of_values:
        qc_fetch_add(&build.n_repeated, found)
    else:
        qc_fetch_add(&build.n_groups, found)
    return 0


cdef int insert_deferred(TableBuild* build, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    """Insert the entries for which the slots of their partition did not suffice. All others are in their slots."""
    cdef JoinTable* table = build.table
    cdef BuildEntry* entries = <BuildEntry*> build.entries.data
    cdef Slot* slots = table.slots
    cdef bint hashed = table.index == INDEX_HASHES
    cdef bint wide = table.index == INDEX_WIDE_CODES
    cdef uint32_t home, count
    cdef int64_t partition, i
    cdef uint64_t at
    for partition in range(build.n_partitions):
        if build.n_deferred[partition] == 0:
            continue
        account_check(account)
        for i in range(build.begins[partition], build.begins[partition + 1]):
            if entries[i].position != <uint32_t> NO_POSITION:
                continue
            count = 1
            if wide:
                join_lookup_load(lookup, build.keys, entries[i].row, NULL, 1)
                key_codes_wide(&table.coder, lookup.keys, 1, lookup.codes, lookup.high_codes, lookup.flags)
                count = lookup.high_codes[0]
            find_first_slots(&entries[i].key, 1, table.slot_mask, hashed, &home)
            at = home & ~(<uint64_t> LINE_SLOTS - 1)
            while slots[at].group.count != 0 and not (
                slots[at].key == entries[i].key and (not wide or slots[at].group.count == count)
                and (not hashed or rows_equal(
                    table.columns, table.key_columns, table.n_keys, entries[i].row, slots[at].group.start
                ))
            ):
                at = (at + 1) & table.slot_mask
            if slots[at].group.count == 0:
                slots[at].key = entries[i].key
                slots[at].group.start = entries[i].row
                slots[at].group.count = count
                build.n_groups += not wide
            elif wide:
                build.n_repeated += 1
            else:
                slots[at].group.count += 1
            entries[i].position = <uint32_t> at
    return 0


cdef int insert_deferred_values(TableBuild* build, MemoryAccount* account) except -1 nogil:
    cdef const JoinTable* table = build.table
    cdef const ValueEntry* entries = <const ValueEntry*> build.entries.data
    cdef Slot* slots = table.slots
    cdef uint32_t home
    cdef int64_t partition, i
    cdef uint64_t at
    if build.n_repeated > 0:
        return 0
    for partition in range(build.n_partitions):
        if build.n_deferred[partition] > 0:
            account_check(account)
        for i in range(build.begins[partition], build.begins[partition] + build.n_deferred[partition]):
            find_first_slots(&entries[i].key, 1, table.slot_mask, False, &home)
            at = home & ~(<uint64_t> LINE_SLOTS - 1)
            while slots[at].key != FREE_KEY and slots[at].key != entries[i].key:
                at = (at + 1) & table.slot_mask
            if slots[at].key != FREE_KEY:
                build.n_repeated += 1
                return 0
            slots[at].key = entries[i].key
            slots[at].value = entries[i].value
    return 0


cdef int place_groups(TableBuild* build) except -1 nogil:
    """Find where the groups of each partition's slots begin among the rows. They are in the order of the slots."""
    cdef const BuildEntry* entries = <const BuildEntry*> build.entries.data
    cdef int64_t* rows
    cdef int64_t at = 0
    cdef int64_t partition, i, here
    build.group_begins = <int64_t*> struct_new(build.n_partitions * sizeof(int64_t))
    rows = build.group_begins
    for partition in range(build.n_partitions):
        rows[partition] += build.begins[partition + 1] - build.begins[partition] - build.n_deferred[partition]
        if build.n_deferred[partition] > 0:
            for i in range(build.begins[partition], build.begins[partition + 1]):
                if entries[i].position >> build.shift != partition:
                    rows[entries[i].position >> build.shift] += 1
    for partition in range(build.n_partitions):
        here = rows[partition]
        rows[partition] = at
        at += here
    qc_check(at == build.table.coder.n_rows, b"each row with a key is in a group")
    return 0


cdef inline void put_row(JoinTable* table, uint32_t position, uint32_t row) noexcept nogil:
    qc_check(position <= table.slot_mask, b"a row's slot is a slot of the table")
    table.slots[position].group.start -= 1
    qc_check(table.slots[position].group.start < table.coder.n_rows, b"a row's position is one of the rows")
    table.group_rows[table.slots[position].group.start] = row


cdef int group_partition(TableBuild* build, int64_t partition, MemoryAccount* account) except -1 nogil:
    """Write the rows of each group. From the last row to the first, so that the rows of a group ascend, and its start
    is the first row's position.
    """
    cdef JoinTable* table = build.table
    cdef const BuildEntry* entries = <const BuildEntry*> build.entries.data
    cdef Slot* slots = table.slots
    cdef int64_t first = partition << build.shift
    cdef uint32_t end = <uint32_t> build.group_begins[partition]
    cdef int64_t i
    cdef uint32_t position
    for i in range(first, first + (<int64_t> 1 << build.shift)):
        if slots[i].group.count != 0:
            end += slots[i].group.count
            slots[i].group.start = end
    account_check(account)
    for i in range(build.begins[partition + 1] - 1, build.begins[partition] - 1, -1):
        if i % CHECK_ROWS == 0:
            account_check(account)
        position = entries[i].position
        if position >> build.shift == partition:
            put_row(table, position, entries[i].row)
    return 0


cdef void group_deferred(TableBuild* build) noexcept nogil:
    cdef const BuildEntry* entries = <const BuildEntry*> build.entries.data
    cdef int64_t partition, i
    for partition in range(build.n_partitions):
        if build.n_deferred[partition] == 0:
            continue
        for i in range(build.begins[partition + 1] - 1, build.begins[partition] - 1, -1):
            if entries[i].position >> build.shift != partition:
                put_row(build.table, entries[i].position, entries[i].row)
