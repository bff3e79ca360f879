"""Where in a partition a value stood before: what distinct aggregates over frames go by. Floor E3."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch, column_load
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, account_check, buffer_grow, buffer_new, buffer_unref
from qcore_ext.structures.group_table cimport GroupTable, group_table_assign, group_table_free, group_table_new


cdef Buffer* previous_places(
    Column* column, const uint32_t* perm, const uint32_t* part_begin, int64_t n, MemoryAccount* account,
) except NULL nogil:
    cdef uint32_t values[VECTOR_ROWS]
    cdef GroupTable* table = NULL
    cdef Buffer* out = NULL
    cdef Buffer* scratch = NULL
    cdef Buffer* last = NULL        # by value: one more than its last position; 0: not met yet
    cdef uint32_t* seen
    cdef uint32_t* places
    cdef Vector vector
    cdef int64_t known = 0
    cdef int64_t capacity = VECTOR_ROWS
    cdef int64_t start = 0
    cdef int64_t m, i
    cdef bint done = False
    try:
        out = buffer_new(account, (n + 1) * sizeof(uint32_t))
        places = <uint32_t*> out.data
        scratch = buffer_new(account, sizeof(VectorScratch))
        last = buffer_new(account, capacity * sizeof(uint32_t))
        table = group_table_new(account, &column.type, 1, NULL)
        while start < n:
            account_check(account)
            m = min(n - start, <int64_t> VECTOR_ROWS)
            column_load(column, 0, perm + start, m, <VectorScratch*> scratch.data, &vector)
            group_table_assign(table, &vector, m, values)
            while capacity < table.n_groups:
                buffer_grow(&last, known * sizeof(uint32_t), 2 * capacity * sizeof(uint32_t))
                capacity *= 2
            seen = <uint32_t*> last.data
            for i in range(known, table.n_groups):
                seen[i] = 0
            known = table.n_groups
            for i in range(m):
                places[start + i] = seen[values[i]] if seen[values[i]] > part_begin[start + i] else 0
                seen[values[i]] = <uint32_t> (start + i + 1)
            start += m
        done = True
    finally:
        group_table_free(table)
        buffer_unref(scratch)
        buffer_unref(last)
        if not done:
            buffer_unref(out)
    return out
