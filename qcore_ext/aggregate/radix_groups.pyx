"""Radix groups: many groups, partitioned by hash, so that the table and the states of one part stay in the cache."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.aggregate.state cimport state_column, state_n_columns
from qcore_ext.compute.row_hash cimport hash_vector
from qcore_ext.data.column cimport (
    VECTOR_BITMAP_BYTES, VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector, VectorScratch, column_unref,
)
from qcore_ext.data.load cimport column_load_narrow
from qcore_ext.data.schema cimport PHYS_I64, PHYS_I128, PHYS_U64, PHYS_VIEW, phys_width
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Arena, Buffer, MemoryAccount, Owner, account_check, arena_new, arena_take, buffer_new, buffer_unref, owner_unref,
    struct_free, struct_new,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.prefetch cimport LINE_BYTES, qc_prefetch_range
from qcore_ext.aggregate.group_set cimport (
    GroupPlan, GroupSet, group_set_add, group_set_complete, group_set_free, group_set_merge, group_set_new,
)
from qcore_ext.aggregate.group_table cimport (
    GROUP_SCRATCH_BYTES, group_table_column, group_table_slot_bytes, group_table_word_bytes,
)
from qcore_ext.aggregate.key_packing cimport KEYS_STORED
from qcore_ext.rows.long_text cimport text_copy
from qcore_ext.rows.part_buffers cimport (
    RADIX_PARTS, PartBuffers, PartColumn, part_buffers_add, part_buffers_assign, part_buffers_complete,
    part_buffers_count, part_buffers_drop, part_buffers_free, part_buffers_new, part_buffers_rows, part_of_hash,
)

cdef enum:
    # Less than a power of two, because the blocks of the pool are powers of two.
    ROWS_EACH_FIRST = 8128
    ROWS_EACH_LEAST = 4032
    ROWS_EACH_MAX = 65536
    BUFFER_BYTES_MAX = 134217728        # for the rows of all parts
    ARENA_BYTES_MAX = 33554432
    # Bytes of a row's long strings, for which the text of a part has space. The first text fills a block of the pool.
    TEXT_BYTES = 31
    TEXT_BYTES_MAX = 67108864           # for the text of all parts
    FETCHED_LINES_MAX = 8192            # half of a second-level cache of 1 MB
    ROWS_PER_GROUP = 4                  # rows to buffer for each group of a part

ctypedef struct RadixScratch:
    uint64_t hashes[VECTOR_ROWS]
    uint32_t numbers[VECTOR_ROWS]
    int64_t text_bytes[RADIX_PARTS]     # of the long strings of the vector's rows
    Vector vectors[1]                   # n_vectors and one of hashes; then a VectorScratch for each of n_vectors


cdef bint may_keep_hashes(const GroupPlan* plan) noexcept nogil:
    """Whether it is worth it to keep the hashes of rows with stored keys.

    To move a hash costs as much as to hash a text again. A million groups by two texts of 25 bytes: 0.93 of the
    processor time; by one text 1.1.
    """
    cdef int32_t n_texts = 0
    cdef int32_t c
    for c in range(plan.n_keys):
        n_texts += plan.types[c].phys == PHYS_VIEW
    return n_texts > 1


cdef int64_t bytes_of_row(const GroupPlan* plan) noexcept nogil:
    """The bytes that the buffers have for a row, at most."""
    cdef int64_t n_bytes = 1 + (sizeof(uint64_t) if may_keep_hashes(plan) else 0)
    cdef int32_t c
    for c in range(plan.n_vectors):
        n_bytes += phys_width(plan.types[c].phys)
    return n_bytes


cdef int64_t radix_groups_rows_each(const GroupPlan* plan) noexcept nogil:
    cdef int64_t row_bytes = bytes_of_row(plan)
    # The buffers get at most half of the memory that is left, because the groups need memory too.
    cdef int64_t rows_each = part_buffers_rows(
        ROWS_EACH_FIRST, row_bytes, min(bytes_left(plan.account) // 2, <int64_t> BUFFER_BYTES_MAX)
    )
    # The buffers of wide rows may exceed BUFFER_BYTES_MAX, but not a quarter of the memory that is left.
    if rows_each == 0 and ROWS_EACH_LEAST * RADIX_PARTS * row_bytes <= bytes_left(plan.account) // 4:
        return ROWS_EACH_LEAST
    return rows_each


cdef RadixGroups* radix_groups_new(const GroupPlan* plan, GroupSet* groups, int64_t rows_each) except NULL nogil:
    cdef RadixGroups* radix = <RadixGroups*> struct_new(sizeof(RadixGroups))
    cdef bint done = False
    radix.plan = plan
    radix.with_hashes = groups.table.layout.mode == KEYS_STORED and may_keep_hashes(plan)
    try:
        radix.rows = part_buffers_new(plan.account, plan.types, plan.n_vectors, radix.with_hashes, rows_each)
        radix.table_scratch = buffer_new(plan.account, GROUP_SCRATCH_BYTES)
        radix.scratch = buffer_new(
            plan.account, sizeof(RadixScratch) + plan.n_vectors * (sizeof(Vector) + sizeof(VectorScratch))
        )
        radix.arena = arena_new(plan.account)
        move_groups(radix, groups)
        done = True
    finally:
        if not done:
            radix_groups_free(radix)
    return radix


cdef void radix_groups_free(RadixGroups* radix) noexcept nogil:
    cdef int64_t p
    if radix == NULL:
        return
    part_buffers_free(radix.rows)
    for p in range(RADIX_PARTS):
        group_set_free(radix.sets[p])
    buffer_unref(radix.table_scratch)
    buffer_unref(radix.scratch)
    buffer_unref(radix.text)
    owner_unref(<Owner*> radix.arena)
    struct_free(radix)


cdef inline VectorScratch* column_scratch(RadixGroups* radix, int32_t column) noexcept nogil:
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    return (<VectorScratch*> (scratch.vectors + radix.plan.n_vectors + 1)) + column


cdef GroupSet* part_set(RadixGroups* radix, int64_t part) except NULL nogil:
    """The group set of a part. The first call for a part makes it."""
    qc_check(0 <= part < RADIX_PARTS, b"a part is one of the parts")
    if radix.sets[part] == NULL:
        radix.sets[part] = group_set_new(radix.plan, radix.table_scratch)
    return radix.sets[part]


# --- moving groups into parts ---

cdef int32_t n_state_columns(const GroupPlan* plan) noexcept nogil:
    cdef int32_t n = 0
    cdef int32_t i
    for i in range(plan.n_states):
        n += state_n_columns(plan.states[i].kind)
    return n


cdef int hash_column(
    Column* column, int64_t n, bint combine, VectorScratch* scratch, uint64_t* hashes, const MemoryAccount* account,
) except -1 nogil:
    cdef Vector vector
    cdef int64_t start = 0
    while start < n:
        column_load_narrow(column, start, NULL, min(n - start, <int64_t> VECTOR_ROWS), scratch, &vector)
        hash_vector(&vector, min(n - start, <int64_t> VECTOR_ROWS), combine, hashes + start, account)
        start += VECTOR_ROWS
    return 0


cdef int merge_by_part(
    RadixGroups* radix, Column** columns, int32_t n_columns, const uint64_t* hashes, int64_t n, uint32_t* order,
    Vector* vectors, VectorScratch* scratch,
) except -1 nogil:
    """Merge rows 0..n of the columns (keys, states) into the sets of their parts. `order` has space for n rows."""
    cdef RadixScratch* radix_scratch = <RadixScratch*> radix.scratch.data
    cdef int64_t starts[RADIX_PARTS + 1]
    cdef int64_t i, p, m, start
    cdef int32_t c
    memset(starts, 0, sizeof(starts))
    for i in range(n):
        starts[part_of_hash(hashes[i]) + 1] += 1
    for p in range(RADIX_PARTS):
        starts[p + 1] += starts[p]
    for i in range(n):
        p = part_of_hash(hashes[i])
        qc_check(starts[p] < n, b"a part's next position is one of the rows")
        order[starts[p]] = <uint32_t> i
        starts[p] += 1
    start = 0
    for p in range(RADIX_PARTS):
        while start < starts[p]:
            m = min(starts[p] - start, <int64_t> VECTOR_ROWS)
            for c in range(n_columns):
                column_load_narrow(columns[c], 0, order + start, m, &scratch[c], &vectors[c])
            for i in range(m):
                radix_scratch.hashes[i] = hashes[order[start + i]]
            group_set_merge(part_set(radix, p), vectors, radix_scratch.hashes, m, radix_scratch.numbers)
            start += m
    return 0


cdef int move_groups(RadixGroups* radix, GroupSet* groups) except -1 nogil:
    cdef const GroupPlan* plan = radix.plan
    cdef int64_t n = groups.table.n_groups
    cdef int32_t n_columns = plan.n_keys + n_state_columns(plan)
    cdef Column** columns = NULL
    cdef Column** into
    cdef Vector* vectors = NULL
    cdef Buffer* scratch = NULL
    cdef Buffer* hashes = NULL
    cdef Buffer* order = NULL
    cdef int32_t i, j
    group_set_complete(groups, n)
    try:
        columns = <Column**> struct_new(n_columns * sizeof(Column*))
        vectors = <Vector*> struct_new(n_columns * sizeof(Vector))
        scratch = buffer_new(plan.account, n_columns * sizeof(VectorScratch))
        hashes = buffer_new(plan.account, n * sizeof(uint64_t))
        order = buffer_new(plan.account, n * sizeof(uint32_t))
        for i in range(plan.n_keys):
            columns[i] = group_table_column(groups.table, i, 0, n, plan.account)
            hash_column(
                columns[i], n, i > 0, <VectorScratch*> scratch.data, <uint64_t*> hashes.data, plan.account
            )
        for i in range(plan.n_states):
            for j in range(state_n_columns(plan.states[i].kind)):
                into = columns + plan.n_keys + plan.states[i].column
                into[j] = state_column(&groups.states[i], j, 0, n, plan.account)
        merge_by_part(
            radix, columns, n_columns, <uint64_t*> hashes.data, n, <uint32_t*> order.data, vectors,
            <VectorScratch*> scratch.data,
        )
    finally:
        if columns != NULL:
            for i in range(n_columns):
                column_unref(columns[i])
        struct_free(columns)
        struct_free(vectors)
        buffer_unref(scratch)
        buffer_unref(hashes)
        buffer_unref(order)
    return 0


# --- scattering ---

cdef bint count_text(RadixGroups* radix, const Vector* vectors, int64_t n) noexcept nogil:
    """Count the bytes of the vectors' long strings by part. Returns whether there are any."""
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef const StringView* views
    cdef bint any_long = False
    cdef int32_t c
    cdef int64_t i
    for c in range(radix.plan.n_vectors):
        if radix.plan.types[c].phys != PHYS_VIEW or not simd_kernels().views_long(vectors[c].values, n):
            continue
        if not any_long:
            memset(scratch.text_bytes, 0, sizeof(scratch.text_bytes))
            any_long = True
        views = <const StringView*> vectors[c].values
        for i in range(n):
            if views[i].length > VIEW_INLINE_BYTES and is_valid(vectors[c].validity, i):
                scratch.text_bytes[radix.rows.parts[i]] += views[i].length
    return any_long


