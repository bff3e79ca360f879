"""The members of frames: the rows that an aggregate over frames reads, after its filter and without nulls."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort

from qcore_ext.aggregate.calls cimport ARGUMENTS_MAX, CallCollection, CallInput
from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.bitmap cimport bitmap_bytes, is_valid, qc_popcount
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_new_zeroed, buffer_unref,
)
from qcore_ext.window.frame_rows cimport FrameRows, frame_rows_get
from qcore_ext.window.previous_positions cimport occurs_before, previous_positions
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.radix cimport SortEntry
from qcore_ext.sort.run cimport sort_columns
from qcore_ext.rows.key_columns cimport (
    KeyColumns, key_columns_append, key_columns_free, key_columns_new, key_columns_reserve, key_columns_vector,
)
from qcore_ext.window.frames cimport Stretches

cdef enum:
    MARKED_ROWS = 4096          # from this number on ranks are sorted by a bitmap


cdef int frame_members_init(
    FrameMembers* self, const FrameRows* frames, Column** columns, const CallCollection* call, const CallInput* input,
    MemoryAccount* account,
) except -1 nogil:
    cdef const Column* value = columns[input.argument] if input.argument >= 0 else NULL
    cdef const Column* filter = columns[input.filter] if input.filter >= 0 else NULL
    self.frames = frames
    self.account = account
    select_members(self, value if input.n_required > 0 else NULL, filter)
    if input.distinct:
        find_repeats(self, columns[input.argument])
    if call != NULL and input.n_arguments > 1:
        find_order(self, columns, call, input)
    self.found = buffer_new(account, (self.n + 1) * sizeof(uint32_t))
    return 0


cdef void frame_members_free(FrameMembers* self) noexcept nogil:
    buffer_unref(self.buffer)
    buffer_unref(self.previous)
    buffer_unref(self.order)
    buffer_unref(self.ranks)
    buffer_unref(self.found)
    buffer_unref(self.marks)
    self.buffer = self.previous = self.order = self.ranks = self.found = self.marks = NULL


cdef int select_members(FrameMembers* self, const Column* value, const Column* filter) except -1 nogil:
    """Number the rows whose value is not null and whose filter is true. `value` and `filter` may be NULL."""
    cdef int64_t n = self.frames.rows.n
    cdef const uint32_t* perm = self.frames.rows.perm
    cdef const uint8_t* wanted = <const uint8_t*> filter.values if filter != NULL else NULL
    cdef int64_t i
    cdef bint is_member
    self.buffer = buffer_new(self.account, (2 * n + 1) * sizeof(uint32_t))
    self.rows = <uint32_t*> self.buffer.data
    self.before = self.rows + n
    self.before[0] = 0
    for i in range(n):
        if i % CHECK_ROWS == 0:
            account_check(self.account)
        is_member = value == NULL or is_valid(value.validity, perm[i])
        if filter != NULL:
            is_member = is_member and wanted[perm[i]] != 0 and is_valid(filter.validity, perm[i])
        self.rows[self.before[i]] = perm[i]
        self.before[i + 1] = self.before[i] + is_member
    self.n = self.before[n]
    qc_check_rows(self.rows, self.n, n, b"a member is a row of the window")
    return 0


cdef int find_repeats(FrameMembers* self, Column* value) except -1 nogil:
    cdef int64_t n = self.frames.rows.n
    cdef const uint32_t* part_begin = self.frames.rows.part_begin
    cdef Buffer* begins = NULL          # the first member of each member's partition
    cdef uint32_t* begin
    cdef const uint32_t* previous
    cdef int64_t i, at
    cdef uint32_t kept = 0
    cdef uint32_t kept_before
    try:
        begins = buffer_new(self.account, (self.n + 1) * sizeof(uint32_t))
        begin = <uint32_t*> begins.data
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(self.account)
            if self.before[i + 1] > self.before[i]:
                begin[self.before[i]] = self.before[part_begin[i]]
        self.previous = previous_positions(value, self.rows, begin, self.n, self.account)
    finally:
        buffer_unref(begins)
    if self.frames.from_first:
        # All frames begin at the partition's first row, so only the first of equal values has to be a member.
        previous = <const uint32_t*> self.previous.data
        at = 0
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(self.account)
            kept_before = kept
            if self.before[i + 1] > at:
                self.rows[kept] = self.rows[at]
                kept += previous[at] == 0
                at += 1
            self.before[i] = kept_before
        self.before[n] = kept
        self.n = kept
        buffer_unref(self.previous)
        self.previous = NULL
    return 0


cdef int find_order(
    FrameMembers* self, Column** columns, const CallCollection* call, const CallInput* input,
) except -1 nogil:
    cdef int32_t n_keys = input.n_arguments - 1
    cdef SortKey[ARGUMENTS_MAX] parts
    cdef DataType[ARGUMENTS_MAX] types
    cdef Vector[ARGUMENTS_MAX] keys
    cdef KeyColumns* stored = NULL
    cdef Buffer* validity = NULL
    cdef Buffer* entries = NULL
    cdef const SortEntry* entry
    cdef uint32_t* order
    cdef uint32_t* ranks
    cdef int64_t i
    cdef int32_t k
    for k in range(n_keys):
        types[k] = columns[input.arguments[k + 1]].type
        parts[k].column = k
        parts[k].descending = call.descending[k]
        parts[k].nulls_first = call.nulls_first[k]
    self.order = buffer_new(self.account, (self.n + 1) * sizeof(uint32_t))
    self.ranks = buffer_new(self.account, (self.n + 1) * sizeof(uint32_t))
    if self.n == 0:
        return 0
    try:
        stored = key_columns_new(self.account, types, n_keys)
        store_keys(self, stored, columns, input)
        validity = buffer_new(self.account, n_keys * (bitmap_bytes(self.n) + 64))
        for k in range(n_keys):
            key_columns_vector(
                stored, k, 0, self.n, <uint8_t*> validity.data + k * (bitmap_bytes(self.n) + 64), &keys[k]
            )
        entries = sort_columns(keys, self.n, parts, n_keys, self.account)
        entry = <const SortEntry*> entries.data
        order = <uint32_t*> self.order.data
        ranks = <uint32_t*> self.ranks.data
        for i in range(self.n):
            if i % CHECK_ROWS == 0:
                account_check(self.account)
            order[i] = entry[i].row
            ranks[entry[i].row] = <uint32_t> i
    finally:
        key_columns_free(stored)
        buffer_unref(validity)
        buffer_unref(entries)
    return 0


cdef int store_keys(
    FrameMembers* self, KeyColumns* stored, Column** columns, const CallInput* input,
) except -1 nogil:
    """Append the keys of all members to `stored`."""
    cdef int32_t n_keys = input.n_arguments - 1
    cdef int64_t scratch_bytes = (sizeof(VectorScratch) + 63) & ~<int64_t> 63
    cdef Vector[ARGUMENTS_MAX] loaded
    cdef Buffer* scratch = buffer_new(self.account, n_keys * scratch_bytes)
    cdef int64_t start = 0
    cdef int64_t m
    cdef int32_t k
    try:
        key_columns_reserve(stored, self.n)
        while start < self.n:
            account_check(self.account)
            m = min(self.n - start, <int64_t> VECTOR_ROWS)
            for k in range(n_keys):
                column_load(
                    columns[input.arguments[k + 1]], 0, self.rows + start, m,
                    <VectorScratch*> (scratch.data + k * scratch_bytes), &loaded[k],
                )
            key_columns_append(stored, loaded, NULL, m)
            start += m
    finally:
        buffer_unref(scratch)
    return 0


cdef int frame_members_count(FrameMembers* self, int64_t n_rows) except -1 nogil:
    self.n_read += n_rows + 1
    if self.n_read >= CHECK_ROWS:
        self.n_read = 0
        account_check(self.account)
    return 0


cdef int64_t frame_members_get(const FrameMembers* self, int64_t frame, Stretches* out) noexcept nogil:
    cdef int64_t count = 0
    cdef int32_t s
    frame_rows_get(self.frames, frame, out)
    for s in range(out.n):
        qc_check(out.end[s] <= self.frames.rows.n, b"a stretch ends within the window")
        out.begin[s] = self.before[out.begin[s]]
        out.end[s] = self.before[out.end[s]]
        count += out.end[s] - out.begin[s]
    return count


cdef int by_number(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*> a)[0]
    cdef uint32_t y = (<const uint32_t*> b)[0]
    return (x > y) - (x < y)


cdef int sort_ranks(FrameMembers* self, uint32_t* ranks, int64_t n) except -1 nogil:
    """Sort ranks: a few by comparison, many by a bitmap of all members that is read from its beginning."""
    cdef uint64_t* marks
    cdef uint64_t word
    cdef int64_t i
    cdef int64_t found = 0
    qc_check_rows(ranks, n, self.n, b"a rank is below the number of members")
    if n < MARKED_ROWS:
        qsort(ranks, n, sizeof(uint32_t), by_number)
        return 0
    if self.marks == NULL:
        self.marks = buffer_new_zeroed(self.account, ((self.n >> 6) + 1) * sizeof(uint64_t))
    marks = <uint64_t*> self.marks.data
    for i in range(n):
        if i % CHECK_ROWS == CHECK_ROWS - 1:
            account_check(self.account)
        marks[ranks[i] >> 6] |= <uint64_t> 1 << (ranks[i] & 63)
    for i in range((self.n >> 6) + 1):
        if i % CHECK_ROWS == CHECK_ROWS - 1:
            account_check(self.account)
        word = marks[i]
        marks[i] = 0
        while word != 0:
            ranks[found] = <uint32_t> (i << 6) + <uint32_t> qc_popcount((word & (~word + 1)) - 1)
            found += 1
            word &= word - 1
    qc_check(found == n, b"each rank occurs once")
    return 0


cdef uint32_t* frame_members_gather(FrameMembers* self, int64_t frame, int64_t* n_found) except NULL nogil:
    cdef const uint32_t* previous = <const uint32_t*> self.previous.data if self.previous != NULL else NULL
    cdef const uint32_t* ranks = <const uint32_t*> self.ranks.data if self.ranks != NULL else NULL
    cdef const uint32_t* order = <const uint32_t*> self.order.data if self.order != NULL else NULL
    cdef uint32_t* found = <uint32_t*> self.found.data
    cdef Stretches here
    cdef int64_t at, i
    cdef int64_t n = 0
    cdef int32_t s
    frame_members_count(self, frame_members_get(self, frame, &here))
    for s in range(here.n):
        for at in range(here.begin[s], here.end[s]):
            if at % CHECK_ROWS == CHECK_ROWS - 1:
                account_check(self.account)
            if previous == NULL or not occurs_before(previous, here.begin, here.end, 0, s, at):
                qc_check((at < self.n) & (n < self.n), b"a frame's member is one of the members")
                found[n] = ranks[at] if ranks != NULL else <uint32_t> at
                n += 1
    if ranks != NULL:
        sort_ranks(self, found, n)
        for i in range(n):
            if i % CHECK_ROWS == CHECK_ROWS - 1:
                account_check(self.account)
            found[i] = order[found[i]]
    n_found[0] = n
    return found
