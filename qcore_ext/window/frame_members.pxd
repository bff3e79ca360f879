"""The members of frames: the rows that an aggregate over frames reads, after its filter and without nulls.

They can be ordered by the call's keys, and repeated values can be found for distinct calls.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.calls cimport CallCollection, CallInput
from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows
from qcore_ext.window.frames cimport Stretches


ctypedef struct FrameMembers:
    # Zeroed, then initialised by frame_members_init. Members are numbered in the window's order.
    const FrameRows* frames     # borrowed
    MemoryAccount* account      # borrowed
    int64_t n
    Buffer* buffer              # owned; has the arrays rows and before
    uint32_t* rows              # the row of each member
    uint32_t* before            # the number of members before each position; n + 1 numbers
    Buffer* previous            # owned; previous_positions of members; NULL if repeats count or there are none
    Buffer* order               # owned; the members in the order of the call's keys; NULL if it has none
    Buffer* ranks               # owned; the position of each member in `order`
    Buffer* found               # owned; the result of frame_members_gather
    Buffer* marks               # owned; one bit a member, clear between two frames; NULL before the first long sort
    int64_t n_read              # number of rows that were read since the last check for a stopped query

# `input` describes the members, and `call` their order if it is not NULL. Arguments and filter are positions of
# `columns`.
cdef int frame_members_init(
    FrameMembers* self, const FrameRows* frames, Column** columns, const CallCollection* call, const CallInput* input,
    MemoryAccount* account,
) except -1 nogil
cdef void frame_members_free(FrameMembers* self) noexcept nogil
# The numbers of a frame's members, in the call's order. *n_found is their number.
cdef uint32_t* frame_members_gather(FrameMembers* self, int64_t frame, int64_t* n_found) except NULL nogil
# The members of a frame as stretches of their numbers, including repeated values. Returns their number.
cdef int64_t frame_members_get(const FrameMembers* self, int64_t frame, Stretches* out) noexcept nogil
# Count rows that are read. Raises Cancelled if the query is stopped.
cdef int frame_members_count(FrameMembers* self, int64_t n_rows) except -1 nogil
