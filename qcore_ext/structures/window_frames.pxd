"""Window frames: which rows around a row a call looks at. Floor E3."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Vector
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.structures.window_rows cimport WindowRows

cpdef enum FrameMode:
    FRAME_ROWS = 0
    FRAME_RANGE = 1
    FRAME_GROUPS = 2


ctypedef struct Frame:
    uint8_t mode                # FrameMode
    bint from_first             # from the partition's first row on, else from `start`
    bint to_last
    int64_t start               # rows, groups or distance in the order; negative: before the current row
    int64_t end

# lo[i]..hi[i] are the positions in the frame of the row at i; equal when there is none. `key` is the column a RANGE
# with a distance goes by, all its rows; else NULL.
cdef int frames_find(
    const WindowRows* rows, const Frame* frame, const Vector* key, bint descending, uint32_t* lo, uint32_t* hi,
    MemoryAccount* account,
) except -1 nogil
