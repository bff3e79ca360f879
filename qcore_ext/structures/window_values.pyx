"""Which row's value a window function of another row takes: LAG, LEAD, FIRST_VALUE and the like. Floor E3."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.ground.bitmap cimport bit_get
from qcore_ext.ground.memory cimport CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_unref
from qcore_ext.structures.window_rows cimport WindowRows


cdef int value_rows(
    const WindowRows* rows, int kind, int64_t number, const uint32_t* lo, const uint32_t* hi, uint32_t* out,
    const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t i, at, first, end
    for i in range(rows.n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        if kind == LAG or kind == LEAD:
            at = i - number if kind == LAG else i + number
            first = rows.part_begin[i]
            end = rows.part_end[i]
        else:
            first = lo[i]
            end = hi[i]
            if kind == FIRST_VALUE:
                at = first
            elif kind == LAST_VALUE:
                at = end - 1
            else:
                at = first + number - 1 if number > 0 else -1
        out[i] = rows.perm[at] if first <= at < end else <uint32_t> NO_ROW
    return 0


cdef int valid_value_rows(
    const WindowRows* rows, int kind, int64_t number, const uint32_t* lo, const uint32_t* hi, const uint8_t* validity,
    uint32_t* out, MemoryAccount* account,
) except -1 nogil:
    cdef int64_t n = rows.n
    cdef Buffer* buffer = buffer_new(account, (2 * n + 1) * sizeof(uint32_t))
    cdef uint32_t* before = <uint32_t*> buffer.data     # values that are no nulls before a position
    cdef uint32_t* places = before + n + 1              # their positions
    cdef int64_t i, wanted
    before[0] = 0
    try:
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            places[before[i]] = <uint32_t> i
            before[i + 1] = before[i] + bit_get(validity, rows.perm[i])
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            if kind == LAG or kind == LEAD:
                wanted = number if kind == LEAD else -number
                if wanted > 0:
                    wanted += <int64_t> before[i + 1] - 1
                elif wanted < 0:
                    wanted += before[i]
                else:
                    out[i] = rows.perm[i]
                    continue
            elif kind == LAST_VALUE:
                wanted = <int64_t> before[hi[i]] - 1
            else:
                wanted = <int64_t> before[lo[i]] + (number - 1 if kind == NTH_VALUE else 0)
                if kind == NTH_VALUE and number < 1:
                    wanted = -1
            if <int64_t> before[lo[i]] <= wanted < <int64_t> before[hi[i]]:
                out[i] = rows.perm[places[wanted]]
            else:
                out[i] = NO_ROW
    finally:
        buffer_unref(buffer)
    return 0
