"""Order by: each driver sorts a run, and the last driver to finish merges the runs and returns all rows."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Buffer
from qcore_ext.flow.operator cimport Operator
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.sort.order cimport SortOrder
from qcore_ext.sort.run cimport SortRun
from qcore_ext.sort.merge cimport SortState


cdef class OrderBy(Operator):
    cdef SortOrder order
    cdef SortState state
    cdef ColumnStore* rows          # owned; NULL after the run is delivered
    cdef int32_t* positions         # owned; the numbers 0, 1, … of the columns; NULL if no column is nested
    cdef Buffer* scratch            # owned; one VectorScratch
    cdef Buffer* merged             # owned; positions (uint32) of all rows, in order
    cdef Column** columns           # owned; n_columns columns of all rows
    cdef int64_t n_columns
    cdef CSchema* merged_schema     # owned
    cdef int64_t n_merged
    cdef int64_t next_row           # the position of the next merged row to return
    cdef bint delivered
    cdef bint input_over

    cdef int prepare(self, CSchema* schema) except -1 nogil
    cdef int keep_nested(self, Batch* batch) except -1 nogil
    cdef int take_columns(self, ColumnStore* rows) except -1 nogil
    cdef int merge(self) except -1 nogil
    cdef int align_runs(self, SortRun** runs, int64_t n_runs) except -1 nogil
    cdef void leave(self) noexcept nogil
    cdef void release(self) noexcept nogil
