"""Holistic aggregates over frames: quantiles, lists, text, mode."""

from libc.math cimport ceil, floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.aggregate.calls cimport (
    COLLECT_BETWEEN, COLLECT_FIRST, COLLECT_LAST, COLLECT_LIST, COLLECT_MODE, COLLECT_TEXT, CallCollection, CallInput,
)
from qcore_ext.data.column cimport (
    NO_ROW, VIEW_INLINE_BYTES, Column, StringView, column_new_flat, column_unref, view_data,
)
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.bitmap cimport bit_clear
from qcore_ext.ground.check cimport qc_check, qc_check_large_offsets, qc_check_rows
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Arena, Buffer, MemoryAccount, Owner, account_check, arena_new, arena_take, buffer_grow, buffer_new,
    buffer_new_zeroed, buffer_unref, owner_ref, owner_unref,
)
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.aggregate.holistic cimport (
    TEXT_BYTES_MAX, list_of_rows, point_between, raise_text_too_long, text_of_rows,
)
from qcore_ext.window.frame_members cimport (
    FrameMembers, frame_members_count, frame_members_free, frame_members_gather, frame_members_get, frame_members_init,
)
from qcore_ext.window.frame_rows cimport FrameRows
from qcore_ext.window.wavelet_matrix cimport (
    WaveletMatrix, wavelet_matrix_free, wavelet_matrix_init, wavelet_matrix_pick,
)
from qcore_ext.aggregate.value_numbers cimport value_numbers
from qcore_ext.window.frames cimport Stretches


cdef int frame_results(
    const FrameRows* frames, Column** columns, const CallCollection* call, const CallInput* input, CSchema* schema,
    int32_t field, uint32_t* result_rows, Column** out, MemoryAccount* account,
) except -1 nogil:
    cdef FrameMembers members
    cdef const DataType* type = &schema.fields[field].type
    cdef Column* value = columns[input.argument]
    out[0] = NULL
    memset(&members, 0, sizeof(FrameMembers))
    try:
        frame_members_init(&members, frames, columns, call, input, account)
        if call.kind == COLLECT_MODE:
            find_modes(&members, value, result_rows)
        elif call.kind == COLLECT_TEXT and members.order == NULL and members.previous == NULL:
            out[0] = text_of_stretches(&members, call, value, type)
        elif call.kind == COLLECT_TEXT:
            out[0] = text_of_members(&members, call, value, type)
        elif call.kind == COLLECT_LIST:
            out[0] = build_lists(&members, value, schema, field)
        elif members.n == 0:
            memset(result_rows, 0xFF, frames.n_frames * sizeof(uint32_t))
        elif call.kind == COLLECT_BETWEEN:
            out[0] = interpolate_quantiles(&members, call, value, type)
        else:
            pick_rows(&members, call, result_rows)
    finally:
        frame_members_free(&members)
    return 0


# --- positions in an order ---

cdef inline int64_t position_in(const CallCollection* call, int64_t count) noexcept nogil:
    """The position of the result among `count` ordered values."""
    if call.kind == COLLECT_FIRST:
        return 0
    if call.kind == COLLECT_LAST:
        return count - 1
    if call.kind == COLLECT_BETWEEN:
        return <int64_t> floor(call.fraction * (count - 1))
    return max(<int64_t> ceil(call.fraction * count) - 1, <int64_t> 0)


cdef int pick_rows(FrameMembers* members, const CallCollection* call, uint32_t* result_rows) except -1 nogil:
    """Write one row for each frame, by its position in the call's order."""
    cdef const uint32_t* order = <const uint32_t*> members.order.data
    cdef const uint32_t* found = NULL
    cdef WaveletMatrix tree
    cdef Stretches here
    cdef int64_t f, count
    memset(&tree, 0, sizeof(WaveletMatrix))
    try:
        if members.previous == NULL:
            wavelet_matrix_init(&tree, <const uint32_t*> members.ranks.data, members.n, members.account)
        for f in range(members.frames.n_frames):
            result_rows[f] = NO_ROW
            if members.previous != NULL:
                found = frame_members_gather(members, f, &count)
                if count > 0:
                    result_rows[f] = members.rows[found[position_in(call, count)]]
                continue
            frame_members_count(members, tree.n_levels)
            count = frame_members_get(members, f, &here)
            if count > 0:
                result_rows[f] = members.rows[order[wavelet_matrix_pick(&tree, &here, position_in(call, count))]]
    finally:
        wavelet_matrix_free(&tree)
    return 0


