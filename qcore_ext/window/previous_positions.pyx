"""The previous position of each value in its partition, for distinct aggregates over frames."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, account_check, buffer_new, buffer_new_zeroed, buffer_unref,
)
from qcore_ext.aggregate.value_numbers cimport value_numbers


cdef Buffer* previous_positions(
    Column* column, const uint32_t* perm, const uint32_t* part_begin, int64_t n, MemoryAccount* account,
) except NULL nogil:
    cdef Buffer* numbers = NULL
    cdef Buffer* last = NULL        # one more than the last position of each value; 0 before its first position
    cdef Buffer* out = NULL
    cdef const uint32_t* number
    cdef uint32_t* seen
    cdef uint32_t* positions
    cdef uint32_t n_values = 0
    cdef int64_t i
    cdef bint done = False
    try:
        numbers = value_numbers(column, perm, n, &n_values, account)
        last = buffer_new_zeroed(account, (<int64_t> n_values + 1) * sizeof(uint32_t))
        out = buffer_new(account, (n + 1) * sizeof(uint32_t))
        number = <const uint32_t*> numbers.data
        seen = <uint32_t*> last.data
        positions = <uint32_t*> out.data
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(account)
            qc_check(number[i] < n_values, b"a value's number is below the number of values")
            positions[i] = seen[number[i]] if seen[number[i]] > part_begin[i] else 0
            seen[number[i]] = <uint32_t> (i + 1)
        done = True
    finally:
        buffer_unref(numbers)
        buffer_unref(last)
        if not done:
            buffer_unref(out)
    return out
