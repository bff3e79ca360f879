"""The frames of one window call. Consecutive rows with equal frames share one frame."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport CHECK_ROWS, MemoryAccount, account_check, buffer_new, buffer_unref
from qcore_ext.window.frames cimport EXCLUDE_GROUP, EXCLUDE_NO_OTHERS, Frame, frames_find
from qcore_ext.window.partition_rows cimport PartitionRows


cdef int frame_rows_init(
    FrameRows* self, const PartitionRows* rows, const Frame* frame, const Vector* key, const DataType* type,
    bint descending, MemoryAccount* account,
) except -1 nogil:
    self.rows = rows
    self.exclusion = frame.exclusion
    self.from_first = frame.from_first and frame.exclusion == EXCLUDE_NO_OTHERS and not frame.end.of_rows.of_column
    self.bounds = buffer_new(account, 2 * rows.n * sizeof(uint32_t))
    self.lo = <uint32_t*> self.bounds.data
    self.hi = self.lo + rows.n
    frames_find(rows, frame, key, type, descending, self.lo, self.hi, account)
    return 0


cdef void frame_rows_free(FrameRows* self) noexcept nogil:
    buffer_unref(self.bounds)
    buffer_unref(self.firsts)
    self.bounds = NULL
    self.firsts = NULL


cdef int frame_rows_share(FrameRows* self, uint32_t* frame_of, MemoryAccount* account) except -1 nogil:
    cdef const uint32_t* lo = self.lo
    cdef const uint32_t* hi = self.hi
    cdef const uint32_t* group = self.rows.group
    cdef bint by_group = self.exclusion == EXCLUDE_GROUP
    cdef int64_t n = self.rows.n
    cdef int64_t last = 0
    cdef int64_t i
    cdef uint32_t* first
    self.firsts = buffer_new(account, n * sizeof(uint32_t))
    first = <uint32_t*> self.firsts.data
    first[0] = 0
    frame_of[0] = 0
    if self.exclusion != EXCLUDE_NO_OTHERS and not by_group:
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            first[i] = frame_of[i] = <uint32_t> i
        self.n_frames = n
        return 0
    for i in range(1, n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        if lo[i] != lo[i - 1] or hi[i] != hi[i - 1] or (by_group and group[i] != group[i - 1]):
            last += 1
            first[last] = <uint32_t> i
        frame_of[i] = <uint32_t> last
    self.n_frames = last + 1
    return 0