cdef int reserve_text(RadixGroups* radix) except -1 nogil:
    """Make the text of the parts, if there is none and memory is not short."""
    cdef int64_t n_bytes = min(radix.rows.rows_each * TEXT_BYTES * RADIX_PARTS, <int64_t> TEXT_BYTES_MAX)
    if radix.text == NULL and n_bytes <= bytes_left(radix.plan.account) // 4:
        # Not a multiple of a page, for the same reason as ROWS_EACH_FIRST.
        radix.text_each = n_bytes // RADIX_PARTS - LINE_BYTES
        radix.text = buffer_new(radix.plan.account, n_bytes)
    return 0


cdef bint text_fits(const RadixGroups* radix) noexcept nogil:
    """Whether the text of each part has space for the vector's long strings."""
    cdef const RadixScratch* scratch = <const RadixScratch*> radix.scratch.data
    cdef int64_t p
    if radix.text == NULL:
        return False
    for p in range(RADIX_PARTS):
        if radix.text_used[p] + scratch.text_bytes[p] > radix.text_each:
            return False
    return True


cdef int copy_text(RadixGroups* radix, const Vector* vector, int64_t n, bint by_part, StringView* out) except -1 nogil:
    """Views of copied strings, because the batch of these may be freed before they are read."""
    cdef const uint8_t* parts = radix.rows.parts
    cdef const StringView* views = <const StringView*> vector.values
    cdef char* copy
    cdef int64_t i
    memcpy(out, views, n * sizeof(StringView))
    for i in range(n):
        if views[i].length > VIEW_INLINE_BYTES:
            if not is_valid(vector.validity, i):
                memset(&out[i], 0, sizeof(StringView))
                continue
            if by_part:
                copy = radix.text.data + parts[i] * radix.text_each + radix.text_used[parts[i]]
                radix.text_used[parts[i]] += views[i].length
                qc_check(radix.text_used[parts[i]] <= radix.text_each, b"the strings of a part are within its text")
            else:
                copy = <char*> arena_take(radix.arena, views[i].length)
                radix.arena_bytes += views[i].length
            text_copy(copy, views[i].pointer, views[i].length)
            out[i].pointer = copy
    return 0


