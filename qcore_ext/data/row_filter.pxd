"""Drops rows of a source before their other columns are read."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport Schema
from qcore_ext.ground.memory cimport Account, Buffer, MemoryAccount


cdef enum:
    TRIAL_ROWS = 4096               # rows after which a filter may be switched off


cdef inline bint leaves_most(int64_t rows_in, int64_t rows_out) noexcept nogil:
    """Whether a filter that leaves rows_out of rows_in is not worth asking."""
    return rows_out * 2 > rows_in


cdef class RowFilter:
    cdef int32_t* columns           # owned; positions of the columns that it reads
    cdef int32_t n_columns
    cdef MemoryAccount* account     # borrowed; set by open
    # The dictionary whose values were asked for last, if the filter reads a single column.
    cdef Column* dictionary         # owned, or NULL
    cdef Buffer* passes             # owned; a byte a value: 1 if it is left
    cdef bint null_passes           # a null row is left
    cdef int64_t rows_in            # rows of the current row group that it was asked for
    cdef int64_t rows_out           # those that it left
    # Measurements for the order of filters, halved with each row group.
    cdef double nanos
    cdef double rows_asked
    cdef double rows_left
    cdef int64_t groups_off         # row groups for which it is still off
    cdef int64_t next_off           # row groups for which it will be off the next time

    # Whether it can be asked for rows of this schema. Called with the GIL before each split. Sets `account`.
    cdef bint open(self, Account memory, Schema schema) except -1
    # The rows of a batch without selection that may be needed, as Evaluator.select returns them. Only `columns` of the
    # batch are there; the others are NULL.
    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil
    cdef bint learns(self, const Batch* batch) noexcept nogil
    cdef int learn(self, Batch* batch) except -1 nogil
    cdef int64_t select_one(self, Batch* batch, Column* column, Buffer** selection) except -1 nogil
    cdef int64_t select_codes(self, Batch* batch, Buffer** selection) except -1 nogil
    cdef void close(self) noexcept nogil
    # For a reader: select with measurements, whether to ask the filter now, the time that it takes to drop a row, and
    # that the next row group begins.
    cdef int64_t choose(self, Batch* batch, Buffer** selection) except -1 nogil
    cdef double nanos_a_drop(self) noexcept nogil
    cdef bint is_on(self) noexcept nogil
    cdef void begin_group(self) noexcept nogil
