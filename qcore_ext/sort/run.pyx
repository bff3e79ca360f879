"""A sorted run: the rows of one driver and their order.

A radix sort orders the prefixes. Then each range of equal prefixes is sorted by the parts of the keys that are not in
the prefix. A range is sorted by words, one word of a key at a time: the rows of a range may lie anywhere, and each of
them is read once for a word, but several times if values are compared. The shortest ranges are sorted by comparisons.

If the query is stopped the functions return early, with entries in no order, and sort_columns raises Cancelled.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from qcore_ext.data.column cimport (
    NO_ROW, VECTOR_BITMAP_BYTES, VECTOR_ROWS, VIEW_INLINE_BYTES, StringView, Vector,
)
from qcore_ext.data.schema cimport PHYS_VIEW, CSchema, phys_width
from qcore_ext.data.take cimport gather_validity, gather_width
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, Owner, account_check, buffer_new, buffer_unref, owner_ref, owner_unref,
    struct_free, struct_new,
)
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.sort.order cimport (
    STRING_WORD_BYTES, KeyRange, SortKey, compare_views, key_range_measure, sort_compare, sort_key_words,
    sort_layout, sort_prefixes,
)
from qcore_ext.sort.radix cimport is_stopped, radix_sort_entries

cdef enum:
    INSERTION_MAX = 16          # up to here insertion sort is fastest
    COMPARE_MAX = 8             # up to here the values are compared: two words would be read of each row

cdef int64_t ROWS_MAX = 0xFFFFFFFE


ctypedef struct Ties:
    # How rows with equal prefixes are compared.
    const SortKey* parts
    int32_t first_open                  # the first key to compare
    int32_t n_keys
    const Vector* keys
    const MemoryAccount* account        # of the query that may be stopped


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
        if (i + j) % CHECK_ROWS == 0 and is_stopped(ties.account):
            return
        if compare_entries(ties, &b[j], &a[i]) < 0:
            out[i + j] = b[j]
            j += 1
        else:
            out[i + j] = a[i]
            i += 1
    memcpy(out + i + j, a + i, (n_a - i) * sizeof(SortEntry))
    memcpy(out + i + j + n_a - i, b + j, (n_b - j) * sizeof(SortEntry))


cdef void copy_entries(
    const SortEntry* entries, int64_t n, SortEntry* out, const MemoryAccount* account,
) noexcept nogil:
    cdef int64_t start = 0
    while start < n and not is_stopped(account):
        memcpy(out + start, entries + start, min(n - start, <int64_t> CHECK_ROWS) * sizeof(SortEntry))
        start += CHECK_ROWS


cdef void merge_sort(SortEntry* entries, SortEntry* other, int64_t n, const Ties* ties) noexcept nogil:
    """Sort the entries in place. `other` has space for n entries."""
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
        if is_stopped(ties.account):
            return
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
        copy_entries(source, n, entries, ties.account)


# --- ties ---

cdef void set_words(SortEntry* entries, int64_t n, const Ties* ties, int32_t k, int64_t offset) noexcept nogil:
    """Set the entries' prefixes to the next word of key k."""
    cdef uint32_t rows[VECTOR_ROWS]
    cdef uint64_t words[VECTOR_ROWS]
    cdef int64_t i, m
    cdef int64_t start = 0
    while start < n and not is_stopped(ties.account):
        m = min(n - start, <int64_t> VECTOR_ROWS)
        for i in range(m):
            rows[i] = entries[start + i].row
        sort_key_words(&ties.parts[k], &ties.keys[k], rows, m, offset, words)
        for i in range(m):
            entries[start + i].prefix = words[i]
        start += m


cdef bint views_equal(const StringView* views, const StringView* other, int64_t n) noexcept nogil:
    """Whether n strings are equal to another one."""
    cdef const uint64_t* wanted = <const uint64_t*> other
    cdef const uint64_t* words
    cdef int64_t i
    for i in range(n):
        words = <const uint64_t*> &views[i]
        if words[0] != wanted[0]:
            return False                    # another length, or another of the first four bytes
        if words[1] != wanted[1] and (other.length <= VIEW_INLINE_BYTES or compare_views(&views[i], other) != 0):
            return False
    return True