cdef int make_space(RadixGroups* radix, int64_t n, bint any_text) except -1 nogil:
    """Group the parts whose buffers have no space for their rows of the vector."""
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef uint32_t counts[RADIX_PARTS]
    cdef int64_t p
    part_buffers_count(radix.rows, n, counts)
    for p in range(RADIX_PARTS):
        if radix.rows.n_rows[p] + counts[p] > radix.rows.rows_each:
            group_part(radix, p)
        elif any_text and radix.text != NULL and radix.text_used[p] + scratch.text_bytes[p] > radix.text_each:
            group_part(radix, p)
        qc_check(radix.rows.n_rows[p] + counts[p] <= radix.rows.rows_each, b"the rows of a part are within its buffer")
    return 0


cdef int radix_groups_add(RadixGroups* radix, const Vector* vectors, int64_t n) except -1 nogil:
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef int32_t n_vectors = radix.plan.n_vectors
    cdef bint any_text
    cdef bint may_fill
    cdef bint by_part
    cdef int32_t c
    if radix.is_short:
        lengthen(radix)
    for c in range(radix.plan.n_keys):
        hash_vector(&vectors[c], n, c > 0, scratch.hashes, radix.plan.account)
    may_fill = part_buffers_assign(radix.rows, scratch.hashes, n)
    any_text = count_text(radix, vectors, n)
    if any_text:
        reserve_text(radix)
    # Most vectors are far from the end of any buffer; their rows are not counted.
    if any_text or may_fill:
        make_space(radix, n, any_text)
    by_part = any_text and text_fits(radix)
    memcpy(scratch.vectors, vectors, n_vectors * sizeof(Vector))
    for c in range(n_vectors):
        if vectors[c].phys == PHYS_VIEW and any_text and simd_kernels().views_long(vectors[c].values, n):
            copy_text(radix, &vectors[c], n, by_part, <StringView*> column_scratch(radix, c).values)
            scratch.vectors[c].values = column_scratch(radix, c).values
    if radix.with_hashes:
        scratch.vectors[n_vectors].phys = PHYS_U64
        scratch.vectors[n_vectors].values = scratch.hashes
        scratch.vectors[n_vectors].validity = NULL
    part_buffers_add(radix.rows, scratch.vectors, n)
    if radix.arena_bytes > ARENA_BYTES_MAX:
        return group_all_parts(radix)
    return 0


