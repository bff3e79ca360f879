"""Numbers for the distinct values of some rows, for counting values and finding repeated ones."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, account_check, buffer_new, buffer_unref
from qcore_ext.aggregate.group_table cimport GroupTable, group_table_assign, group_table_free, group_table_new


cdef Buffer* value_numbers(
    Column* column, const uint32_t* rows, int64_t n, uint32_t* n_values, MemoryAccount* account,
) except NULL nogil:
    cdef GroupTable* table = NULL
    cdef Buffer* out = NULL
    cdef Buffer* scratch = NULL
    cdef Vector vector
    cdef int64_t start = 0
    cdef int64_t m
    cdef bint done = False
    try:
        out = buffer_new(account, (n + 1) * sizeof(uint32_t))
        scratch = buffer_new(account, sizeof(VectorScratch))
        table = group_table_new(account, &column.type, 1, NULL)
        while start < n:
            account_check(account)
            m = min(n - start, <int64_t> VECTOR_ROWS)
            column_load(column, 0, rows + start, m, <VectorScratch*> scratch.data, &vector)
            group_table_assign(table, &vector, NULL, m, <uint32_t*> out.data + start)
            start += m
        n_values[0] = <uint32_t> table.n_groups
        done = True
    finally:
        group_table_free(table)
        buffer_unref(scratch)
        if not done:
            buffer_unref(out)
    return out
