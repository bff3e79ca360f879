"""One aggregate's state for many stretches of rows. Floor E3.

Sixteen rows make a node, sixteen nodes one of the next level. A stretch takes at each level what does not fill a node
of the next, so it costs at most some thirty merges a level, however long it is and however stretches overlap. Rows meet
states by state_update and nodes by state_merge: every aggregate that has partial states has frames. Distinct values
have no nodes that could be shared: there each stretch reads its rows.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from qcore_ext.compute.aggregate_state cimport (
    STATE_COLUMNS_MAX, AggregateState, state_column, state_extend, state_free, state_init, state_merge, state_n_columns,
    state_update,
    state_widen,
)
from qcore_ext.data.column cimport (
    VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, Vector, VectorScratch, column_load_narrow, column_ref, column_unref,
)
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_unref

cdef enum:
    NODE_SHIFT = 4


ctypedef struct Room:
    VectorScratch scratch[STATE_COLUMNS_MAX]
    char widened[STATE_COLUMNS_MAX][16384]      # VECTOR_ROWS numbers of eight bytes
    uint32_t groups[2048]
    uint32_t rows[2048]
    uint8_t both[256]           # a mask: rows where neither of two arguments is null
    uint8_t all_rows[256]       # a mask; without one, a state takes every group for fed, and frames may be empty


ctypedef struct Feed:
    # What the states of one level are read from, and the pairs (group, row) still to be fed.
    Column* columns[STATE_COLUMNS_MAX]          # owned; of rows, or of a level's states
    int32_t n_columns
    bint merging
    const uint32_t* perm        # NULL: a row's number is its position
    Room* room
    int64_t n


cdef int feed_flush(Feed* feed, AggregateState* target, int64_t n_groups) except -1 nogil:
    cdef Room* room = feed.room
    cdef Vector[STATE_COLUMNS_MAX] loaded
    cdef Vector[STATE_COLUMNS_MAX] wide
    cdef const uint8_t* mask = room.all_rows
    cdef int32_t c
    cdef int64_t i
    if feed.n == 0:
        return 0
    account_check(target.account)
    for c in range(feed.n_columns):
        column_load_narrow(feed.columns[c], 0, room.rows, feed.n, &room.scratch[c], &loaded[c])
        state_widen(&loaded[c], feed.n, room.widened[c], &wide[c])
        if c == 0 and loaded[0].validity != NULL:
            mask = loaded[0].validity
        elif c > 0 and not feed.merging and loaded[c].validity != NULL:
            for i in range(VECTOR_BITMAP_BYTES):
                room.both[i] = mask[i] & loaded[c].validity[i]
            mask = room.both
    if feed.merging:
        state_merge(target, n_groups, room.groups, feed.n, wide, mask)
    else:
        state_update(target, n_groups, room.groups, feed.n, wide if feed.n_columns > 0 else NULL, mask)
    feed.n = 0
    return 0


cdef inline int feed_stretch(
    Feed* feed, AggregateState* target, int64_t n_groups, uint32_t group, int64_t start, int64_t end,
) except -1 nogil:
    cdef int64_t at
    for at in range(start, end):
        if feed.n == VECTOR_ROWS:
            feed_flush(feed, target, n_groups)
        feed.room.groups[feed.n] = group
        feed.room.rows[feed.n] = feed.perm[at] if feed.perm != NULL else <uint32_t> at
        feed.n += 1
    return 0


cdef int feed_level(
    Feed* feed, AggregateState* out, uint32_t* lo, uint32_t* hi, int64_t n_frames, bint* more,
) except -1 nogil:
    """Give each stretch what it takes of this level, and leave lo and hi as nodes of the next."""
    cdef uint32_t step = 1 << NODE_SHIFT
    cdef uint32_t a, b, first, last
    cdef int64_t f
    more[0] = False
    for f in range(n_frames):
        if f % CHECK_ROWS == 0:
            account_check(out.account)
        a = lo[f]
        b = hi[f]
        if a >= b:
            continue
        first = (a + step - 1) >> NODE_SHIFT
        last = b >> NODE_SHIFT
        if first >= last:
            feed_stretch(feed, out, n_frames, <uint32_t> f, a, b)
            first = last = 0
        else:
            feed_stretch(feed, out, n_frames, <uint32_t> f, a, <int64_t> first << NODE_SHIFT)
            feed_stretch(feed, out, n_frames, <uint32_t> f, <int64_t> last << NODE_SHIFT, b)
            more[0] = True
        lo[f] = first
        hi[f] = last
    return feed_flush(feed, out, n_frames)


cdef int feed_distinct(
    Feed* feed, AggregateState* out, const uint32_t* previous, const uint32_t* lo, const uint32_t* hi, int64_t n_frames,
) except -1 nogil:
    """Give each stretch the rows whose value does not stand before them within it."""
    cdef int64_t f, at
    cdef int64_t n_read = 0
    for f in range(n_frames):
        for at in range(lo[f], hi[f]):
            # Of rows that are fed, each flush looks; of repeated values there may be any number.
            n_read += 1
            if n_read % CHECK_ROWS == 0:
                account_check(out.account)
            if previous[at] <= lo[f]:
                feed_stretch(feed, out, n_frames, <uint32_t> f, at, at + 1)
    return feed_flush(feed, out, n_frames)


cdef int feed_climb(Feed* feed, AggregateState* level, int64_t n, MemoryAccount* account) except -1 nogil:
    """Make the next level's states of the n rows or nodes of this one, and read from them from now on."""
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
    int64_t n, const uint32_t* previous, uint32_t* lo, uint32_t* hi, int64_t n_frames, MemoryAccount* account,
) except -1 nogil:
    cdef int32_t c
    cdef AggregateState level
    cdef Feed feed
    cdef Buffer* room = NULL
    cdef bint more = True
    memset(&feed, 0, sizeof(Feed))
    memset(&level, 0, sizeof(AggregateState))
    state_init(out, account, kind, type)
    try:
        room = buffer_new(account, sizeof(Room))
        feed.room = <Room*> room.data
        memset(feed.room.all_rows, 0xFF, sizeof(feed.room.all_rows))
        feed.perm = perm
        for c in range(n_columns):
            feed.columns[c] = column_ref(columns[c])
            feed.n_columns += 1
        if previous != NULL:
            feed_distinct(&feed, out, previous, lo, hi, n_frames)
        while previous == NULL:
            feed_level(&feed, out, lo, hi, n_frames, &more)
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
        buffer_unref(room)
    return 0
