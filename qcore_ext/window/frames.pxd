"""Window frames: the rows around a row that a call reads."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.partition_rows cimport PartitionRows

cpdef enum FrameMode:
    FRAME_ROWS = 0
    FRAME_RANGE = 1
    FRAME_GROUPS = 2

cpdef enum FrameExclusion:
    EXCLUDE_NO_OTHERS = 0
    EXCLUDE_CURRENT_ROW = 1
    EXCLUDE_GROUP = 2           # the current row and its peers
    EXCLUDE_TIES = 3            # its peers


ctypedef struct FrameBound:
    int64_t whole               # rows, groups or distance in the order; negative: before the current row
    double real                 # distance among floats
    bint by_calendar            # distance among dates, times and timestamps:
    int32_t months
    int32_t days
    int64_t nanos


ctypedef struct Frame:
    uint8_t mode                # FrameMode
    uint8_t exclusion           # FrameExclusion
    bint from_first             # from the partition's first row on, else from `start`
    bint to_last
    FrameBound start
    FrameBound end


ctypedef struct Stretches:
    # What a frame is without the rows it excludes: positions begin[s]..end[s], ascending, apart, none empty.
    int32_t n
    uint32_t begin[3]
    uint32_t end[3]

# lo[i]..hi[i] are the positions in the frame of the row at i; equal when there is none. `key` is the column a RANGE
# with a distance goes by, all its rows, and `type` its type; else NULL.
cdef int frames_find(
    const PartitionRows* rows, const Frame* frame, const Vector* key, const DataType* type, bint descending,
    uint32_t* lo,
    uint32_t* hi, MemoryAccount* account,
) except -1 nogil


cdef inline void stretches_add(Stretches* self, uint32_t begin, uint32_t end) noexcept nogil:
    if begin >= end:
        return
    if self.n > 0 and self.end[self.n - 1] == begin:
        self.end[self.n - 1] = end
        return
    self.begin[self.n] = begin
    self.end[self.n] = end
    self.n += 1


cdef inline void frame_stretches(
    const PartitionRows* rows, uint8_t exclusion, int64_t row, uint32_t lo, uint32_t hi, Stretches* out,
) noexcept nogil:
    """The frame lo..hi of the row at a position."""
    cdef uint32_t at = <uint32_t> row
    cdef uint32_t hole_begin = at
    cdef uint32_t hole_end = at + 1
    out.n = 0
    if exclusion == EXCLUDE_NO_OTHERS:
        stretches_add(out, lo, hi)
        return
    if exclusion != EXCLUDE_CURRENT_ROW:
        hole_begin = rows.peer_begin[row]
        hole_end = rows.peer_end[row]
    stretches_add(out, lo, min(hi, hole_begin))
    if exclusion == EXCLUDE_TIES and lo <= at < hi:
        stretches_add(out, at, at + 1)
    stretches_add(out, max(lo, hole_end), hi)