# --- grouping the buffered rows ---

cdef void fetch_lines(Buffer* buffer, int64_t n_bytes, int64_t n_rows) noexcept nogil:
    """Read the first bytes into the second-level cache, unless the rows touch fewer lines than these are."""
    if n_bytes // LINE_BYTES <= min(n_rows, <int64_t> FETCHED_LINES_MAX):
        qc_prefetch_range(buffer.data, n_bytes)


cdef void radix_groups_fetch(RadixGroups* radix, int64_t part, int64_t n_rows) noexcept nogil:
    """Read what rows of a part look up into the second-level cache, from which other parts have evicted it.

    Otherwise the rows would miss the cache one by one. Reading lines in the order of addresses is several times faster.
    """
    cdef const GroupSet* groups = radix.sets[part]
    cdef int32_t k
    if groups == NULL or groups.table.slots == NULL:
        return
    fetch_lines(groups.table.slots, group_table_slot_bytes(groups.table), n_rows)
    if groups.table.layout.mode != KEYS_STORED:
        fetch_lines(groups.table.words, group_table_word_bytes(groups.table), n_rows)
    for k in range(groups.plan.n_states):
        if groups.states[k].values != NULL and groups.states[k].n_groups > 0:
            fetch_lines(
                groups.states[k].values,
                groups.states[k].values.size // groups.states[k].capacity * groups.states[k].n_groups, n_rows,
            )


