"""The frames of one window call. Consecutive rows with equal frames share one frame."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.window.frames cimport Frame, Stretches, frame_stretches
from qcore_ext.window.partition_rows cimport PartitionRows


ctypedef struct FrameRows:
    # Zeroed, then initialised by frame_rows_init.
    const PartitionRows* rows   # borrowed
    uint8_t exclusion
    bint from_first             # each frame begins at its partition's first row and excludes no row
    Buffer* bounds              # owned; has lo and hi
    uint32_t* lo                # lo[p]..hi[p] is the frame of the row at position p
    uint32_t* hi
    Buffer* firsts              # owned; the first position of each frame; NULL before frame_rows_share
    int64_t n_frames

# `key`, `type` and `descending` are arguments of frames_find.
cdef int frame_rows_init(
    FrameRows* self, const PartitionRows* rows, const Frame* frame, const Vector* key, const DataType* type,
    bint descending, MemoryAccount* account,
) except -1 nogil
cdef void frame_rows_free(FrameRows* self) noexcept nogil
# Number the frames. A row whose frame equals the one of the row before it has the same number. frame_of[i] is the
# number of the frame of the row at position i.
cdef int frame_rows_share(FrameRows* self, uint32_t* frame_of, MemoryAccount* account) except -1 nogil


cdef inline void frame_rows_at(const FrameRows* self, int64_t position, Stretches* out) noexcept nogil:
    """The frame of the row at a position, as stretches."""
    qc_check(0 <= position < self.rows.n, b"a position is one of the window")
    qc_check(self.lo[position] <= self.hi[position] <= self.rows.n, b"a frame is within the window")
    frame_stretches(self.rows, self.exclusion, position, self.lo[position], self.hi[position], out)


cdef inline void frame_rows_get(const FrameRows* self, int64_t frame, Stretches* out) noexcept nogil:
    """The frame with a number, as stretches."""
    qc_check(0 <= frame < self.n_frames, b"a frame's number is below the number of frames")
    frame_rows_at(self, (<const uint32_t*> self.firsts.data)[frame], out)
