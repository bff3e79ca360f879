"""Radix groups: many groups, partitioned by hash, so that the table and the states of one part stay in the cache."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.aggregate.state cimport state_column, state_n_columns
from qcore_ext.compute.row_hash cimport HASH_RADIX_SHIFT, hash_vector
from qcore_ext.data.column cimport (
    VECTOR_BITMAP_BYTES, VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector, VectorScratch, column_unref,
)
from qcore_ext.data.load cimport column_load_narrow
from qcore_ext.data.schema cimport PHYS_I64, PHYS_I128, PHYS_VIEW, phys_width
from qcore_ext.data.take cimport log2_of
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Arena, Buffer, MemoryAccount, Owner, account_check, arena_new, arena_take, buffer_new, buffer_unref, owner_unref,
    struct_free, struct_new,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.prefetch cimport qc_prefetch_write
from qcore_ext.aggregate.group_set cimport (
    GroupPlan, GroupSet, group_set_add, group_set_complete, group_set_free, group_set_merge, group_set_new,
)
from qcore_ext.aggregate.group_table cimport GROUP_SCRATCH_BYTES, group_table_column, group_table_slot_bytes
from qcore_ext.aggregate.key_packing cimport KEYS_STORED
from qcore_ext.rows.long_text cimport text_copy

cdef enum:
    # Less than a power of two, because the blocks of the pool are powers of two. A multiple of ROWS_EACH_STEP, so that
    # the values of each part begin at a line, also those of one byte.
    ROWS_EACH_FIRST = 8128
    ROWS_EACH_STEP = 64
    ROWS_EACH_MAX = 65536
    BUFFER_BYTES_MAX = 134217728        # for the rows of all parts
    ARENA_BYTES_MAX = 33554432
    # Bytes of a row's long strings, for which the text of a part has space. The first text fills a block of the pool.
    TEXT_BYTES = 31
    TEXT_BYTES_MAX = 67108864           # for the text of all parts
    LINE_BYTES = 64
    LINES_BYTES = RADIX_PARTS * LINE_BYTES      # of a column: a line for each part
    FETCHED_LINES_MAX = 8192            # half of a second-level cache of 1 MB
    ROWS_PER_GROUP = 4                  # rows to buffer for each group of a part

ctypedef struct RadixScratch:
    uint64_t hashes[VECTOR_ROWS]
    uint32_t numbers[VECTOR_ROWS]
    uint8_t parts[VECTOR_ROWS]
    uint32_t counts[RADIX_PARTS]        # radix.n_rows after the vector, once a column is scattered
    uint8_t valid[VECTOR_ROWS]
    int64_t text_bytes[RADIX_PARTS]     # of the long strings of the vector's rows
    Vector vectors[1]                   # n_vectors; then one VectorScratch for each


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
    cdef int64_t rows_each = ROWS_EACH_FIRST
    # The buffers get at most half of the memory that is left, because the groups need memory too.
    cdef int64_t bytes_max = min(bytes_left(plan.account) // 2, <int64_t> BUFFER_BYTES_MAX)
    while rows_each >= 2 * VECTOR_ROWS and rows_each * RADIX_PARTS * row_bytes > bytes_max:
        rows_each = (rows_each >> 1) // ROWS_EACH_STEP * ROWS_EACH_STEP
    # The buffers of wide rows may exceed BUFFER_BYTES_MAX, but not a quarter of the memory that is left.
    if rows_each * RADIX_PARTS * row_bytes > max(bytes_max, bytes_left(plan.account) // 4):
        return 0
    return rows_each


cdef RadixGroups* radix_groups_new(const GroupPlan* plan, GroupSet* groups, int64_t rows_each) except NULL nogil:
    cdef RadixGroups* radix = <RadixGroups*> struct_new(sizeof(RadixGroups))
    cdef int32_t c
    cdef bint done = False
    radix.plan = plan
    radix.rows_each = rows_each
    try:
        radix.columns = <RadixColumn*> struct_new(plan.n_vectors * sizeof(RadixColumn))
        radix.lines = buffer_new(plan.account, (2 * plan.n_vectors + 1) * LINES_BYTES)
        radix.hash_lines = radix.lines.data + 2 * plan.n_vectors * LINES_BYTES
        for c in range(plan.n_vectors):
            radix.columns[c].lines = radix.lines.data + 2 * c * LINES_BYTES
            radix.columns[c].valid_lines = radix.columns[c].lines + LINES_BYTES
            radix.columns[c].width = phys_width(plan.types[c].phys)
            radix.columns[c].values = buffer_new(plan.account, RADIX_PARTS * rows_each * radix.columns[c].width)
        if groups.table.layout.mode == KEYS_STORED and may_keep_hashes(plan):
            radix.hashes = buffer_new(plan.account, RADIX_PARTS * rows_each * sizeof(uint64_t))
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
    cdef int32_t c
    cdef int64_t p
    if radix == NULL:
        return
    if radix.columns != NULL:
        for c in range(radix.plan.n_vectors):
            buffer_unref(radix.columns[c].values)
            buffer_unref(radix.columns[c].valid)
    for p in range(RADIX_PARTS):
        group_set_free(radix.sets[p])
    struct_free(radix.columns)
    buffer_unref(radix.hashes)
    buffer_unref(radix.lines)
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
        starts[((hashes[i] >> HASH_RADIX_SHIFT) & (RADIX_PARTS - 1)) + 1] += 1
    for p in range(RADIX_PARTS):
        starts[p + 1] += starts[p]
    for i in range(n):
        p = (hashes[i] >> HASH_RADIX_SHIFT) & (RADIX_PARTS - 1)
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

cdef void scatter_values(
    RadixGroups* radix, const void* values, int width, int64_t n, char* lines, char* out,
) noexcept nogil:
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    memcpy(scratch.counts, radix.n_rows, sizeof(scratch.counts))
    simd_kernels().scatter_parts[log2_of(width)](
        values, scratch.parts, n, scratch.counts, radix.rows_each, lines, out
    )


cdef void scatter_two(RadixGroups* radix, int32_t a, int32_t b, const Vector* vectors, int64_t n) noexcept nogil:
    """Scatter two columns of 8 bytes in one pass, in 0.7 of the time of two passes."""
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    memcpy(scratch.counts, radix.n_rows, sizeof(scratch.counts))
    simd_kernels().scatter_parts_pair(
        vectors[a].values, vectors[b].values, scratch.parts, n, scratch.counts, radix.rows_each,
        radix.columns[a].lines, radix.columns[b].lines, radix.columns[a].values.data, radix.columns[b].values.data,
    )


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
                scratch.text_bytes[scratch.parts[i]] += views[i].length
    return any_long


cdef int reserve_text(RadixGroups* radix) except -1 nogil:
    """Make the text of the parts, if there is none and memory is not short."""
    cdef int64_t n_bytes = min(radix.rows_each * TEXT_BYTES * RADIX_PARTS, <int64_t> TEXT_BYTES_MAX)
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
    cdef const uint8_t* parts = (<RadixScratch*> radix.scratch.data).parts
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


cdef int scatter_column(RadixGroups* radix, int32_t c, const Vector* vector, int64_t n, bint by_part) except -1 nogil:
    cdef RadixColumn* column = &radix.columns[c]
    cdef VectorScratch* converted = column_scratch(radix, c)
    cdef const void* values = vector.values
    if column.width == 16 and vector.phys == PHYS_I64:
        simd_kernels().widen(<const int64_t*> values, n, <int64_t*> converted.values)
        values = converted.values
    elif vector.phys == PHYS_VIEW and simd_kernels().views_long(values, n):
        copy_text(radix, vector, n, by_part, <StringView*> converted.values)
        values = converted.values
    scatter_values(radix, values, column.width, n, column.lines, column.values.data)
    return 0


cdef int scatter_validity(RadixGroups* radix, int32_t c, const Vector* vector, int64_t n) except -1 nogil:
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef RadixColumn* column = &radix.columns[c]
    if column.valid == NULL and (vector.validity != NULL or column.width == 0):
        column.valid = buffer_new(radix.plan.account, RADIX_PARTS * radix.rows_each)
        memset(column.valid.data, 1, RADIX_PARTS * radix.rows_each)
        memset(column.valid_lines, 1, LINES_BYTES)
    if column.valid == NULL:
        return 0
    if vector.validity == NULL:
        memset(scratch.valid, 1, n)
    else:
        simd_kernels().bits_to_mask(vector.validity, n, scratch.valid)
    scatter_values(radix, scratch.valid, 1, n, column.valid_lines, column.valid.data)
    return 0


cdef int make_space(RadixGroups* radix, int64_t n, bint any_text) except -1 nogil:
    """Group the parts whose buffers have no space for their rows of the vector."""
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef uint32_t counts[RADIX_PARTS]
    cdef int64_t i, p
    memset(counts, 0, sizeof(counts))
    for i in range(n):
        counts[scratch.parts[i]] += 1
    for p in range(RADIX_PARTS):
        if radix.n_rows[p] + counts[p] > radix.rows_each:
            group_part(radix, p)
        elif any_text and radix.text != NULL and radix.text_used[p] + scratch.text_bytes[p] > radix.text_each:
            group_part(radix, p)
        qc_check(radix.n_rows[p] + counts[p] <= radix.rows_each, b"the rows of a part are within its buffer")
    return 0


cdef int radix_groups_add(RadixGroups* radix, const Vector* vectors, int64_t n) except -1 nogil:
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef int32_t waiting = -1       # a column of 8 bytes that is scattered together with the next one
    cdef bint any_text
    cdef bint by_part
    cdef int64_t i, p
    cdef int64_t rows_most = 0
    cdef int32_t c
    if radix.is_short:
        lengthen(radix)
    for p in range(RADIX_PARTS):
        rows_most = max(rows_most, radix.n_rows[p])
    for c in range(radix.plan.n_keys):
        hash_vector(&vectors[c], n, c > 0, scratch.hashes, radix.plan.account)
    for i in range(n):
        scratch.parts[i] = <uint8_t> (scratch.hashes[i] >> HASH_RADIX_SHIFT)
    any_text = count_text(radix, vectors, n)
    if any_text:
        reserve_text(radix)
    # Most vectors are far from the end of any buffer; their rows are not counted.
    if any_text or rows_most + n > radix.rows_each:
        make_space(radix, n, any_text)
    by_part = any_text and text_fits(radix)
    for c in range(radix.plan.n_vectors):
        if radix.columns[c].width == 8 and waiting < 0:
            waiting = c
        elif radix.columns[c].width == 8:
            scatter_two(radix, waiting, c, vectors, n)
            waiting = -1
        elif radix.columns[c].width > 0:        # the null type has a validity only
            scatter_column(radix, c, &vectors[c], n, by_part)
        scatter_validity(radix, c, &vectors[c], n)
    if waiting >= 0:
        scatter_column(radix, waiting, &vectors[waiting], n, by_part)
    if radix.hashes != NULL:
        scatter_values(radix, scratch.hashes, sizeof(uint64_t), n, radix.hash_lines, radix.hashes.data)
    # Each column has values or a validity, so that one was scattered.
    memcpy(radix.n_rows, scratch.counts, sizeof(scratch.counts))
    for p in range(RADIX_PARTS):
        qc_check(radix.n_rows[p] <= radix.rows_each, b"the rows of a part are within its buffer")
    if radix.arena_bytes > ARENA_BYTES_MAX:
        return group_all_parts(radix)
    return 0


# --- grouping the buffered rows ---

cdef void fetch_set(const GroupSet* groups, int64_t n_rows) noexcept nogil:
    """Read the slots and states of a part into the second-level cache, from which other parts have evicted them.

    Otherwise the rows would miss the cache one by one. Reading lines in the order of addresses is several times faster.
    """
    cdef int64_t lines = group_table_slot_bytes(groups.table) // LINE_BYTES
    cdef int64_t n_bytes, i
    cdef int32_t k
    if lines > FETCHED_LINES_MAX or lines > n_rows:
        return
    for i in range(lines):
        qc_prefetch_write(groups.table.slots.data + i * LINE_BYTES)
    for k in range(groups.plan.n_states):
        if groups.states[k].values != NULL and groups.states[k].n_groups > 0:
            n_bytes = groups.states[k].values.size // groups.states[k].capacity * groups.states[k].n_groups
            if n_bytes // LINE_BYTES <= n_rows:
                for i in range(n_bytes // LINE_BYTES):
                    qc_prefetch_write(groups.states[k].values.data + i * LINE_BYTES)


cdef void write_line(
    const char* lines, int width, int64_t part, int64_t rows_each, int64_t n_rows, char* out,
) noexcept nogil:
    """Write the last values of a part, which do not fill a line."""
    cdef int64_t begun = n_rows * width % LINE_BYTES
    if begun > 0:
        memcpy(out + (part * rows_each + n_rows) * width - begun, lines + part * LINE_BYTES, begun)


cdef void write_lines(RadixGroups* radix, int64_t part) noexcept nogil:
    cdef RadixColumn* column
    cdef int32_t c
    for c in range(radix.plan.n_vectors):
        column = &radix.columns[c]
        write_line(column.lines, column.width, part, radix.rows_each, radix.n_rows[part], column.values.data)
        if column.valid != NULL:
            write_line(column.valid_lines, 1, part, radix.rows_each, radix.n_rows[part], column.valid.data)
    if radix.hashes != NULL:
        write_line(
            radix.hash_lines, sizeof(uint64_t), part, radix.rows_each, radix.n_rows[part], radix.hashes.data
        )


cdef int group_part(RadixGroups* radix, int64_t part) except -1 nogil:
    """Add the buffered rows of a part to its group set."""
    cdef RadixScratch* scratch = <RadixScratch*> radix.scratch.data
    cdef RadixColumn* column
    cdef VectorScratch* converted
    cdef Vector* vector
    cdef const uint64_t* hashes = NULL
    cdef int64_t n, at
    cdef int64_t start = 0
    cdef int32_t c
    if radix.n_rows[part] == 0:
        return 0
    write_lines(radix, part)
    if radix.sets[part] != NULL:
        fetch_set(radix.sets[part], radix.n_rows[part])
    while start < radix.n_rows[part]:
        account_check(radix.plan.account)
        n = min(radix.n_rows[part] - start, <int64_t> VECTOR_ROWS)
        at = part * radix.rows_each + start
        for c in range(radix.plan.n_vectors):
            column = &radix.columns[c]
            converted = column_scratch(radix, c)
            vector = &scratch.vectors[c]
            vector.phys = radix.plan.types[c].phys
            vector.values = column.values.data + at * column.width
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
        if radix.hashes != NULL:
            hashes = (<const uint64_t*> radix.hashes.data) + at
        group_set_add(part_set(radix, part), scratch.vectors, hashes, n, scratch.numbers)
        start += n
    radix.n_rows[part] = 0
    radix.text_used[part] = 0
    if radix.sets[part] != NULL:
        radix.is_short = radix.is_short or radix.sets[part].table.n_groups * ROWS_PER_GROUP > radix.rows_each
    return 0


cdef int lengthen(RadixGroups* radix) except -1 nogil:
    """Double the buffers, unless they are large already or memory is short. They have no rows afterwards.

    Each time a buffer is full, the slots and states of its part are read from memory. Therefore the buffers grow with
    the groups, and stay smaller than them.
    """
    cdef int64_t n_bytes = bytes_of_row(radix.plan) * RADIX_PARTS * radix.rows_each
    cdef int32_t c
    radix.is_short = False
    if radix.rows_each >= ROWS_EACH_MAX or 2 * n_bytes > min(
        <int64_t> BUFFER_BYTES_MAX, bytes_left(radix.plan.account) // 4
    ):
        return 0
    group_all_parts(radix)
    radix.rows_each *= 2
    radix.is_short = False
    for c in range(radix.plan.n_vectors):
        buffer_unref(radix.columns[c].values)
        buffer_unref(radix.columns[c].valid)
        radix.columns[c].values = NULL
        radix.columns[c].valid = NULL
    buffer_unref(radix.text)
    radix.text = NULL
    for c in range(radix.plan.n_vectors):
        radix.columns[c].values = buffer_new(
            radix.plan.account, RADIX_PARTS * radix.rows_each * radix.columns[c].width
        )
    if radix.hashes != NULL:
        buffer_unref(radix.hashes)
        radix.hashes = NULL
        radix.hashes = buffer_new(radix.plan.account, RADIX_PARTS * radix.rows_each * sizeof(uint64_t))
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
    cdef int32_t c
    group_all_parts(radix)
    for c in range(radix.plan.n_vectors):
        buffer_unref(radix.columns[c].values)
        buffer_unref(radix.columns[c].valid)
        radix.columns[c].values = NULL
        radix.columns[c].valid = NULL
    buffer_unref(radix.text)
    buffer_unref(radix.hashes)
    buffer_unref(radix.lines)
    radix.text = NULL
    radix.hashes = NULL
    radix.lines = NULL
    return 0