cdef Column* interpolate_quantiles(
    FrameMembers* members, const CallCollection* call, const Column* value, const DataType* type,
) except NULL nogil:
    """A quantile of each frame's numbers, interpolated between two neighbours."""
    cdef const double* numbers = <const double*> value.values
    cdef const uint32_t* order = <const uint32_t*> members.order.data
    cdef const uint32_t* found = NULL
    cdef WaveletMatrix tree
    cdef Stretches here
    cdef Buffer* values
    cdef uint8_t* validity
    cdef uint32_t low, high
    cdef int64_t f, count, at, above
    cdef bint done = False
    cdef Column* out = column_new_flat(type, members.frames.n_frames, True, members.account, &values, &validity)
    memset(&tree, 0, sizeof(WaveletMatrix))
    try:
        if members.previous == NULL:
            wavelet_matrix_init(&tree, <const uint32_t*> members.ranks.data, members.n, members.account)
        for f in range(members.frames.n_frames):
            (<double*> values.data)[f] = 0
            if members.previous != NULL:
                found = frame_members_gather(members, f, &count)
            else:
                frame_members_count(members, 2 * tree.n_levels)
                count = frame_members_get(members, f, &here)
            if count == 0:
                bit_clear(validity, f)
                continue
            at = position_in(call, count)
            above = min(at + 1, count - 1)
            if members.previous != NULL:
                low, high = found[at], found[above]
            else:
                low = order[wavelet_matrix_pick(&tree, &here, at)]
                high = order[wavelet_matrix_pick(&tree, &here, above)]
            qc_check((low < members.n) & (high < members.n), b"a member's number is below the number of members")
            (<double*> values.data)[f] = point_between(
                numbers[members.rows[low]], numbers[members.rows[high]], call.fraction * (count - 1) - at
            )
        done = True
    finally:
        wavelet_matrix_free(&tree)
        if not done:
            column_unref(out)
    return out


# --- the most frequent value ---

ctypedef struct Counts:
    uint32_t* numbers           # the number of each member's value
    uint32_t* counts            # how often each value occurs in the frame
    uint32_t* firsts            # the first position of each value in the frame
    uint32_t best               # the most frequent value; of several the first one
    uint32_t best_count


cdef inline void count_member(Counts* self, uint32_t member, uint32_t position) noexcept nogil:
    cdef uint32_t value = self.numbers[member]
    cdef uint32_t count = self.counts[value] + 1
    self.counts[value] = count
    if count == 1:
        self.firsts[value] = position
    if count > self.best_count or (count == self.best_count and self.firsts[value] < self.firsts[self.best]):
        self.best = value
        self.best_count = count


cdef int find_modes(FrameMembers* members, Column* value, uint32_t* result_rows) except -1 nogil:
    cdef Counts self
    cdef Buffer* numbers = NULL
    cdef Buffer* scratch = NULL
    cdef uint32_t n_values = 0
    try:
        numbers = value_numbers(value, members.rows, members.n, &n_values, members.account)
        scratch = buffer_new_zeroed(members.account, (2 * <int64_t> n_values + 1) * sizeof(uint32_t))
        self.numbers = <uint32_t*> numbers.data
        qc_check_rows(self.numbers, members.n, n_values, b"a value's number is below the number of values")
        self.counts = <uint32_t*> scratch.data
        self.firsts = self.counts + n_values
        self.best = self.best_count = 0
        if members.order == NULL and members.previous == NULL:
            count_stretches(members, &self, result_rows)
        else:
            count_members(members, &self, result_rows)
    finally:
        buffer_unref(numbers)
        buffer_unref(scratch)
    return 0


