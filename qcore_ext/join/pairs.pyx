"""Pairs of probe and build rows, made of the hits of a lookup."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport NO_ROW
from qcore_ext.data.take cimport gather_width
from qcore_ext.ground.atomic cimport qc_flag_get, qc_flag_set
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport CHECK_ROWS, Buffer, account_check, buffer_new, buffer_unref
from qcore_ext.join.table cimport JoinLookup, JoinTable, group_row


cdef void pairs_drop(Pairs* pairs) noexcept nogil:
    buffer_unref(pairs.probe_rows)
    buffer_unref(pairs.build_rows)
    buffer_unref(pairs.values)
    memset(pairs, 0, sizeof(Pairs))


cdef int buffer_trim(Buffer** buffer, int64_t size) except -1 nogil:
    cdef Buffer* smaller
    if buffer[0] == NULL or size * 4 > buffer[0].size or buffer[0].size <= 4096:
        return 0
    smaller = buffer_new(buffer[0].account, size)
    memcpy(smaller.data, buffer[0].data, size)
    buffer_unref(buffer[0])
    buffer[0] = smaller
    return 0


cdef int rows_trim(Buffer** rows, int64_t n) except -1 nogil:
    return buffer_trim(rows, n * sizeof(uint32_t))


cdef int pairs_trim(Pairs* pairs) except -1 nogil:
    rows_trim(&pairs.probe_rows, pairs.n)
    rows_trim(&pairs.build_rows, pairs.n)
    return buffer_trim(&pairs.values, pairs.n * sizeof(uint64_t))


cdef inline void hit_rows(const JoinLookup* lookup, const uint32_t* rows, int64_t start, uint32_t* out) noexcept nogil:
    cdef const uint32_t* hits = lookup.hits
    cdef int64_t i
    if rows != NULL:
        for i in range(lookup.n_hits):
            out[i] = rows[hits[i]]
    else:
        for i in range(lookup.n_hits):
            out[i] = <uint32_t> start + hits[i]


cdef void unique_pairs(
    const JoinTable* table, const JoinLookup* lookup, const uint32_t* rows, int64_t start,
    uint32_t* probe_rows,       # OUT
    uint32_t* build_rows,       # OUT
) noexcept nogil:
    cdef const uint32_t* starts = lookup.starts
    cdef const uint32_t* group_rows = table.group_rows
    cdef int64_t n = lookup.n_hits
    cdef int64_t i
    hit_rows(lookup, rows, start, probe_rows)
    if group_rows != NULL:
        for i in range(n):
            build_rows[i] = group_rows[starts[i]]
    else:
        for i in range(n):
            build_rows[i] = starts[i]
    qc_check_rows(build_rows, n, table.n_rows, b"a pair's build row is a row of the table")


cdef void value_pairs(
    const JoinLookup* lookup, const uint32_t* rows, int64_t start, int64_t n, Pairs* pairs,
) noexcept nogil:
    cdef const uint64_t* given = lookup.values
    cdef uint64_t* values = <uint64_t*> pairs.values.data + pairs.n
    hit_rows(lookup, rows, start, <uint32_t*> pairs.probe_rows.data + pairs.n)
    if lookup.n_hits == n:
        memcpy(values, given, n * sizeof(uint64_t))
    else:
        gather_width(given, n, sizeof(uint64_t), lookup.hits, lookup.n_hits, values)
    pairs.n += lookup.n_hits


cdef void spread_misses(const JoinTable* table, JoinLookup* lookup, int64_t n) noexcept nogil:
    cdef int64_t hit = lookup.n_hits - 1
    cdef int64_t i
    for i in range(n - 1, -1, -1):
        if lookup.flags[i]:
            lookup.starts[i] = lookup.starts[hit]
            lookup.counts[i] = 1 if table.unique else lookup.counts[hit]
            hit -= 1
        else:
            lookup.counts[i] = 0
        lookup.hits[i] = <uint32_t> i
    lookup.n_hits = n


cdef void group_pairs(
    const JoinTable* table, const JoinLookup* lookup, const uint32_t* rows, int64_t start, PairCursor* cursor,
    Pairs* pairs,
) noexcept nogil:
    cdef const uint32_t* hits = lookup.hits
    cdef uint32_t* probe_rows = <uint32_t*> pairs.probe_rows.data
    cdef uint32_t* build_rows = <uint32_t*> pairs.build_rows.data
    cdef int64_t capacity = pairs.capacity
    cdef int64_t n_hits = lookup.n_hits
    cdef int64_t n = pairs.n
    cdef int64_t hit = cursor.hit
    cdef int64_t done = cursor.in_group
    cdef int64_t count, position, take, i
    cdef uint32_t row
    while hit < n_hits and n < capacity:
        row = rows[hits[hit]] if rows != NULL else <uint32_t> start + hits[hit]
        count = lookup.counts[hit]
        if count == 0:
            probe_rows[n] = row
            build_rows[n] = <uint32_t> NO_ROW
            pairs.some_missing = True
            n += 1
            hit += 1
            continue
        position = <int64_t> lookup.starts[hit] + done
        take = min(count - done, capacity - n)
        qc_check(position + take <= table.n_rows, b"a group's rows are rows of the table")
        for i in range(take):
            probe_rows[n + i] = row
            build_rows[n + i] = group_row(table, position + i)
        n += take
        done += take
        if done == count:
            done = 0
            hit += 1
    pairs.n = n
    cursor.hit = hit
    cursor.in_group = done


cdef int mark_group(const JoinTable* table, int64_t start, int64_t count) except -1 nogil:
    cdef int64_t i
    qc_check((start >= 0) & (start + count <= table.n_rows), b"a group's rows are rows of the table")
    # All rows of a group are marked together, the first one last. Its flag is read before it is written, so that
    # drivers can share the cache line.
    if qc_flag_get(table.matched + group_row(table, start)) == 0:
        for i in range(count - 1, -1, -1):
            if i % CHECK_ROWS == CHECK_ROWS - 1:
                account_check(table.account)
            qc_flag_set(table.matched + group_row(table, start + i))
    return 0


cdef void mark_rows(uint8_t* matched, const uint32_t* rows, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if rows[i] != <uint32_t> NO_ROW and qc_flag_get(matched + rows[i]) == 0:
            qc_flag_set(matched + rows[i])
