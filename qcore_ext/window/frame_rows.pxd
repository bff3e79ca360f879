"""The frames of one window call. Neighbours with equal frames share one."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.window.frames cimport Frame, Stretches, frame_stretches
from qcore_ext.window.partition_rows cimport PartitionRows


ctypedef struct FrameRows:
    # Zero-initialised, then frame_rows_init.
    const PartitionRows* rows      # borrowed
    uint8_t exclusion
    bint from_first             # every frame begins with its partition and excludes nothing
    Buffer* bounds              # owned; holds lo and hi
    uint32_t* lo                # by position
    uint32_t* hi
    Buffer* firsts              # owned; the first position with each frame; NULL until frame_rows_share
    int64_t n_frames

# `key`, `type` and `descending` as frames_find has them.
cdef int frame_rows_init(
    FrameRows* self, const PartitionRows* rows, const Frame* frame, const Vector* key, const DataType* type,
    bint descending, MemoryAccount* account,
) except -1 nogil
cdef void frame_rows_free(FrameRows* self) noexcept nogil
# Count the frames that differ from the one before; frame_of[i] is that of the row at i.
cdef int frame_rows_share(FrameRows* self, uint32_t* frame_of, MemoryAccount* account) except -1 nogil


cdef inline void frame_rows_at(const FrameRows* self, int64_t position, Stretches* out) noexcept nogil:
    """The frame of the row at a position."""
    frame_stretches(self.rows, self.exclusion, position, self.lo[position], self.hi[position], out)


cdef inline void frame_rows_get(const FrameRows* self, int64_t frame, Stretches* out) noexcept nogil:
    frame_rows_at(self, (<const uint32_t*> self.firsts.data)[frame], out)
