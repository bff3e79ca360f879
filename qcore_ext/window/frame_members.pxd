"""The rows that aggregates over frames count: after the filter, in the call's order, each value once if distinct."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.calls cimport CallCollection, CallInput
from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows
from qcore_ext.window.frames cimport Stretches


ctypedef struct FrameMembers:
    # Zero-initialised, then frame_members_init. Members are numbered in the window's order.
    const FrameRows* frames     # borrowed
    MemoryAccount* account      # borrowed
    int64_t n
    Buffer* buffer              # owned; holds the two arrays
    uint32_t* rows              # of each member, where its row lies
    uint32_t* before            # by position, and one more: how many members stand before it
    Buffer* previous            # owned; previous_positions of members; NULL: repeats count, or there are none
    Buffer* order               # owned; members in the order of the call's keys; NULL: it has none
    Buffer* ranks               # owned; the position of each member in it
    Buffer* found               # owned; what frame_members_gather gives
    Buffer* marks               # owned; a bit a member, all clear between two frames; NULL until many are sorted
    int64_t n_read              # rows since the query was last asked whether it goes on

# `input` says what the members are, `call` (or NULL) their order: arguments and filter are positions among `columns`.
cdef int frame_members_init(
    FrameMembers* self, const FrameRows* frames, Column** columns, const CallCollection* call, const CallInput* input,
    MemoryAccount* account,
) except -1 nogil
cdef void frame_members_free(FrameMembers* self) noexcept nogil
# The numbers of the members of a frame, in the call's order; how many there are is n_found.
cdef uint32_t* frame_members_gather(FrameMembers* self, int64_t frame, int64_t* n_found) except NULL nogil
# The members of a frame as stretches of their numbers, repeats included; how many there are.
cdef int64_t frame_members_get(const FrameMembers* self, int64_t frame, Stretches* out) noexcept nogil
# Count rows that were read. Raises Cancelled if the query is stopped.
cdef int frame_members_count(FrameMembers* self, int64_t n_rows) except -1 nogil