cdef bint values_equal(const char* values, const char* other, int width, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if memcmp(values + i * width, other, width) != 0:
            return False
    return True


cdef bint key_is_constant(const SortEntry* entries, int64_t n, const Ties* ties, int32_t k) noexcept nogil:
    """Whether the entries have the same bytes of key k. Equal values may differ in bytes, such as 0.0 and -0.0."""
    cdef char values[VECTOR_ROWS * 16]
    cdef uint8_t validity[VECTOR_BITMAP_BYTES]
    cdef uint32_t rows[VECTOR_ROWS]
    cdef const Vector* key = &ties.keys[k]
    cdef int width = phys_width(key.phys)
    cdef bint first_valid = is_valid(key.validity, entries[0].row)
    cdef char first[16]
    cdef int64_t start = 0
    cdef int64_t i, m
    if first_valid:
        memcpy(first, <const char*> key.values + entries[0].row * width, width)
    while start < n:
        if is_stopped(ties.account):
            return False
        m = min(n - start, <int64_t> VECTOR_ROWS)
        for i in range(m):
            rows[i] = entries[start + i].row
        if key.validity != NULL:
            gather_validity(key.validity, NO_ROW, rows, m, validity)
            for i in range(m):
                if is_valid(validity, i) != first_valid:
                    return False
        if first_valid:
            gather_width(key.values, NO_ROW, width, rows, m, values)
            if key.phys == PHYS_VIEW:
                if not views_equal(<const StringView*> values, <const StringView*> first, m):
                    return False
            elif not values_equal(values, first, width, m):
                return False
        start += m
    return True


cdef bint has_more_words(
    const SortEntry* entries, int64_t n, const Ties* ties, int32_t k, int64_t offset,
) noexcept nogil:
    """Whether some string is longer than the word at `offset`. In a shorter string zeros may hide where it ends."""
    cdef const StringView* views = <const StringView*> ties.keys[k].values
    cdef int64_t i, row
    if ties.keys[k].phys == PHYS_VIEW:
        for i in range(n):
            row = entries[i].row
            if i % CHECK_ROWS == 0 and is_stopped(ties.account):
                return False
            if is_valid(ties.keys[k].validity, row) and views[row].length > offset + STRING_WORD_BYTES:
                return True
    return False


cdef void sort_ties(
    SortEntry* entries, SortEntry* other, int64_t n, const Ties* ties, int32_t k, int64_t offset,
) noexcept nogil:
    """Sort entries that are equal in all keys before k, and in key k before byte `offset`. Changes their prefixes."""
    cdef Ties rest = ties[0]
    cdef int64_t end
    cdef int64_t start = 0
    rest.first_open = k
    while k < ties.n_keys and n > COMPARE_MAX and key_is_constant(entries, n, ties, k):
        k += 1
        offset = 0
    if k == ties.n_keys or is_stopped(ties.account):
        return
    rest.first_open = k
    if n <= COMPARE_MAX:
        merge_sort(entries, other, n, &rest)
        return
    set_words(entries, n, ties, k, offset)
    radix_sort_entries(entries, other, n, ties.account)
    while start < n and not is_stopped(ties.account):
        end = start + 1
        while end < n and entries[end].prefix == entries[start].prefix:
            end += 1
        if end - start == n and not has_more_words(entries, n, ties, k, offset):
            merge_sort(entries, other, n, &rest)        # all words are equal, and no string has another word
        elif end - start > 1:
            sort_ties(
                entries + start, other + start, end - start, ties, k,
                offset + STRING_WORD_BYTES if ties.keys[k].phys == PHYS_VIEW else 0,
            )
        start = end


cdef void sort_entries(
    SortEntry* entries, SortEntry* other, int64_t n, const SortKey* parts, int32_t first_open, int32_t n_keys,
    const Vector* keys, const MemoryAccount* account,
) noexcept nogil:
    cdef Ties ties
    cdef uint64_t prefix
    cdef int64_t end, i
    cdef int64_t look = 0           # the next row at which to check whether the query is stopped
    cdef int64_t start = 0
    cdef int64_t offset = 0         # of the first bytes that are not in the prefix
    radix_sort_entries(entries, other, n, account)
    if first_open < n_keys and keys[first_open].phys == PHYS_VIEW and parts[first_open].drop == 0:
        offset = parts[first_open].n_shared + parts[first_open].n_bytes
    ties.parts = parts
    ties.first_open = first_open
    ties.n_keys = n_keys
    ties.keys = keys
    ties.account = account
    while first_open < n_keys and start < n:
        if start >= look:
            if is_stopped(account):
                return
            look = start + CHECK_ROWS
        prefix = entries[start].prefix
        end = start + 1
        while end < n and entries[end].prefix == prefix:
            end += 1
        if end - start > 1:
            sort_ties(entries + start, other + start, end - start, &ties, first_open, offset)
            for i in range(start, end):
                entries[i].prefix = prefix
        start = end


cdef inline void check_entries(const SortEntry* entries, int64_t n) noexcept nogil:
    """In a debug build: the rows of the entries are rows, and the prefixes ascend."""
    cdef int64_t i
    for i in range(n):
        qc_check(0 <= <int64_t> entries[i].row < n, b"an entry's row is a row of the run")
        qc_check(entries[i - (i > 0)].prefix <= entries[i].prefix, b"the prefixes of a run ascend")


cdef Buffer* sort_columns(
    const Vector* keys, int64_t n, const SortKey* parts, int32_t n_keys, MemoryAccount* account,
) except NULL nogil:
    cdef SortKey* laid = NULL
    cdef KeyRange* ranges = NULL
    cdef Buffer* entries = NULL
    cdef int32_t k
    if n > ROWS_MAX:
        raise_execution(b"a driver has more than 2**32 - 2 rows to sort; use more drivers")
        return NULL
    try:
        laid = <SortKey*> struct_new(max(n_keys, 1) * sizeof(SortKey))
        ranges = <KeyRange*> struct_new(max(n_keys, 1) * sizeof(KeyRange))
        memcpy(laid, parts, n_keys * sizeof(SortKey))
        for k in range(n_keys):
            key_range_measure(&ranges[k], &keys[k], n, account)
        entries = sort_ranged(keys, n, laid, ranges, n_keys, account)
    finally:
        struct_free(laid)
        struct_free(ranges)
    return entries


cdef Buffer* sort_ranged(
    const Vector* keys, int64_t n, SortKey* parts, const KeyRange* ranges, int32_t n_keys, MemoryAccount* account,
) except NULL nogil:
    cdef uint8_t* phys = NULL
    cdef Buffer* entries = NULL
    cdef Buffer* other = NULL
    cdef SortEntry* at
    cdef uint64_t* prefixes
    cdef int64_t start = 0
    cdef int64_t i
    cdef int32_t k, first_open
    cdef bint done = False
    try:
        phys = <uint8_t*> struct_new(n_keys + 1)
        for k in range(n_keys):
            phys[k] = keys[k].phys
        first_open = sort_layout(parts, phys, ranges, n_keys)
        entries = buffer_new(account, n * sizeof(SortEntry))
        other = buffer_new(account, n * sizeof(SortEntry))
        prefixes = <uint64_t*> other.data
        sort_prefixes(parts, n_keys, keys, n, prefixes, account)
        at = <SortEntry*> entries.data
        while start < n:
            account_check(account)
            for i in range(start, min(n, start + CHECK_ROWS)):
                at[i].prefix = prefixes[i]
                at[i].row = <uint32_t> i
            start += CHECK_ROWS
        sort_entries(at, <SortEntry*> other.data, n, parts, first_open, n_keys, keys, account)
        account_check(account)
        check_entries(at, n)
        done = True
    finally:
        struct_free(phys)
        buffer_unref(other)
        if not done:
            buffer_unref(entries)
    return entries


cdef SortRun* sort_run_new(
    ColumnStore* rows, CSchema* schema, const SortKey* parts, int32_t n_keys, MemoryAccount* account,
) except NULL nogil:
    cdef SortRun* run = NULL
    cdef int32_t k
    cdef bint done = False
    try:
        run = <SortRun*> struct_new(sizeof(SortRun))
        run.rows = <ColumnStore*> owner_ref(<Owner*> rows)
        run.schema = <CSchema*> owner_ref(<Owner*> schema)
        run.n_keys = n_keys
        run.keys = <Vector*> struct_new(max(n_keys, 1) * sizeof(Vector))
        for k in range(n_keys):
            run.keys[k].phys = rows.columns[parts[k].column].type.phys
            if rows.columns[parts[k].column].values != NULL:
                run.keys[k].values = rows.columns[parts[k].column].values.data
            if rows.columns[parts[k].column].validity != NULL:
                run.keys[k].validity = <const uint8_t*> rows.columns[parts[k].column].validity.data
        run.entries = sort_columns(run.keys, rows.n_rows, parts, n_keys, account)
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
