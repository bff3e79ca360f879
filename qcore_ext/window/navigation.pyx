"""Navigation functions: the value of another row of the window. lag, lead, first_value, last_value, nth_value."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport NO_ROW
from qcore_ext.ground.bitmap cimport bit_get
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_unref
from qcore_ext.window.frame_rows cimport FrameRows, frame_rows_at
from qcore_ext.window.frames cimport EXCLUDE_NO_OTHERS, Stretches
from qcore_ext.window.partition_rows cimport Numbers, PartitionRows, number_of_row


cdef int find_rows_beside(
    const PartitionRows* window, int kind, const Numbers* numbers, uint32_t* indices, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t number = 0
    cdef int64_t i, at
    for i in range(window.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        if not number_of_row(numbers, window.perm[i], &number):
            indices[i] = NO_ROW
            continue
        at = i - number if kind == LAG else i + number
        if at >= window.part_begin[i] and at < window.part_end[i]:
            indices[i] = window.perm[at]
        else:
            indices[i] = NO_ROW
    return 0


cdef int find_rows_of_frames(
    const FrameRows* frames, int kind, const Numbers* numbers, uint32_t* indices, const MemoryAccount* account,
) except -1 nogil:
    cdef const PartitionRows* window = frames.rows
    cdef const uint32_t* lo = frames.lo
    cdef const uint32_t* hi = frames.hi
    cdef Stretches at_row
    cdef int64_t number = 0
    cdef int64_t i, at
    if frames.exclusion != EXCLUDE_NO_OTHERS:
        for i in range(window.n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            frame_rows_at(frames, i, &at_row)
            at = position_of(&at_row, kind, number) if number_of_row(numbers, window.perm[i], &number) else -1
            indices[i] = window.perm[at] if at >= 0 else <uint32_t> NO_ROW
        return 0
    for i in range(window.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        if not number_of_row(numbers, window.perm[i], &number):
            at = -1
        elif kind == FIRST_VALUE:
            at = lo[i]
        elif kind == LAST_VALUE:
            at = <int64_t> hi[i] - 1
        else:
            at = lo[i] + number - 1 if number > 0 else -1
        qc_check(lo[i] <= hi[i] <= window.n, b"a frame is within the window")
        indices[i] = window.perm[at] if at >= lo[i] and at < hi[i] else <uint32_t> NO_ROW
    return 0


cdef inline int64_t position_of(const Stretches* frame, int kind, int64_t number) noexcept nogil:
    """The position of the first, last or number-th row of the frame; -1 if there is none."""
    cdef int64_t rest = number - 1 if kind == NTH_VALUE else 0
    cdef int32_t s
    if frame.n == 0 or rest < 0:
        return -1
    if kind == LAST_VALUE:
        return <int64_t> frame.end[frame.n - 1] - 1
    for s in range(frame.n):
        if rest < <int64_t> frame.end[s] - frame.begin[s]:
            return frame.begin[s] + rest
        rest -= <int64_t> frame.end[s] - frame.begin[s]
    return -1


cdef int find_rows_with_values(
    const PartitionRows* window, const FrameRows* frames, int kind, const Numbers* numbers, const uint8_t* validity,
    uint32_t* indices, MemoryAccount* account,
) except -1 nogil:
    cdef int64_t n = window.n
    cdef Buffer* buffer = buffer_new(account, (2 * n + 1) * sizeof(uint32_t))
    cdef uint32_t* before = <uint32_t*> buffer.data      # the number of values before each position
    cdef uint32_t* positions = before + n + 1            # the position of each value
    cdef Stretches frame
    cdef int64_t number = 0
    cdef int64_t i, at
    cdef int32_t s
    before[0] = 0
    try:
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            positions[before[i]] = <uint32_t> i
            before[i + 1] = before[i] + bit_get(validity, window.perm[i])
        if kind == LAG or kind == LEAD:
            return find_values_beside(window, kind, numbers, before, positions, indices, account)
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            frame_rows_at(frames, i, &frame)
            # Convert positions to numbers of values.
            for s in range(frame.n):
                frame.begin[s] = before[frame.begin[s]]
                frame.end[s] = before[frame.end[s]]
            while frame.n > 0 and frame.begin[frame.n - 1] == frame.end[frame.n - 1]:
                frame.n -= 1
            at = position_of(&frame, kind, number) if number_of_row(numbers, window.perm[i], &number) else -1
            qc_check(at < <int64_t> before[n], b"a value's number is below the number of values")
            indices[i] = window.perm[positions[at]] if at >= 0 else <uint32_t> NO_ROW
    finally:
        buffer_unref(buffer)
    return 0


cdef int find_values_beside(
    const PartitionRows* window, int kind, const Numbers* numbers, const uint32_t* before, const uint32_t* positions,
    uint32_t* indices, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t number = 0
    cdef int64_t i, wanted
    for i in range(window.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        if not number_of_row(numbers, window.perm[i], &number):
            indices[i] = NO_ROW
            continue
        wanted = number if kind == LEAD else -number
        if wanted > 0:
            wanted += <int64_t> before[i + 1] - 1
        elif wanted < 0:
            wanted += before[i]
        else:
            indices[i] = window.perm[i]
            continue
        if <int64_t> before[window.part_begin[i]] <= wanted < <int64_t> before[window.part_end[i]]:
            indices[i] = window.perm[positions[wanted]]
        else:
            indices[i] = NO_ROW
    return 0