cdef int group_part(RadixGroups* radix, int64_t part) except -1 nogil:
    """Add the buffered rows of a part to its group set."""
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef PartBuffers* rows = radix.rows
    cdef PartColumn* column
    cdef VectorScratch* converted
    cdef Vector* vector
    cdef const uint64_t* hashes = NULL
    cdef int64_t n, at
    cdef int64_t start = 0
    cdef int32_t c
    if rows.n_rows[part] == 0:
        return 0
    part_buffers_complete(rows, part)
    radix_groups_fetch(radix, part, rows.n_rows[part])
    while start < rows.n_rows[part]:
        account_check(radix.plan.account)
        n = min(rows.n_rows[part] - start, <int64_t> VECTOR_ROWS)
        at = part * rows.rows_each + start
        for c in range(radix.plan.n_vectors):
            column = &rows.columns[c]
            converted = column_scratch(radix, c)
            vector = &scratch.vectors[c]
            vector.phys = column.phys
            vector.values = column.values.data + at * column.width if column.width > 0 else NULL
            vector.validity = NULL
            if vector.phys == PHYS_I128 and simd_kernels().narrow(
                <const int64_t*> vector.values, n, <int64_t*> converted.values
            ) == 0:
                vector.phys = PHYS_I64
                vector.values = converted.values
            if column.valid != NULL:
                memset(converted.validity, 0, VECTOR_BITMAP_BYTES)
                simd_kernels().mask_to_bits(<const uint8_t*> column.valid.data + at, n, converted.validity)
                vector.validity = converted.validity
        if radix.with_hashes:
            hashes = (<const uint64_t*> rows.columns[radix.plan.n_vectors].values.data) + at
        group_set_add(part_set(radix, part), scratch.vectors, hashes, n, scratch.numbers)
        start += n
    rows.n_rows[part] = 0
    radix.text_used[part] = 0
    if radix.sets[part] != NULL:
        radix.is_short = radix.is_short or radix.sets[part].table.n_groups * ROWS_PER_GROUP > rows.rows_each
    return 0


cdef int radix_groups_add_part(RadixGroups* radix, int64_t part, const Vector* vectors, int64_t n) except -1 nogil:
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    return group_set_add(part_set(radix, part), vectors, NULL, n, scratch.numbers)


cdef int lengthen(RadixGroups* radix) except -1 nogil:
    """Double the buffers, unless they are large already or memory is short. They have no rows afterwards.

    Each time a buffer is full, the slots and states of its part are read from memory. Therefore the buffers grow with
    the groups, and stay smaller than them.
    """
    cdef int64_t n_bytes = bytes_of_row(radix.plan) * RADIX_PARTS * radix.rows.rows_each
    radix.is_short = False
    if radix.rows.rows_each >= ROWS_EACH_MAX or 2 * n_bytes > min(
        <int64_t> BUFFER_BYTES_MAX, bytes_left(radix.plan.account) // 4
    ):
        return 0
    group_all_parts(radix)
    part_buffers_drop(radix.rows)
    buffer_unref(radix.text)
    radix.text = NULL
    radix.rows.rows_each *= 2
    radix.is_short = False
    return 0


cdef int group_all_parts(RadixGroups* radix) except -1 nogil:
    cdef Arena* arena
    cdef int64_t p
    for p in range(RADIX_PARTS):
        group_part(radix, p)
    if radix.arena_bytes > 0:
        arena = arena_new(radix.plan.account)
        owner_unref(<Owner*> radix.arena)
        radix.arena = arena
        radix.arena_bytes = 0
    return 0


cdef int radix_groups_finish(RadixGroups* radix) except -1 nogil:
    group_all_parts(radix)
    part_buffers_drop(radix.rows)
    buffer_unref(radix.text)
    radix.text = NULL
    return 0


cdef int radix_groups_begin(RadixGroups* radix) except -1 nogil:
    cdef int64_t n_waiting = 0
    cdef int64_t p
    for p in range(RADIX_PARTS):
        n_waiting += radix.rows.n_rows[p]
        if radix.sets[p] != NULL:
            n_waiting -= radix.sets[p].table.n_groups
    if n_waiting < 0:
        # The rows add less to the groups than their buffers hold.
        radix_groups_finish(radix)
    return radix_groups_complete(radix, 0)


cdef int radix_groups_complete(RadixGroups* radix, int64_t part) except -1 nogil:
    cdef GroupSet* groups
    group_part(radix, part)
    groups = radix.sets[part]
    if groups != NULL:
        group_set_complete(groups, groups.table.n_groups)
        radix.n_complete += groups.table.n_groups
    return 0


cdef void radix_groups_drop(RadixGroups* radix, int64_t part) noexcept nogil:
    group_set_free(radix.sets[part])
    radix.sets[part] = NULL