cdef int count_stretches(FrameMembers* members, Counts* self, uint32_t* result_rows) except -1 nogil:
    cdef Stretches here
    cdef uint32_t begin = 0         # the members begin..end are counted, if is_whole
    cdef uint32_t end = 0
    cdef bint is_whole = True
    cdef int64_t f, at
    cdef int32_t s
    for f in range(members.frames.n_frames):
        frame_members_get(members, f, &here)
        if not is_whole or here.n != 1 or here.begin[0] != begin or here.end[0] < end:
            frame_members_count(members, <int64_t> end - begin)
            for at in range(begin, end):
                if at % CHECK_ROWS == CHECK_ROWS - 1:
                    account_check(members.account)
                self.counts[self.numbers[at]] = 0
            self.best_count = 0
            begin = end = here.begin[0] if here.n > 0 else 0
        for s in range(here.n):
            frame_members_count(members, <int64_t> here.end[s] - here.begin[s])
            for at in range(max(end, here.begin[s]), here.end[s]):
                if at % CHECK_ROWS == CHECK_ROWS - 1:
                    account_check(members.account)
                count_member(self, <uint32_t> at, <uint32_t> at)
            end = here.end[s]
        is_whole = here.n <= 1
        result_rows[f] = members.rows[self.firsts[self.best]] if self.best_count > 0 else <uint32_t> NO_ROW
    return 0


cdef int count_members(FrameMembers* members, Counts* self, uint32_t* result_rows) except -1 nogil:
    cdef const uint32_t* found
    cdef int64_t f, i, count
    for f in range(members.frames.n_frames):
        found = frame_members_gather(members, f, &count)
        self.best_count = 0
        for i in range(count):
            if i % CHECK_ROWS == CHECK_ROWS - 1:
                account_check(members.account)
            count_member(self, found[i], <uint32_t> i)
        result_rows[f] = members.rows[found[self.firsts[self.best]]] if self.best_count > 0 else <uint32_t> NO_ROW
        for i in range(count):
            if i % CHECK_ROWS == CHECK_ROWS - 1:
                account_check(members.account)
            self.counts[self.numbers[found[i]]] = 0
    return 0


# --- text ---

cdef void set_view(StringView* out, char* bytes_start, int64_t size) noexcept nogil:
    """Make a view of bytes, without copying more than an inline string."""
    memset(out, 0, sizeof(StringView))
    out.length = <uint32_t> size
    if size <= VIEW_INLINE_BYTES:
        memcpy(<char*> out + 4, bytes_start, size)
        return
    memcpy(out.prefix, bytes_start, 4)
    out.pointer = bytes_start


cdef char* join_all_text(
    FrameMembers* members, const CallCollection* call, const StringView* views, int64_t* begins, Arena* arena,
) except NULL nogil:
    """The strings of all members, each followed by the separator. begins[m] is the offset of member m's string."""
    cdef const StringView* view
    cdef char* text
    cdef int64_t m
    begins[0] = 0
    for m in range(members.n):
        if m % CHECK_ROWS == CHECK_ROWS - 1:
            account_check(members.account)
        begins[m + 1] = begins[m] + views[members.rows[m]].length + call.separator_bytes
    qc_check_large_offsets(begins, members.n, b"the offsets of the members' strings ascend")
    text = <char*> arena_take(arena, begins[members.n] + 1)
    for m in range(members.n):
        if m % CHECK_ROWS == CHECK_ROWS - 1:
            account_check(members.account)
        view = &views[members.rows[m]]
        memcpy(text + begins[m], view_data(view), view.length)
        if call.separator_bytes > 0:
            memcpy(text + begins[m] + view.length, call.separator, call.separator_bytes)
    return text


