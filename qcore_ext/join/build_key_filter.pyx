"""Drops rows of a source whose key no build row of a join has, before the source reads their other columns.

The join looks the keys of the other rows up again. The filter has its own reference to the table and its own scratch,
because another thread may call the join meanwhile, and it is no member of the bridge: it never waits for the table.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport VECTOR_ROWS, Column
from qcore_ext.data.row_filter cimport RowFilter
from qcore_ext.data.schema cimport CSchema, DataType, Schema
from qcore_ext.ground.check cimport qc_check_selection
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, account_check, buffer_new, buffer_unref, owner_unref, struct_free, struct_new,
)
from qcore_ext.join.bridge cimport JoinBridge
from qcore_ext.join.table cimport join_lookup_close, join_lookup_open, join_table_find


cdef class BuildKeyFilter(RowFilter):
    """Leaves the rows whose key occurs in a join's table. It is open once the table is complete.

    Parameters
    ----------
    columns : sequence of int
        The positions of the key columns, in the order of the build side's keys.
    bridge : JoinBridge
        The bridge of the join. A filter of keys of other types than the table's is never open.
    """

    def __init__(self, columns, JoinBridge bridge):
        RowFilter.__init__(self, columns)
        self.bridge = bridge
        memset(&self.lookup, 0, sizeof(self.lookup))
        self.keys = <Column**> struct_new((self.n_columns + 1) * sizeof(Column*))

    def __dealloc__(self):
        self.close()
        struct_free(self.keys)

    cdef bint open(self, Account memory, Schema schema) except -1:
        if self.table == NULL and self.bridge is not None:
            self.table = self.bridge.peek_table()
        if self.table == NULL or not self.has_types_of(schema.schema):
            return False
        self.account = memory.account
        if self.lookup.buffer == NULL:
            join_lookup_open(&self.lookup, self.n_columns, self.account)
        return True

    cdef bint has_types_of(self, const CSchema* schema) noexcept nogil:
        """Whether the key columns have the types of the table's keys."""
        cdef const DataType* given
        cdef const DataType* held
        cdef int32_t k
        if self.table.n_keys != self.n_columns:
            return False
        for k in range(self.n_columns):
            given = &schema.fields[self.columns[k]].type
            held = &self.table.columns[self.table.key_columns[k]].type
            if given.phys != held.phys or given.scale != held.scale or given.unit != held.unit:
                return False
        return True

    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil:
        cdef Buffer* rows = buffer_new(self.account, (batch.n_rows + 16) * sizeof(uint32_t))
        cdef uint32_t* out = <uint32_t*> rows.data
        cdef int64_t n = batch.n_rows
        cdef int64_t start = 0
        cdef int64_t found = 0
        cdef int64_t step
        cdef int32_t k
        cdef bint done = False
        selection[0] = NULL
        try:
            for k in range(self.n_columns):
                self.keys[k] = batch.columns[self.columns[k]]
            while start < n:
                account_check(self.account)
                step = min(n - start, <int64_t> VECTOR_ROWS)
                join_table_find(self.table, &self.lookup, self.keys, start, NULL, step)
                found += simd_kernels().mask_rows(self.lookup.flags, step, <uint32_t> start, out + found)
                start += step
            qc_check_selection(out, found, n, b"the rows with a key ascend and are rows of the batch")
            done = 0 < found < n
        finally:
            if not done:
                buffer_unref(rows)
        selection[0] = rows if done else NULL
        return found

    cdef void close(self) noexcept nogil:
        RowFilter.close(self)
        join_lookup_close(&self.lookup)
        owner_unref(<Owner*> self.table)
        self.table = NULL
