"""A sorted run: rows of one driver and their order. Floor E3.

Radix sort over the prefixes, from the lowest byte up and skipping bytes that are the same in all rows; then each
stretch of equal prefixes is merge sorted by comparing values, unless the prefixes hold the keys in full.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, Owner, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.structures.row_store cimport RowStore
from qcore_ext.structures.sort_order cimport SortKey, sort_compare, sort_prefixes

cdef enum:
    INSERTION_MAX = 16          # below, insertion sort beats everything

cdef int64_t ROWS_MAX = 0xFFFFFFFE


ctypedef struct Ties:
    # What settles equal prefixes.
    const SortKey* parts
    int32_t first_open
    int32_t n_keys
    const Vector* keys


cdef inline int compare_entries(const Ties* ties, const SortEntry* a, const SortEntry* b) noexcept nogil:
    if a.prefix != b.prefix:
        return 1 if a.prefix > b.prefix else -1
    return sort_compare(ties.parts, ties.first_open, ties.n_keys, ties.keys, a.row, ties.keys, b.row)


cdef void insertion_sort(SortEntry* entries, int64_t n, const Ties* ties) noexcept nogil:
    cdef SortEntry moving
    cdef int64_t i, j
    for i in range(1, n):
        moving = entries[i]
        j = i
        while j > 0 and compare_entries(ties, &entries[j - 1], &moving) > 0:
            entries[j] = entries[j - 1]
            j -= 1
        entries[j] = moving


cdef void merge(
    const SortEntry* a, int64_t n_a, const SortEntry* b, int64_t n_b, SortEntry* out, const Ties* ties,
) noexcept nogil:
    cdef int64_t i = 0
    cdef int64_t j = 0
    while i < n_a and j < n_b:
        if compare_entries(ties, &b[j], &a[i]) < 0:
            out[i + j] = b[j]
            j += 1
        else:
            out[i + j] = a[i]
            i += 1
    memcpy(out + i + j, a + i, (n_a - i) * sizeof(SortEntry))
    memcpy(out + i + j + n_a - i, b + j, (n_b - j) * sizeof(SortEntry))


cdef void merge_sort(SortEntry* entries, SortEntry* other, int64_t n, const Ties* ties) noexcept nogil:
    """In place; `other` is room for n."""
    cdef SortEntry* source = entries
    cdef SortEntry* target = other
    cdef SortEntry* swap
    cdef int64_t width = INSERTION_MAX
    cdef int64_t at = 0
    cdef int64_t middle, end
    while at < n:
        insertion_sort(entries + at, min(n - at, width), ties)
        at += width
    while width < n:
        at = 0
        while at < n:
            middle = min(at + width, n)
            end = min(at + 2 * width, n)
            merge(source + at, middle - at, source + middle, end - middle, target + at, ties)
            at = end
        swap = source
        source = target
        target = swap
        width *= 2
    if source != entries:
        memcpy(entries, source, n * sizeof(SortEntry))


cdef SortEntry* radix_sort(SortEntry* entries, SortEntry* other, int64_t n) noexcept nogil:
    """By prefix; returns where the result lies."""
    cdef uint32_t counts[8][256]
    cdef SortEntry* source = entries
    cdef SortEntry* target = other
    cdef SortEntry* swap
    cdef uint32_t* count
    cdef uint32_t at, here
    cdef uint64_t prefix
    cdef int64_t i
    cdef int digit, shift
    memset(counts, 0, sizeof(counts))
    for i in range(n):
        prefix = entries[i].prefix
        for digit in range(8):
            counts[digit][(prefix >> (8 * digit)) & 0xFF] += 1
    for digit in range(8):
        shift = 8 * digit
        count = counts[digit]
        if count[(source[0].prefix >> shift) & 0xFF] == n:
            continue                # the same in all rows
        at = 0
        for i in range(256):
            here = count[i]
            count[i] = at
            at += here
        for i in range(n):
            prefix = (source[i].prefix >> shift) & 0xFF
            target[count[prefix]] = source[i]
            count[prefix] += 1
        swap = source
        source = target
        target = swap
    return source


cdef SortEntry* sort_entries(
    SortEntry* entries, SortEntry* other, int64_t n, const SortKey* parts, int32_t first_open, int32_t n_keys,
    const Vector* keys,
) noexcept nogil:
    cdef Ties ties
    cdef SortEntry* sorted
    cdef int64_t end
    cdef int64_t start = 0
    ties.parts = parts
    ties.first_open = first_open
    ties.n_keys = n_keys
    ties.keys = keys
    if n < 256:
        merge_sort(entries, other, n, &ties)
        return entries
    sorted = radix_sort(entries, other, n)
    if sorted != entries:
        other = entries
    if first_open < n_keys:
        while start < n:
            end = start + 1
            while end < n and sorted[end].prefix == sorted[start].prefix:
                end += 1
            if end - start > 1:
                merge_sort(sorted + start, other + start, end - start, &ties)
            start = end
    return sorted


cdef Buffer* sort_columns(
    const Vector* keys, int64_t n, const SortKey* parts, int32_t first_open, int32_t n_keys, MemoryAccount* account,
) except NULL nogil:
    cdef Buffer* entries = NULL
    cdef Buffer* other = NULL
    cdef SortEntry* at
    cdef uint64_t* prefixes
    cdef int64_t i
    cdef bint done = False
    if n > ROWS_MAX:
        raise_execution(b"a driver sorts up to 2**32 rows; use more drivers")
        return NULL
    try:
        entries = buffer_new(account, n * sizeof(SortEntry))
        other = buffer_new(account, n * sizeof(SortEntry))
        prefixes = <uint64_t*> other.data
        sort_prefixes(parts, n_keys, keys, n, prefixes)
        at = <SortEntry*> entries.data
        for i in range(n):
            at[i].prefix = prefixes[i]
            at[i].row = <uint32_t> i
        if sort_entries(at, <SortEntry*> other.data, n, parts, first_open, n_keys, keys) != at:
            entries, other = other, entries
        done = True
    finally:
        buffer_unref(other)
        if not done:
            buffer_unref(entries)
    return entries


cdef SortRun* sort_run_new(
    RowStore* rows, CSchema* schema, const SortKey* parts, int32_t first_open, int32_t n_keys, MemoryAccount* account,
) except NULL nogil:
    cdef SortRun* run = NULL
    cdef int32_t k
    cdef bint done = False
    try:
        run = <SortRun*> struct_new(sizeof(SortRun))
        run.rows = <RowStore*> owner_ref(<Owner*> rows)
        run.schema = <CSchema*> owner_ref(<Owner*> schema)
        run.n_keys = n_keys
        run.keys = <Vector*> struct_new(max(n_keys, 1) * sizeof(Vector))
        for k in range(n_keys):
            run.keys[k].phys = rows.columns[parts[k].column].type.phys
            if rows.columns[parts[k].column].values != NULL:
                run.keys[k].values = rows.columns[parts[k].column].values.data
            if rows.columns[parts[k].column].validity != NULL:
                run.keys[k].validity = <const uint8_t*> rows.columns[parts[k].column].validity.data
        run.entries = sort_columns(run.keys, rows.n_rows, parts, first_open, n_keys, account)
        done = True
    finally:
        owner_unref(<Owner*> rows)
        if not done:
            sort_run_free(run)
    return run


cdef void sort_run_free(SortRun* run) noexcept nogil:
    if run == NULL:
        return
    owner_unref(<Owner*> run.rows)
    owner_unref(<Owner*> run.schema)
    buffer_unref(run.entries)
    struct_free(run.keys)
    struct_free(run)