cdef Column* text_of_stretches(
    FrameMembers* members, const CallCollection* call, const Column* value, const DataType* type,
) except NULL nogil:
    """Text without an order. All strings are joined once, and the text of a stretch is a part of the result."""
    cdef Buffer* values
    cdef uint8_t* validity
    cdef Arena* arena = arena_new(members.account)
    cdef Buffer* scratch = NULL
    cdef int64_t* begins
    cdef StringView* view
    cdef char* text
    cdef char* bytes_start
    cdef Stretches here
    cdef int64_t f, size, part
    cdef int32_t s
    cdef Column* out = NULL
    cdef bint done = False
    try:
        out = column_new_flat(type, members.frames.n_frames, True, members.account, &values, &validity)
        scratch = buffer_new(members.account, (members.n + 1) * sizeof(int64_t))
        begins = <int64_t*> scratch.data
        text = join_all_text(members, call, <const StringView*> value.values, begins, arena)
        for f in range(members.frames.n_frames):
            view = <StringView*> values.data + f
            memset(view, 0, sizeof(StringView))
            frame_members_count(members, 0)
            if frame_members_get(members, f, &here) == 0:
                bit_clear(validity, f)
                continue
            size = -call.separator_bytes
            for s in range(here.n):
                size += begins[here.end[s]] - begins[here.begin[s]]
            if size > TEXT_BYTES_MAX:
                raise_text_too_long()
            bytes_start = text + begins[here.begin[0]]
            if here.n > 1:
                frame_members_count(members, size)
                # The copy includes the last separator.
                bytes_start = <char*> arena_take(arena, size + call.separator_bytes)
                size = 0
                for s in range(here.n):
                    part = begins[here.end[s]] - begins[here.begin[s]]
                    memcpy(bytes_start + size, text + begins[here.begin[s]], part)
                    size += part
                size -= call.separator_bytes
            set_view(view, bytes_start, size)
        out.heap_owner = owner_ref(<Owner*> arena)
        done = True
    finally:
        owner_unref(<Owner*> arena)
        buffer_unref(scratch)
        if not done:
            column_unref(out)
    return out


cdef Column* text_of_members(
    FrameMembers* members, const CallCollection* call, const Column* value, const DataType* type,
) except NULL nogil:
    cdef const StringView* views = <const StringView*> value.values
    cdef Buffer* values
    cdef uint8_t* validity
    cdef Arena* arena = arena_new(members.account)
    cdef uint32_t* found
    cdef int64_t f, i, count
    cdef Column* out = NULL
    cdef bint done = False
    try:
        out = column_new_flat(type, members.frames.n_frames, True, members.account, &values, &validity)
        for f in range(members.frames.n_frames):
            memset(<StringView*> values.data + f, 0, sizeof(StringView))
            found = frame_members_gather(members, f, &count)
            if count == 0:
                bit_clear(validity, f)
                continue
            for i in range(count):
                if i % CHECK_ROWS == CHECK_ROWS - 1:
                    account_check(members.account)
                found[i] = members.rows[found[i]]
            text_of_rows(views, found, count, call, arena, <StringView*> values.data + f, members.account)
        out.heap_owner = owner_ref(<Owner*> arena)
        done = True
    finally:
        owner_unref(<Owner*> arena)
        if not done:
            column_unref(out)
    return out


# --- lists ---

cdef Column* build_lists(FrameMembers* members, Column* value, CSchema* schema, int32_t field) except NULL nogil:
    cdef int64_t n_frames = members.frames.n_frames
    cdef Buffer* ends = NULL
    cdef Buffer* rows = NULL        # the rows of all lists
    cdef int64_t capacity = max(members.n, <int64_t> 1)
    cdef int64_t n_rows = 0
    cdef const uint32_t* found
    cdef int32_t* end
    cdef int64_t f, i, count
    try:
        ends = buffer_new(members.account, (n_frames + 1) * sizeof(int32_t))
        rows = buffer_new(members.account, capacity * sizeof(uint32_t))
        end = <int32_t*> ends.data
        end[0] = 0
        for f in range(n_frames):
            found = frame_members_gather(members, f, &count)
            if n_rows + count > 0x7FFFFFFF:
                raise_execution(
                    b"the lists of array_agg over frames have more than 2**31 - 1 values; use smaller frames"
                )
            while n_rows + count > capacity:
                buffer_grow(&rows, n_rows * sizeof(uint32_t), 2 * capacity * sizeof(uint32_t))
                capacity *= 2
            for i in range(count):
                if i % CHECK_ROWS == CHECK_ROWS - 1:
                    account_check(members.account)
                (<uint32_t*> rows.data)[n_rows + i] = members.rows[found[i]]
            n_rows += count
            end[f + 1] = <int32_t> n_rows
        return list_of_rows(value, rows, n_rows, end, n_frames, schema, field, members.account)
    finally:
        buffer_unref(ends)
        buffer_unref(rows)
