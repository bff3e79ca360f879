"""Drops rows of a source before their other columns are read.

Operators above the source drop the same rows again, so a filter may leave any of them: for a batch, for a row group, or
because a row fails in a way that an operator must report. A filter that leaves most rows is switched off, because it
costs more than it saves. It is tried again some row groups later, because the rows of a file may be sorted. Each time
that it leaves most rows again it stays off for twice as many.

A filter of one column whose rows are codes is asked for the values of the dictionary, once for each dictionary. Then it
looks at the codes alone.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport (
    DICTIONARY, VECTOR_ROWS, Column, column_constant_null, column_ref, column_unref,
)
from qcore_ext.data.schema cimport Schema
from qcore_ext.data.take cimport gather_width
from qcore_ext.ground.check cimport qc_check, qc_check_selection
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    Account, Buffer, account_check, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.stats cimport wall_nanos

cdef enum:
    GROUPS_OFF_MIN = 2
    GROUPS_OFF_MAX = 1024


cdef class RowFilter:
    """Which rows of a batch are needed. A subclass defines `select`. One driver has one.

    Parameters
    ----------
    columns : sequence of int
        The positions of the columns that it reads, in the schema of the scan.
    """

    def __init__(self, columns):
        self.n_columns = <int32_t> len(columns)
        self.columns = <int32_t*> struct_new((self.n_columns + 1) * sizeof(int32_t))
        for i, column in enumerate(columns):
            self.columns[<int64_t> i] = column
        self.next_off = GROUPS_OFF_MIN

    def __dealloc__(self):
        RowFilter.close(self)
        struct_free(self.columns)

    cdef bint open(self, Account memory, Schema schema) except -1:
        return False

    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil:
        selection[0] = NULL
        return batch.n_rows

    cdef bint learns(self, const Batch* batch) noexcept nogil:
        """Whether the batch is asked for by codes: its dictionary was asked for, or has few values for its rows."""
        cdef const Column* column
        if self.n_columns != 1:
            return False
        column = batch.columns[self.columns[0]]
        if column.encoding != DICTIONARY:
            return False
        return column.base == self.dictionary or column.base.n_rows * 2 <= batch.n_rows

    cdef int64_t select_one(self, Batch* batch, Column* column, Buffer** selection) except -1 nogil:
        """Call select for the rows of a column."""
        cdef Batch* alone = batch_new(batch.schema, column.n_rows)
        try:
            alone.columns[self.columns[0]] = column_ref(column)
            return self.select(alone, selection)
        finally:
            batch_unref(alone)

    cdef int learn(self, Batch* batch) except -1 nogil:
        """Ask for the values of the column's dictionary, and for a null."""
        cdef Column* column = batch.columns[self.columns[0]]
        cdef Column* none
        cdef Buffer* left = NULL
        cdef int64_t n = column.base.n_rows
        cdef int64_t found, i
        RowFilter.close(self)
        none = column_constant_null(&column.type, 1)
        try:
            self.null_passes = self.select_one(batch, none, &left) > 0
        finally:
            column_unref(none)
        self.passes = buffer_new(self.account, n + VECTOR_ROWS)
        found = self.select_one(batch, column.base, &left)
        memset(self.passes.data, found == n, n)
        if left != NULL:
            for i in range(found):
                self.passes.data[(<const uint32_t*> left.data)[i]] = 1
            buffer_unref(left)
        self.dictionary = column_ref(column.base)
        return 0

    cdef int64_t select_codes(self, Batch* batch, Buffer** selection) except -1 nogil:
        """Like select, by the codes of a dictionary that was asked for."""
        cdef uint8_t[2112] flags        # VECTOR_ROWS, and bytes that kernels may write
        cdef uint8_t[2112] valid
        cdef const Column* column = batch.columns[self.columns[0]]
        cdef Buffer* rows = buffer_new(self.account, (batch.n_rows + 16) * sizeof(uint32_t))
        cdef uint32_t* out = <uint32_t*> rows.data
        cdef int64_t start = 0
        cdef int64_t found = 0
        cdef int64_t i, step
        while start < batch.n_rows:
            step = min(batch.n_rows - start, <int64_t> VECTOR_ROWS)
            gather_width(self.passes.data, column.base.n_rows, 1, column.indices + start, step, flags)
            if column.validity != NULL:
                simd_kernels().bits_to_mask(column.validity + (start >> 3), step, valid)
                if self.null_passes:
                    for i in range(step):
                        flags[i] |= 1 ^ valid[i]
                else:
                    simd_kernels().mask_and(flags, valid, flags, step)
            found += simd_kernels().mask_rows(flags, step, <uint32_t> start, out + found)
            start += step
        qc_check_selection(out, found, batch.n_rows, b"the rows that are left ascend and are rows of the batch")
        if found == 0 or found == batch.n_rows:
            buffer_unref(rows)
            rows = NULL
        selection[0] = rows
        return found

    cdef void close(self) noexcept nogil:
        column_unref(self.dictionary)
        buffer_unref(self.passes)
        self.dictionary = NULL
        self.passes = NULL

    cdef int64_t choose(self, Batch* batch, Buffer** selection) except -1 nogil:
        cdef int64_t began = wall_nanos()
        cdef int64_t found
        selection[0] = NULL
        if self.learns(batch):
            account_check(self.account)
            if batch.columns[self.columns[0]].base != self.dictionary:
                self.learn(batch)
            found = self.select_codes(batch, selection)
        else:
            found = self.select(batch, selection)
        qc_check((0 <= found) & (found <= batch.n_rows), b"a row filter leaves rows of its batch")
        self.rows_in += batch.n_rows
        self.rows_out += found
        self.nanos += <double> (wall_nanos() - began)
        self.rows_asked += <double> batch.n_rows
        self.rows_left += <double> found
        if self.rows_in >= TRIAL_ROWS and leaves_most(self.rows_in, self.rows_out):
            self.groups_off = self.next_off
            self.next_off = min(2 * self.next_off, <int64_t> GROUPS_OFF_MAX)
        return found

    cdef double nanos_a_drop(self) noexcept nogil:
        # A filter that was not asked yet keeps its place behind those that were.
        return self.nanos / (self.rows_asked - self.rows_left + 1.0) if self.rows_asked > 0.0 else 1e300

    cdef bint is_on(self) noexcept nogil:
        return self.groups_off == 0

    cdef void begin_group(self) noexcept nogil:
        if self.groups_off > 0:
            self.groups_off -= 1
        elif self.rows_in >= TRIAL_ROWS:
            self.next_off = GROUPS_OFF_MIN
        self.rows_in = 0
        self.rows_out = 0
        self.nanos /= 2.0
        self.rows_asked /= 2.0
        self.rows_left /= 2.0
