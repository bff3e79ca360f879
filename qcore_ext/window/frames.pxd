"""Window frames: the rows of a partition that a call reads for a row."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.partition_rows cimport Numbers, PartitionRows

cpdef enum FrameMode:
    FRAME_ROWS = 0
    FRAME_RANGE = 1
    FRAME_GROUPS = 2

cpdef enum FrameExclusion:
    EXCLUDE_NO_OTHERS = 0
    EXCLUDE_CURRENT_ROW = 1
    EXCLUDE_GROUP = 2           # the current row and its peers
    EXCLUDE_TIES = 3            # the peers of the current row


ctypedef struct FrameBound:
    int64_t whole               # number of rows or groups, or a distance of whole numbers; negative: preceding
    double real                 # a distance of floats
    bint by_calendar            # the distance of dates, times and timestamps is months, days and nanos
    int32_t months
    int32_t days
    int64_t nanos
    Numbers of_rows             # of a column: the distance of each row, to which `sign` gives the direction
    int sign


ctypedef struct Frame:
    uint8_t mode                # FrameMode
    uint8_t exclusion           # FrameExclusion
    bint from_first             # the frame begins at the partition's first row, otherwise at `start`
    bint to_last                # the frame ends at the partition's last row, otherwise at `end`
    FrameBound start
    FrameBound end


ctypedef struct Stretches:
    # A frame without the rows that it excludes: the positions begin[s]..end[s]. Stretches ascend, do not touch, and are
    # not empty.
    int32_t n
    uint32_t begin[3]
    uint32_t end[3]

# Compute the frame lo[i]..hi[i] of the row at each position i. They are equal if the frame is empty. For RANGE with a
# distance `key` has all rows of the sort column, and `type` is its type. Otherwise they are NULL.
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
    """The frame lo..hi of the row at a position, as stretches."""
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
