"""Aggregates over frames: the state of each frame, computed from stretches of rows.

Sixteen rows make a node, and sixteen nodes make a node of the next level. At each level a stretch reads the rows or
nodes at its two ends that do not fill a node of the next level. It therefore costs at most about thirty merges a level,
for any length and any overlap of stretches.

Rows are added by state_update and nodes by state_merge, so each aggregate with partial states can have frames. Nodes
of distinct values cannot be shared. For them each stretch reads all its rows.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from qcore_ext.aggregate.calls cimport CallInput, CallState
from qcore_ext.aggregate.state cimport (
    STATE_COLUMNS_MAX, AggregateState, state_column, state_extend, state_free, state_init, state_merge,
    state_n_columns, state_update, state_widen,
)
from qcore_ext.data.column cimport (
    VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, Vector, VectorScratch, column_ref, column_unref,
)
from qcore_ext.data.load cimport column_load_narrow
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_unref
from qcore_ext.window.frame_members cimport FrameMembers, frame_members_free, frame_members_init
from qcore_ext.window.frame_rows cimport FrameRows, frame_rows_get
from qcore_ext.window.previous_positions cimport occurs_before
from qcore_ext.window.frames cimport EXCLUDE_NO_OTHERS, Stretches

cdef enum:
    NODE_SHIFT = 4


ctypedef struct FrameScratch:
    VectorScratch vectors[STATE_COLUMNS_MAX]
    char widened[STATE_COLUMNS_MAX][16384]      # VECTOR_ROWS numbers of eight bytes
    uint32_t groups[2048]
    uint32_t rows[2048]
    uint8_t both[256]           # mask of the rows where neither of two arguments is null
    uint8_t all_rows[256]       # mask with all bits set: without a mask a state assumes that each group has a row


ctypedef struct Feed:
    # The input of one level's states, and the pairs (group, row) that are not added yet.
    Column* columns[STATE_COLUMNS_MAX]          # owned; columns of rows, or the state columns of a level
    int32_t n_columns
    bint merging                # the columns are state columns
    const uint32_t* perm        # the row at each position; NULL if the position is the row
    FrameScratch* scratch
    int64_t n


cdef int feed_flush(Feed* feed, AggregateState* target, int64_t n_groups) except -1 nogil:
    cdef FrameScratch* scratch = feed.scratch
    cdef Vector[STATE_COLUMNS_MAX] loaded
    cdef Vector[STATE_COLUMNS_MAX] wide
    cdef const uint8_t* mask = scratch.all_rows
    cdef int32_t c
    cdef int64_t i
    if feed.n == 0:
        return 0
    if feed.n_columns > 0:
        qc_check_rows(scratch.rows, feed.n, feed.columns[0].n_rows, b"a row of a stretch is a row of the columns")
    account_check(target.account)
    for c in range(feed.n_columns):
        column_load_narrow(feed.columns[c], 0, scratch.rows, feed.n, &scratch.vectors[c], &loaded[c])
        state_widen(&loaded[c], feed.n, scratch.widened[c], &wide[c])
        if c == 0 and loaded[0].validity != NULL:
            mask = loaded[0].validity
        elif c > 0 and not feed.merging and loaded[c].validity != NULL:
            for i in range(VECTOR_BITMAP_BYTES):
                scratch.both[i] = mask[i] & loaded[c].validity[i]
            mask = scratch.both
    if feed.merging:
        state_merge(target, n_groups, scratch.groups, feed.n, wide, mask)
    else:
        state_update(target, n_groups, scratch.groups, feed.n, wide if feed.n_columns > 0 else NULL, mask, mask == NULL)
    feed.n = 0
    return 0


cdef inline int feed_stretch(
    Feed* feed, AggregateState* target, int64_t n_groups, uint32_t group, int64_t start, int64_t end,
) except -1 nogil:
    cdef int64_t at
    for at in range(start, end):
        if feed.n == VECTOR_ROWS:
            feed_flush(feed, target, n_groups)
        qc_check(feed.n < VECTOR_ROWS, b"there is space for a pair after a flush")
        feed.scratch.groups[feed.n] = group
        feed.scratch.rows[feed.n] = feed.perm[at] if feed.perm != NULL else <uint32_t> at
        feed.n += 1
    return 0


cdef int feed_level(
    Feed* feed, AggregateState* out, uint32_t* lo, uint32_t* hi, const uint32_t* frame_of, int64_t n_stretches,
    int64_t n_frames, bint* more,
) except -1 nogil:
    """Add the rows or nodes of this level to each stretch. Then lo and hi are numbers of the next level's nodes. `more`
    says whether the next level is needed.
    """
    cdef uint32_t step = 1 << NODE_SHIFT
    cdef uint32_t a, b, first, last, group
    cdef int64_t f
    more[0] = False
    for f in range(n_stretches):
        if f % CHECK_ROWS == 0:
            account_check(out.account)
        a = lo[f]
        b = hi[f]
        if a >= b:
            continue
        group = frame_of[f] if frame_of != NULL else <uint32_t> f
        qc_check(group < n_frames, b"a stretch belongs to one of the frames")
        first = (a + step - 1) >> NODE_SHIFT
        last = b >> NODE_SHIFT
        if first >= last:
            feed_stretch(feed, out, n_frames, group, a, b)
            first = last = 0
        else:
            feed_stretch(feed, out, n_frames, group, a, <int64_t> first << NODE_SHIFT)
            feed_stretch(feed, out, n_frames, group, <int64_t> last << NODE_SHIFT, b)
            more[0] = True
        lo[f] = first
        hi[f] = last
    return feed_flush(feed, out, n_frames)


cdef int feed_distinct(
    Feed* feed, AggregateState* out, const uint32_t* previous, const uint32_t* lo, const uint32_t* hi,
    const uint32_t* frame_of, int64_t n_stretches, int64_t n_frames,
) except -1 nogil:
    """Add each row to its group unless its value occurs before it in the group."""
    cdef int64_t s, at
    cdef int64_t first = 0          # the first stretch of the same group
    cdef int64_t n_read = 0         # the query is checked for this number of rows, because repeated rows make no flush
    for s in range(n_stretches):
        if frame_of == NULL or frame_of[s] != frame_of[first]:
            first = s
        for at in range(lo[s], hi[s]):
            n_read += 1
            if n_read % CHECK_ROWS == 0:
                account_check(out.account)
            if not occurs_before(previous, lo, hi, first, s, at):
                feed_stretch(feed, out, n_frames, frame_of[s] if frame_of != NULL else <uint32_t> s, at, at + 1)
    return feed_flush(feed, out, n_frames)


cdef int feed_climb(Feed* feed, AggregateState* level, int64_t n, MemoryAccount* account) except -1 nogil:
    """Make the states of the next level from the n rows or nodes of this level, and use them as the new input."""
    cdef int64_t n_nodes = (n + (1 << NODE_SHIFT) - 1) >> NODE_SHIFT
    cdef int64_t node
    cdef int32_t c
    for node in range(n_nodes):
        feed_stretch(
            feed, level, n_nodes, <uint32_t> node, node << NODE_SHIFT, min(n, (node + 1) << NODE_SHIFT)
        )
    feed_flush(feed, level, n_nodes)
    state_extend(level, n_nodes)
    feed_release(feed)
    for c in range(state_n_columns(level.kind)):
        feed.columns[c] = state_column(level, c, 0, n_nodes, account)
        feed.n_columns += 1
    feed.merging = True
    feed.perm = NULL
    return 0


cdef void feed_release(Feed* feed) noexcept nogil:
    cdef int32_t c
    for c in range(feed.n_columns):
        column_unref(feed.columns[c])
    feed.n_columns = 0


cdef int frame_state(
    AggregateState* out, int kind, const DataType* type, Column** columns, int32_t n_columns, const uint32_t* perm,
    int64_t n, const uint32_t* previous, uint32_t* lo, uint32_t* hi, const uint32_t* frame_of, int64_t n_stretches,
    int64_t n_frames, MemoryAccount* account,
) except -1 nogil:
    cdef int32_t c
    cdef AggregateState level
    cdef Feed feed
    cdef Buffer* scratch = NULL
    cdef bint more = True
    memset(&feed, 0, sizeof(Feed))
    memset(&level, 0, sizeof(AggregateState))
    state_init(out, account, kind, type)
    try:
        scratch = buffer_new(account, sizeof(FrameScratch))
        feed.scratch = <FrameScratch*> scratch.data
        memset(feed.scratch.all_rows, 0xFF, sizeof(feed.scratch.all_rows))
        feed.perm = perm
        for c in range(n_columns):
            feed.columns[c] = column_ref(columns[c])
            feed.n_columns += 1
        if previous != NULL:
            feed_distinct(&feed, out, previous, lo, hi, frame_of, n_stretches, n_frames)
        while previous == NULL:
            feed_level(&feed, out, lo, hi, frame_of, n_stretches, n_frames, &more)
            if not more:
                break
            state_init(&level, account, kind, type)
            feed_climb(&feed, &level, n, account)
            state_free(&level)
            memset(&level, 0, sizeof(AggregateState))
            n = (n + (1 << NODE_SHIFT) - 1) >> NODE_SHIFT
        state_extend(out, n_frames)
    finally:
        state_free(&level)
        feed_release(&feed)
        buffer_unref(scratch)
    return 0


cdef int64_t fill_stretches(
    const FrameRows* frames, const uint32_t* before, uint32_t* lo, uint32_t* hi, uint32_t* frame_of,
    const MemoryAccount* account,
) except -1 nogil:
    """Write the stretches of all frames. They have positions, or numbers of members if `before` is not NULL. Returns
    their number.
    """
    cdef const uint32_t* firsts = <const uint32_t*> frames.firsts.data
    cdef Stretches here
    cdef int64_t n = 0
    cdef int64_t f
    cdef int32_t s
    if frames.exclusion == EXCLUDE_NO_OTHERS:
        for f in range(frames.n_frames):
            if f % CHECK_ROWS == 0:
                account_check(account)
            lo[f] = frames.lo[firsts[f]]
            hi[f] = frames.hi[firsts[f]]
        n = frames.n_frames
    else:
        for f in range(frames.n_frames):
            if f % CHECK_ROWS == 0:
                account_check(account)
            frame_rows_get(frames, f, &here)
            for s in range(here.n):
                lo[n] = here.begin[s]
                hi[n] = here.end[s]
                frame_of[n] = <uint32_t> f
                n += 1
    if before != NULL:
        for f in range(n):
            if f % CHECK_ROWS == 0:
                account_check(account)
            lo[f] = before[lo[f]]
            hi[f] = before[hi[f]]
    return n


cdef int aggregate_over_frames(
    const FrameRows* frames, Column** columns, const CallInput* input, const CallState* states, int32_t n_states,
    AggregateState* out, MemoryAccount* account,
) except -1 nogil:
    cdef bint has_one = frames.exclusion == EXCLUDE_NO_OTHERS
    cdef int64_t capacity = frames.n_frames * (1 if has_one else 3)
    cdef FrameMembers members
    cdef DataType none
    cdef Column* read[2]
    cdef const uint32_t* perm = frames.rows.perm
    cdef const uint32_t* previous = NULL
    cdef int64_t n = frames.rows.n
    cdef int64_t n_stretches
    cdef uint32_t* bounds
    cdef Buffer* stretches = NULL
    cdef int32_t s
    memset(&none, 0, sizeof(DataType))
    memset(&members, 0, sizeof(FrameMembers))
    for s in range(input.n_arguments):
        read[s] = columns[input.arguments[s]]
    try:
        if input.distinct or input.filter >= 0:
            frame_members_init(&members, frames, columns, NULL, input, account)
            perm = members.rows
            n = members.n
            if members.previous != NULL:
                previous = <const uint32_t*> members.previous.data
        stretches = buffer_new(account, 3 * capacity * sizeof(uint32_t))
        bounds = <uint32_t*> stretches.data
        for s in range(n_states):
            n_stretches = fill_stretches(
                frames, members.before, bounds, bounds + capacity, bounds + 2 * capacity, account
            )
            qc_check(n_stretches <= capacity, b"a frame has at most three stretches")
            frame_state(
                &out[s], states[s].kind, &read[0].type if input.n_arguments > 0 else &none, read, input.n_arguments,
                perm, n, previous, bounds, bounds + capacity, NULL if has_one else bounds + 2 * capacity, n_stretches,
                frames.n_frames, account,
            )
    finally:
        buffer_unref(stretches)
        frame_members_free(&members)
    return 0
