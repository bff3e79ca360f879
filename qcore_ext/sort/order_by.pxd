"""Order by: all drivers sort together, and the last one to finish its input returns all rows."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Buffer
from qcore_ext.flow.operator cimport Operator
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.sort.order cimport SortOrder
from qcore_ext.sort.shared_sort cimport SortState


cdef class OrderBy(Operator):
    cdef SortOrder order
    cdef SortState state
    cdef ColumnStore* rows          # owned; NULL after the run is delivered
    cdef int32_t* positions         # owned; the numbers 0, 1, … of the columns; NULL if no column is nested
    cdef Buffer* scratch            # owned; one VectorScratch
    cdef Buffer* work_space         # owned; of SortState.work
    cdef int64_t next_row           # the position of the next row to return
    cdef bint delivered
    cdef bint is_last               # the driver that delivered last returns the rows
    cdef bint helps                 # works on the shared sort until it is done
    cdef bint input_over

    cdef int prepare(self, CSchema* schema) except -1 nogil
    cdef int keep_nested(self, Batch* batch) except -1 nogil
    cdef Batch* next_batch(self) except NULL nogil
    cdef void leave(self) noexcept nogil
    cdef void release(self) noexcept nogil
