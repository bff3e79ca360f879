"""Top-N: the first rows of an order, without sorting the rest."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Buffer
from qcore_ext.flow.operator cimport Operator
from qcore_ext.sort.order cimport SortOrder
from qcore_ext.rows.key_columns cimport KeyColumns


cdef class TopN(Operator):
    cdef SortOrder order
    cdef int64_t count
    cdef int64_t offset
    cdef int64_t rows_max           # candidates to collect before the worst are dropped
    cdef int32_t n_columns
    cdef int32_t n_keys
    cdef DataType* types            # owned
    cdef KeyColumns* rows           # owned; the candidates, with copies of strings, so that no input batch stays alive
    cdef Vector* vectors            # owned; one a column
    cdef Vector* keys               # owned; one a key
    cdef Vector* worst              # owned; the keys of the worst candidate that is needed
    cdef uint64_t* worst_validity   # owned; one word a key
    cdef Buffer* scratch            # owned; TopNScratch
    cdef bint full                  # count + offset rows have been sorted, so `worst` is set
    cdef uint64_t worst_prefix
    cdef int64_t next_row           # the position of the next row to return
    cdef bint input_over

    cdef int prepare(self, CSchema* schema) except -1 nogil
    cdef int add_batch(self, Batch* batch) except -1 nogil
    cdef Batch* batch_of(self, int64_t start, int64_t n) except NULL nogil
    cdef Batch* widen_candidates(self, CSchema* schema) except NULL nogil
    cdef void drop_candidates(self) noexcept nogil
    cdef bint first_key_decides(self) noexcept nogil
    cdef int64_t select_by_first_key(self, int64_t n) noexcept nogil
    cdef int64_t select_closer(self, int32_t first, int64_t n_close) noexcept nogil
    cdef int64_t select_by_prefix(self, int64_t n) noexcept nogil
    cdef int64_t select_candidates(self, int64_t n) except -1 nogil
    cdef int add_vector(self, Batch* batch, int64_t start, int64_t n) except -1 nogil
    cdef int shrink(self, bint final) except -1 nogil
    cdef void set_worst(self) noexcept nogil
    cdef void release(self) noexcept nogil
