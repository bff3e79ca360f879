"""Build a join table: all drivers of the build side work on it together."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.compute.row_hash cimport hash_vector
from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.column cimport (
    FLAT, STORE_CANONICAL, VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, column_constant_null, column_new_flat, column_ref,
    column_unref,
)
from qcore_ext.data.schema cimport TYPE_NESTED, phys_width
from qcore_ext.data.take cimport gather_validity, gather_width
from qcore_ext.ground.atomic cimport qc_fetch_add, qc_load, qc_swap
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport probe_kernels, simd_kernels
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, Owner, account_check, buffer_new, buffer_new_zeroed, buffer_unref,
    owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.prefetch cimport LINE_BYTES, qc_prefetch_write
from qcore_ext.ground.probe cimport RankWord, Slot
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.join.build_state cimport (
    STEP_COPY, STEP_COUNT, STEP_END, STEP_GROUP, STEP_INSERT, STEP_MARK, STEP_ORDER, STEP_SCATTER, STEP_WRITE,
    STEPS_MAX, BuildEntry, BuildStep, TableBuild, ValueEntry,
)
from qcore_ext.join.key_codes cimport (
    key_codable, key_coder_fit, key_coder_free, key_coder_measure, key_coder_open, key_codes, key_codes_wide,
    rows_without_null,
)
from qcore_ext.join.rank_bitmap cimport (
    rank_marks_set, rank_words_finish, rank_words_mark, rank_words_new, rank_words_set,
)
from qcore_ext.join.slot_insert cimport (
    group_deferred, group_partition, insert_deferred, insert_deferred_values, insert_partition, place_groups,
)
from qcore_ext.join.slot_values cimport slot_values_drop_columns, slot_values_pack, slot_values_suit
from qcore_ext.join.table cimport (
    INDEX_CODES, INDEX_EVERY, INDEX_HASHES, INDEX_RANKS, INDEX_VALUES, INDEX_WIDE_CODES, JoinLookup, JoinTable,
    join_lookup_load, join_table_new, find_first_slots,
)
from qcore_ext.rows.column_store cimport (
    ColumnStore, column_store_column, column_store_copy, column_store_join,
)
from qcore_ext.rows.nested_rows cimport nested_concat

cdef extern from "native/huge_pages.h" nogil:
    void qc_advise_huge_pages(void* start, int64_t n_bytes)

cdef enum:
    # A rank word covers 64 codes in 16 bytes, as many as a slot takes. Up to 64 codes a slot the rank words are no
    # larger than the slots, and a probe reads one word of them where it reads one slot or more. They may be twice as
    # large as slots up to 16 MiB.
    CODES_PER_SLOT_MAX = 64
    # Up to this number of codes (256 KiB of rank words, which the second-level cache holds) ranks are used for any
    # number of rows. It takes 40 µs to make them; with 200 keys among 200,000 codes they find 6 million rows in 10 ms
    # of processor time less than slots (TPC-H Q17).
    CODES_FREE = 1048576
    # Up to 16 MiB of slots the load is at most 1/4, so that nearly all keys are in their first line. A larger table
    # does not fit in the caches, and its size counts more; its load is at most 1/3. Twice that load takes 4 % more time
    # with 1M keys and 16 % more with 10M, because more keys are in the lines after their first. (That was measured
    # before a probe fetched the line after a full one.) A probe of a table of values reads nothing but the slots: with
    # a load of at most 1/2 it takes 7 % less time, with 1M keys and with 10M.
    SPARSE_SLOTS_MAX = 1048576
    LOAD_INVERSE = 3
    VALUE_LOAD_INVERSE = 2
    SLOTS_MIN = 64
    # Slots that the second-level cache does not hold get a filter that it does hold. With 4 bits a slot one of 60 to
    # 140 other keys passes, and with one bit a slot of a table of values one of 20. With 43,000 keys (4 MiB of slots,
    # 128 KiB of bits), of which 5 % of the probe rows have one, a look-up takes a third of the time (TPC-H Q9). A
    # larger table has fewer bits a slot, at least one.
    FILTER_BITS = 4
    FILTER_SLOTS_MIN = 16384
    FILTER_BYTES_MAX = 1048576
    # From this number of rows on, and of rows a group on average, the rows are put in the order of their groups. Fewer
    # rows are in the second-level cache.
    ORDERED_ROWS_MIN = 32768
    ORDERED_GROUP_ROWS = 2
    ROWS_MAX = 0xFFFFFFF0       # row numbers have 32 bits, and the last one is NO_ROW
    STRIPE_ROWS = 16384
    STRIPES_MAX = 256
    # Slots of a partition, or what its ranks take. Its slots and the lines that are read ahead are in half of a
    # second-level cache. Many partitions make the writes of SCATTER miss the first-level cache and the TLB.
    PARTITION_BYTES = 262144
    PARTITIONS_MAX = 1024


# --- begin and end ---

cdef TableBuild* table_build_new(
    ColumnStore** inputs, int64_t n_inputs, int64_t n_workers, const int32_t* key_columns, int32_t n_keys,
    bint existence_only, bint values_suffice, bint track_matches, MemoryAccount* account,
) except NULL nogil:
    cdef TableBuild* build = <TableBuild*> struct_new(sizeof(TableBuild))
    cdef bint done = False
    try:
        build.account = <MemoryAccount*> owner_ref(<Owner*> account)
        build.n_workers = n_workers
        build.values_suffice = values_suffice
        build.marks = <Buffer**> struct_new(n_workers * sizeof(Buffer*))
        build.rows = column_store_join(inputs, n_inputs, &build.n_kept)
        make_table(build, key_columns, n_keys, existence_only, track_matches)
        prepare_keys(build)
        build.inputs = <ColumnStore**> struct_new(n_inputs * sizeof(ColumnStore*))
        memcpy(build.inputs, inputs, n_inputs * sizeof(ColumnStore*))
        build.n_inputs = n_inputs
        done = True
    finally:
        if not done:
            table_build_free(build)
    if build.rows.n_rows == 0:
        build.steps[0].kind = STEP_END
    else:
        build.steps[0].kind = STEP_COPY
        build.steps[0].n_items = build.n_stripes
    return build


cdef int make_table(
    TableBuild* build, const int32_t* key_columns, int32_t n_keys, bint existence_only, bint track_matches,
) except -1 nogil:
    cdef JoinTable* table
    if build.rows.n_rows > <int64_t> ROWS_MAX:
        return raise_execution(b"the build side of a join has more than 2**32 - 16 rows; build on the smaller input")
    table = join_table_new(build.account)
    build.table = table
    table.n_rows = build.rows.n_rows
    table.existence_only = existence_only
    table.columns = <Column**> struct_new(build.rows.n_columns * sizeof(Column*) + 1)
    table.n_columns = build.rows.n_columns
    table.key_columns = <int32_t*> struct_new(n_keys * sizeof(int32_t) + 1)
    table.n_keys = n_keys
    memcpy(table.key_columns, key_columns, n_keys * sizeof(int32_t))
    take_columns(table, build.rows)
    if track_matches:
        table.matched_buffer = buffer_new_zeroed(build.account, table.n_rows)
        table.matched = <uint8_t*> table.matched_buffer.data
    return 0


cdef int take_columns(JoinTable* table, ColumnStore* store) except -1 nogil:
    cdef Batch* nested = NULL
    cdef int32_t at = 0
    cdef int32_t i
    try:
        for i in range(store.n_columns):
            if store.columns[i].type.id != TYPE_NESTED:
                table.columns[i] = column_store_column(store, i)
            elif store.n_rows == 0:
                table.columns[i] = column_constant_null(&store.columns[i].type, 0)
            else:
                if nested == NULL:
                    nested = nested_concat(store.nested, store.account)
                table.columns[i] = column_ref(nested.columns[at])
                at += 1
    finally:
        batch_unref(nested)
    return 0


cdef int prepare_keys(TableBuild* build) except -1 nogil:
    cdef JoinTable* table = build.table
    cdef int32_t k
    build.stripe_rows = max(<int64_t> STRIPE_ROWS, table.n_rows // STRIPES_MAX + 1)
    build.stripe_rows = (build.stripe_rows + VECTOR_ROWS - 1) // VECTOR_ROWS * VECTOR_ROWS
    build.n_stripes = (table.n_rows + build.stripe_rows - 1) // build.stripe_rows
    if table.n_keys == 0 or table.n_rows == 0:
        return 0
    build.keys = <Column**> struct_new(table.n_keys * sizeof(Column*))
    for k in range(table.n_keys):
        build.keys[k] = table.columns[table.key_columns[k]]
    build.has_codes = key_codable(build.keys, table.n_keys)
    if build.has_codes:
        key_coder_open(&table.coder, build.keys, table.n_keys)
    build.bounds = <uint64_t*> struct_new(build.n_stripes * (2 * table.n_keys + 1) * sizeof(uint64_t))
    return 0


cdef void table_build_free(TableBuild* build) noexcept nogil:
    if build == NULL:
        return
    drop_inputs(build)
    drop_partitions(build)
    drop_marks(build)
    drop_ordered(build)
    struct_free(build.marks)
    struct_free(build.keys)
    struct_free(build.bounds)
    owner_unref(<Owner*> build.rows)
    owner_unref(<Owner*> build.table)
    owner_unref(<Owner*> build.account)
    struct_free(build)


cdef void drop_inputs(TableBuild* build) noexcept nogil:
    cdef int64_t i
    for i in range(build.n_inputs):
        owner_unref(<Owner*> build.inputs[i])
    build.n_inputs = 0
    struct_free(build.inputs)
    build.inputs = NULL


cdef void drop_partitions(TableBuild* build) noexcept nogil:
    buffer_unref(build.counts)
    buffer_unref(build.entries)
    struct_free(build.begins)
    struct_free(build.n_deferred)
    struct_free(build.group_begins)
    build.counts = NULL
    build.entries = NULL
    build.begins = NULL
    build.n_deferred = NULL
    build.group_begins = NULL


cdef void drop_marks(TableBuild* build) noexcept nogil:
    cdef int64_t i
    if build.marks == NULL:
        return
    for i in range(build.n_workers):
        buffer_unref(build.marks[i])
        build.marks[i] = NULL


cdef void drop_ordered(TableBuild* build) noexcept nogil:
    cdef int32_t i
    if build.ordered == NULL:
        return
    for i in range(build.table.n_columns):
        column_unref(build.ordered[i])
    struct_free(build.ordered)
    build.ordered = NULL


cdef JoinTable* table_build_take(TableBuild* build) noexcept nogil:
    cdef JoinTable* table = build.table
    qc_check(build.steps[build.step].kind == STEP_END, b"a table is taken when it is complete")
    build.table = NULL
    return table


# --- steps ---

cdef bint table_build_has_work(const TableBuild* build) noexcept nogil:
    cdef const BuildStep* step = &build.steps[qc_load(&build.step)]
    return step.kind != STEP_END and qc_load(&step.next_item) < step.n_items


cdef int table_build_work(
    TableBuild* build, int64_t worker, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil:
    cdef BuildStep* step = &build.steps[qc_load(&build.step)]
    cdef int64_t item
    if not table_build_has_work(build):
        return WORK_NONE
    item = qc_fetch_add(&step.next_item, 1)
    if item >= step.n_items:
        return WORK_NONE
    if step.kind == STEP_COPY:
        copy_stripe(build, item, lookup, account)
    elif step.kind == STEP_MARK:
        mark_stripe(build, item, worker, lookup, account)
    elif step.kind == STEP_WRITE:
        write_stripe(build, item, lookup, account)
    elif step.kind == STEP_COUNT:
        count_stripe(build, item, lookup, account)
    elif step.kind == STEP_SCATTER:
        scatter_stripe(build, item, lookup, account)
    elif step.kind == STEP_INSERT:
        insert_partition(build, item, lookup, account)
    elif step.kind == STEP_GROUP:
        if build.table.index == INDEX_RANKS:
            group_by_rank(build, item, account)
        else:
            group_partition(build, item, account)
    else:
        order_stripe(build, item, account)
    if qc_fetch_add(&step.n_done, 1) + 1 < step.n_items:
        return WORK_DONE
    advance(build, step.kind, lookup, account)
    return WORK_COMPLETE if build.steps[build.step].kind == STEP_END else WORK_ADVANCED


cdef void start_step(TableBuild* build, int kind, int64_t n_items) noexcept nogil:
    """Let the workers begin the next step. The caller did the last item of the one before, and no other thread works.
    """
    cdef int64_t next = build.step + 1
    qc_check(next < STEPS_MAX, b"a build has no more steps than there is space for")
    build.steps[next].kind = kind
    build.steps[next].n_items = n_items
    qc_swap(&build.step, next)


cdef int advance(TableBuild* build, int kind, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    """Begin the step after one of this kind, or end the build."""
    cdef JoinTable* table = build.table
    if kind == STEP_COPY:
        drop_inputs(build)
        return choose_index(build, lookup, account)
    if kind == STEP_MARK:
        return finish_ranks(build, account)
    if kind == STEP_WRITE:
        finish_group_rows(build)
    elif kind == STEP_COUNT:
        number_entries(build)
        start_step(build, STEP_SCATTER, build.n_stripes)
        return 0
    elif kind == STEP_SCATTER:
        buffer_unref(build.counts)
        build.counts = NULL
        if table.index == INDEX_RANKS:
            table.starts_buffer = buffer_new(account, (table.n_groups + 1) * 4)
            table.group_starts = <uint32_t*> table.starts_buffer.data
            table.group_starts[table.n_groups] = <uint32_t> table.coder.n_rows
            return start_groups(build, account)
        start_step(build, STEP_INSERT, build.n_partitions)
        return 0
    elif kind == STEP_INSERT:
        return finish_slots(build, lookup, account)
    elif kind == STEP_GROUP:
        if table.index == INDEX_RANKS:
            finish_group_rows(build)
        else:
            group_deferred(build)
        drop_partitions(build)
        if start_order(build, account):
            return 0
    elif kind == STEP_ORDER:
        take_ordered(build)
    return end_build(build)


cdef int end_build(TableBuild* build) except -1 nogil:
    drop_partitions(build)
    start_step(build, STEP_END, 0)
    return 0


cdef inline int64_t stripe_end(const TableBuild* build, int64_t stripe) noexcept nogil:
    return min(build.table.n_rows, (stripe + 1) * build.stripe_rows)


# --- copy and measure ---

cdef int copy_stripe(TableBuild* build, int64_t stripe, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    cdef int64_t start = stripe * build.stripe_rows
    cdef int64_t n = stripe_end(build, stripe) - start
    cdef int32_t n_keys = build.table.n_keys
    cdef uint64_t* bounds
    if start + n > build.n_kept:
        column_store_copy(build.rows, build.n_kept, build.inputs, build.n_inputs, start, n, account)
    if build.keys == NULL:
        return 0
    bounds = build.bounds + stripe * (2 * n_keys + 1)
    if build.has_codes:
        key_coder_measure(
            &build.table.coder, build.keys, start, n, bounds, lookup.scratch, lookup.keys, account
        )
    else:
        bounds[2 * n_keys] = count_rows_with_keys(build, start, n, lookup, account)
    return 0


cdef int64_t count_rows_with_keys(
    TableBuild* build, int64_t start, int64_t n_rows, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil:
    cdef int64_t end = start + n_rows
    cdef int64_t total = 0
    cdef int64_t n
    while start < end:
        n = min(<int64_t> VECTOR_ROWS, end - start)
        account_check(account)
        join_lookup_load(lookup, build.keys, start, NULL, n)
        if rows_without_null(lookup.keys, lookup.n_keys, n, lookup.flags):
            total += simd_kernels().mask_count(lookup.flags, n)
        else:
            total += n
        start += n
    return total


cdef int choose_index(TableBuild* build, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    cdef JoinTable* table = build.table
    cdef int64_t n_slots = slots_of_rows(table.n_rows, LOAD_INVERSE)
    cdef uint64_t codes_max
    cdef int64_t i
    if build.keys == NULL:
        table.index = INDEX_EVERY
        table.unique = table.n_rows == 1
        return end_build(build)
    if build.has_codes:
        build.has_codes = key_coder_fit(&table.coder, build.bounds, build.n_stripes)
        if not build.has_codes:
            key_coder_free(&table.coder)
    else:
        for i in range(build.n_stripes):
            table.coder.n_rows += <int64_t> build.bounds[i * (2 * table.n_keys + 1) + 2 * table.n_keys]
    if table.coder.n_rows == 0:
        return end_build(build)
    if not build.has_codes:
        return start_slots(build, INDEX_HASHES, account)
    if table.coder.is_wide:
        return start_slots(build, INDEX_WIDE_CODES, account)
    n_slots = max(n_slots, min(2 * n_slots, <int64_t> SPARSE_SLOTS_MAX))
    codes_max = max(<uint64_t> CODES_FREE, CODES_PER_SLOT_MAX * <uint64_t> n_slots)
    if table.coder.range >= codes_max:
        if build.values_suffice and slot_values_suit(table, build.keys, lookup, account):
            return start_slots(build, INDEX_VALUES, account)
        return start_slots(build, INDEX_CODES, account)
    table.index = INDEX_RANKS
    table.index_buffer = rank_words_new(account, table.coder.range)
    table.words = <RankWord*> table.index_buffer.data
    start_step(build, STEP_MARK, build.n_stripes)
    return 0


# --- ranks ---

cdef int mark_stripe(
    TableBuild* build, int64_t stripe, int64_t worker, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil:
    cdef JoinTable* table = build.table
    cdef int64_t start = stripe * build.stripe_rows
    cdef int64_t end = stripe_end(build, stripe)
    cdef int64_t n
    if build.n_stripes > 1 and build.marks[worker] == NULL:
        build.marks[worker] = buffer_new_zeroed(account, <int64_t> ((table.coder.range >> 6) + 1) * sizeof(uint64_t))
    while start < end:
        n = min(<int64_t> VECTOR_ROWS, end - start)
        account_check(account)
        join_lookup_load(lookup, build.keys, start, NULL, n)
        key_codes(&table.coder, lookup.keys, n, lookup.codes, lookup.flags)
        if build.n_stripes > 1:
            rank_marks_set(<uint64_t*> build.marks[worker].data, table.coder.range, lookup.codes, lookup.flags, n)
        else:
            rank_words_set(table.words, table.coder.range, lookup.codes, lookup.flags, n)
        start += n
    return 0


cdef int finish_ranks(TableBuild* build, MemoryAccount* account) except -1 nogil:
    """Number the codes, and begin to number the rows."""
    cdef JoinTable* table = build.table
    cdef int64_t i
    for i in range(build.n_workers):
        if build.marks[i] != NULL:
            rank_words_mark(table.words, table.coder.range, <const uint64_t*> build.marks[i].data, account)
    drop_marks(build)
    table.n_groups = rank_words_finish(table.words, table.coder.range, account)
    table.unique = table.n_groups == table.coder.n_rows
    if table.existence_only:
        return end_build(build)
    if not table.unique:
        return start_partitions(build, table.n_groups, 4 + 4 * (table.coder.n_rows // table.n_groups), account)
    table.rows_buffer = buffer_new(account, table.coder.n_rows * 4)
    table.group_rows = <uint32_t*> table.rows_buffer.data
    start_step(build, STEP_WRITE, build.n_stripes)
    return 0


cdef int write_stripe(TableBuild* build, int64_t stripe, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    """Write each row at the position of its rank."""
    cdef JoinTable* table = build.table
    cdef uint32_t* group_rows = table.group_rows
    cdef int64_t start = stripe * build.stripe_rows
    cdef int64_t end = stripe_end(build, stripe)
    cdef int64_t n, i
    cdef uint32_t row
    cdef uint32_t moved = 0
    while start < end:
        n = min(<int64_t> VECTOR_ROWS, end - start)
        account_check(account)
        locate_rows(build, lookup, start, n, account)
        for i in range(lookup.n_hits):
            row = <uint32_t> start + lookup.hits[i]
            moved |= row ^ lookup.starts[i]
            qc_check(lookup.starts[i] < table.coder.n_rows, b"a rank is below the number of keys")
            group_rows[lookup.starts[i]] = row
        start += n
    if moved != 0:
        qc_swap(&build.rows_moved, 1)
    return 0


cdef int finish_group_rows(TableBuild* build) except -1 nogil:
    """If the build side is in the order of its keys, row numbers are not needed: a position is the row."""
    cdef JoinTable* table = build.table
    if build.rows_moved == 0:
        table.group_rows = NULL
        buffer_unref(table.rows_buffer)
        table.rows_buffer = NULL
    return 0


# --- partitions ---

cdef int locate_rows(
    TableBuild* build, JoinLookup* lookup, int64_t start, int64_t n, MemoryAccount* account,
) except -1 nogil:
    """Find the rows of a vector that have keys (lookup.hits), their codes or hashes, and their positions
    (lookup.starts): ranks or home slots.
    """
    cdef JoinTable* table = build.table
    cdef uint32_t* positions = lookup.starts
    cdef const uint32_t* hits = lookup.hits
    cdef const uint32_t* slots = lookup.slot_numbers
    cdef int64_t i
    cdef int32_t k
    join_lookup_load(lookup, build.keys, start, NULL, n)
    if table.index == INDEX_HASHES:
        rows_without_null(lookup.keys, lookup.n_keys, n, lookup.flags)
        for k in range(lookup.n_keys):
            hash_vector(&lookup.keys[k], n, k > 0, lookup.codes, account)
    elif table.index == INDEX_WIDE_CODES:
        key_codes_wide(&table.coder, lookup.keys, n, lookup.codes, lookup.high_codes, lookup.flags)
    else:
        key_codes(&table.coder, lookup.keys, n, lookup.codes, lookup.flags)
    lookup.n_hits = simd_kernels().mask_rows(lookup.flags, n, 0, lookup.hits)
    if table.index == INDEX_RANKS:
        probe_kernels().ranks(table.words, lookup.codes, hits, lookup.n_hits, positions)
        return 0
    find_first_slots(lookup.codes, n, table.slot_mask, table.index == INDEX_HASHES, lookup.slot_numbers)
    for i in range(lookup.n_hits):
        positions[i] = slots[hits[i]]
    return 0


cdef int start_partitions(
    TableBuild* build, int64_t n_positions, int64_t position_bytes, MemoryAccount* account,
) except -1 nogil:
    """Divide the positions among partitions."""
    build.shift = 0
    while (
        (position_bytes << (build.shift + 1) <= PARTITION_BYTES or n_positions >> build.shift > PARTITIONS_MAX)
        and <int64_t> 1 << build.shift < n_positions
    ):
        build.shift += 1
    build.n_partitions = ((n_positions - 1) >> build.shift) + 1
    build.begins = <int64_t*> struct_new((build.n_partitions + 1) * sizeof(int64_t))
    build.n_deferred = <int64_t*> struct_new(build.n_partitions * sizeof(int64_t))
    build.entries = buffer_new(account, build.table.coder.n_rows * <int64_t> sizeof(BuildEntry))
    qc_advise_huge_pages(build.entries.data, build.entries.size)
    build.counts = buffer_new_zeroed(account, build.n_stripes * build.n_partitions * <int64_t> sizeof(uint32_t))
    if build.n_stripes == 1 and build.n_partitions == 1:
        build.begins[1] = build.table.coder.n_rows
        start_step(build, STEP_SCATTER, 1)
    else:
        start_step(build, STEP_COUNT, build.n_stripes)
    return 0


cdef int count_stripe(TableBuild* build, int64_t stripe, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    cdef uint32_t* counts = <uint32_t*> build.counts.data + stripe * build.n_partitions
    cdef const uint32_t* positions = lookup.starts
    cdef int64_t start = stripe * build.stripe_rows
    cdef int64_t end = stripe_end(build, stripe)
    cdef int64_t n, i
    cdef int shift = build.shift
    while start < end:
        n = min(<int64_t> VECTOR_ROWS, end - start)
        account_check(account)
        locate_rows(build, lookup, start, n, account)
        for i in range(lookup.n_hits):
            qc_check((positions[i] >> shift) < build.n_partitions, b"a position belongs to a partition")
            counts[positions[i] >> shift] += 1
        start += n
    return 0


cdef void number_entries(TableBuild* build) noexcept nogil:
    """Replace the counts of rows by the position of the first of them among the entries."""
    cdef uint32_t* counts = <uint32_t*> build.counts.data
    cdef int64_t n = build.n_partitions
    cdef uint32_t at = 0
    cdef uint32_t here
    cdef int64_t partition, stripe
    for partition in range(n):
        build.begins[partition] = at
        for stripe in range(build.n_stripes):
            here = counts[stripe * n + partition]
            counts[stripe * n + partition] = at
            at += here
    build.begins[n] = at
    qc_check(at == build.table.coder.n_rows, b"all rows with keys are in partitions")


cdef int scatter_stripe(TableBuild* build, int64_t stripe, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    cdef uint32_t* next = <uint32_t*> build.counts.data + stripe * build.n_partitions
    cdef BuildEntry* entries = <BuildEntry*> build.entries.data
    cdef BuildEntry* entry
    cdef const uint32_t* positions = lookup.starts
    cdef const uint32_t* hits = lookup.hits
    cdef bint wide = build.table.index == INDEX_WIDE_CODES
    cdef bint of_values = build.table.index == INDEX_VALUES
    cdef int64_t start = stripe * build.stripe_rows
    cdef int64_t end = stripe_end(build, stripe)
    cdef int64_t n, i
    cdef int shift = build.shift
    cdef uint32_t position
    while start < end:
        n = min(<int64_t> VECTOR_ROWS, end - start)
        account_check(account)
        locate_rows(build, lookup, start, n, account)
        if of_values:
            slot_values_pack(build.table, start, n, lookup.values)
        for i in range(lookup.n_hits):
            position = positions[i]
            qc_check(next[position >> shift] < build.begins[(position >> shift) + 1], b"an entry is in its partition")
            entry = &entries[next[position >> shift]]
            if next[position >> shift] % (LINE_BYTES // sizeof(BuildEntry)) == 0:
                qc_prefetch_write(<char*> entry + LINE_BYTES)
            next[position >> shift] += 1
            entry.key = lookup.codes[hits[i]]
            if of_values:
                (<ValueEntry*> entry).value = lookup.values[hits[i]]
            else:
                entry.row = <uint32_t> start + hits[i]
                entry.position = lookup.high_codes[hits[i]] if wide else position
        start += n
    return 0


# --- slots ---

cdef int64_t slots_of_rows(int64_t n_rows, int64_t load_inverse) noexcept nogil:
    """The number of slots of a table of so many rows, of which a large one has at least load_inverse slots a row."""
    cdef int64_t n_slots = SLOTS_MIN
    while n_slots < load_inverse * n_rows or (n_slots < 4 * n_rows and n_slots < SPARSE_SLOTS_MAX):
        n_slots *= 2
    return n_slots


cdef int start_slots(TableBuild* build, int index, MemoryAccount* account) except -1 nogil:
    """Allocate the slots, and a filter for them if it is useful."""
    cdef JoinTable* table = build.table
    cdef int64_t n_slots = slots_of_rows(table.n_rows, VALUE_LOAD_INVERSE if index == INDEX_VALUES else LOAD_INVERSE)
    cdef int64_t filter_bits = n_slots * FILTER_BITS
    table.index = index
    table.index_buffer = buffer_new(account, n_slots * sizeof(Slot))
    qc_advise_huge_pages(table.index_buffer.data, table.index_buffer.size)
    table.slots = <Slot*> table.index_buffer.data
    table.slot_mask = <uint64_t> (n_slots - 1)
    while filter_bits > max(n_slots, <int64_t> FILTER_BYTES_MAX * 8):
        filter_bits //= 2
    if n_slots > FILTER_SLOTS_MIN and filter_bits <= <int64_t> FILTER_BYTES_MAX * 8:
        table.filter_buffer = buffer_new_zeroed(account, filter_bits // 8)
        table.filter = <uint32_t*> table.filter_buffer.data
        table.filter_mask = <uint64_t> (filter_bits - 1)
    return start_partitions(build, n_slots, sizeof(Slot), account)


cdef void drop_slots(JoinTable* table) noexcept nogil:
    buffer_unref(table.index_buffer)
    buffer_unref(table.filter_buffer)
    table.index_buffer = NULL
    table.filter_buffer = NULL
    table.slots = NULL
    table.filter = NULL


cdef int finish_slots(TableBuild* build, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
    cdef JoinTable* table = build.table
    if table.index == INDEX_VALUES:
        insert_deferred_values(build, account)
        if build.n_repeated > 0:
            build.n_repeated = 0
            drop_partitions(build)
            drop_slots(table)
            return start_slots(build, INDEX_CODES, account)
        slot_values_drop_columns(table)
        table.n_groups = table.coder.n_rows
        table.unique = True
        return end_build(build)
    insert_deferred(build, lookup, account)
    if table.existence_only:
        return end_build(build)
    if table.index == INDEX_WIDE_CODES:
        if build.n_repeated > 0:
            # The rows of a repeated key need the count of a slot.
            drop_partitions(build)
            drop_slots(table)
            return start_slots(build, INDEX_HASHES, account)
        build.n_groups = table.coder.n_rows
    table.n_groups = build.n_groups
    table.unique = table.n_groups == table.coder.n_rows
    if table.unique:
        return end_build(build)
    place_groups(build)
    return start_groups(build, account)


# --- groups ---

cdef int start_groups(TableBuild* build, MemoryAccount* account) except -1 nogil:
    build.table.rows_buffer = buffer_new(account, build.table.coder.n_rows * 4)
    build.table.group_rows = <uint32_t*> build.table.rows_buffer.data
    start_step(build, STEP_GROUP, build.n_partitions)
    return 0


cdef int group_by_rank(TableBuild* build, int64_t partition, MemoryAccount* account) except -1 nogil:
    cdef JoinTable* table = build.table
    cdef const BuildEntry* entries = <const BuildEntry*> build.entries.data
    cdef uint32_t* starts = table.group_starts
    cdef int64_t first = partition << build.shift
    cdef int64_t last = min(table.n_groups, first + (<int64_t> 1 << build.shift))
    cdef int64_t begin = build.begins[partition]
    cdef int64_t end = build.begins[partition + 1]
    cdef uint32_t at = <uint32_t> begin
    cdef uint32_t moved = 0
    cdef uint32_t rank
    cdef int64_t i
    for i in range(first, last):
        starts[i] = 0
    for i in range(begin, end):
        starts[entries[i].position] += 1
    account_check(account)
    for i in range(first, last):
        at += starts[i]
        starts[i] = at
    qc_check(at == end, b"the groups of a partition have all of its rows")
    for i in range(end - 1, begin - 1, -1):
        if i % CHECK_ROWS == 0:
            account_check(account)
        rank = entries[i].position
        qc_check(first <= rank < last, b"a rank is one of its partition")
        starts[rank] -= 1
        qc_check(begin <= starts[rank] < end, b"a row's position is within its partition")
        table.group_rows[starts[rank]] = entries[i].row
        moved |= starts[rank] ^ entries[i].row
    if moved != 0:
        qc_swap(&build.rows_moved, 1)
    return 0


# --- order ---

cdef bint start_order(TableBuild* build, MemoryAccount* account) except -1 nogil:
    """Begin to put the rows of each group next to each other, so that a probe reads one part of each column and no row
    numbers. Returns False if that is not useful.

    With 250,000 keys of four rows each, 5 million probe rows take 0.7 of the time.
    """
    cdef JoinTable* table = build.table
    cdef Buffer* values
    cdef uint8_t* validity
    cdef int32_t i
    if table.group_rows == NULL or table.n_rows < ORDERED_ROWS_MIN:
        return False
    if table.n_rows < ORDERED_GROUP_ROWS * table.n_groups:
        return False
    if table.coder.n_rows < table.n_rows or table.matched != NULL:
        return False                # the rows without a key, and all rows of an outer join, are read in their own order
    for i in range(table.n_columns):
        if table.columns[i].encoding != FLAT or table.columns[i].storage != STORE_CANONICAL:
            return False
    build.ordered = <Column**> struct_new(table.n_columns * sizeof(Column*) + 1)
    for i in range(table.n_columns):
        build.ordered[i] = column_new_flat(
            &table.columns[i].type, table.n_rows, table.columns[i].validity != NULL, account, &values, &validity
        )
        build.ordered[i].heap_owner = owner_ref(table.columns[i].heap_owner)
    start_step(build, STEP_ORDER, build.n_stripes)
    return True


cdef int order_stripe(TableBuild* build, int64_t stripe, MemoryAccount* account) except -1 nogil:
    cdef JoinTable* table = build.table
    cdef const Column* column
    cdef Column* ordered
    cdef uint8_t bits[VECTOR_BITMAP_BYTES]
    cdef int64_t start = stripe * build.stripe_rows
    cdef int64_t end = stripe_end(build, stripe)
    cdef int64_t n
    cdef int32_t i
    cdef int width
    while start < end:
        n = min(<int64_t> VECTOR_ROWS, end - start)
        account_check(account)
        for i in range(table.n_columns):
            column = table.columns[i]
            ordered = build.ordered[i]
            width = phys_width(column.type.phys)
            gather_width(
                column.values, table.n_rows, width, table.group_rows + start, n, <char*> ordered.values + start * width
            )
            if ordered.validity != NULL:
                gather_validity(column.validity, table.n_rows, table.group_rows + start, n, bits)
                memcpy(<uint8_t*> ordered.validity + start // 8, bits, (n + 7) // 8)
        start += n
    return 0


cdef int take_ordered(TableBuild* build) except -1 nogil:
    cdef JoinTable* table = build.table
    cdef Column* unordered
    cdef int32_t i
    for i in range(table.n_columns):
        unordered = table.columns[i]
        table.columns[i] = build.ordered[i]
        build.ordered[i] = unordered
    drop_ordered(build)
    buffer_unref(table.rows_buffer)
    table.rows_buffer = NULL
    table.group_rows = NULL
    return 0
