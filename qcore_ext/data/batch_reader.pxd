"""A source of batches in the engine itself, which TableScan reads without Arrow in between."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount


cdef class BatchReader:
    cdef CSchema* schema                    # owned; set by the subclass
    cdef list row_filters                   # the RowFilters that it asks; read only by readers that can skip values
    cdef readonly dict figures              # for the statistics: counts by name, known at the end
    cdef void set_schema(self, CSchema* schema) noexcept nogil
    # 1: *out is a batch that the caller owns, charged to the account. 0: the end. One thread at a time.
    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil
