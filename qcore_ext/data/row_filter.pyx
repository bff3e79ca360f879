"""Drops rows of a source before their other columns are read.

Operators above the source drop the same rows again, so a filter may leave any of them: for a batch, for a row group, or
because a row fails in a way that an operator must report. A filter that leaves most rows is switched off, because it
costs more than it saves. It is tried again some row groups later, because the rows of a file may be sorted. Each time
that it leaves most rows again it stays off for twice as many.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport Schema
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Account, Buffer, struct_free, struct_new
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
        struct_free(self.columns)

    cdef bint open(self, Account memory, Schema schema) except -1:
        return False

    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil:
        selection[0] = NULL
        return batch.n_rows

    cdef void close(self) noexcept nogil:
        pass

    cdef int64_t choose(self, Batch* batch, Buffer** selection) except -1 nogil:
        cdef int64_t began = wall_nanos()
        cdef int64_t found = self.select(batch, selection)
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
