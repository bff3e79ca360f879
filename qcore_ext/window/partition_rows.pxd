"""Sorted rows and, for each, the bounds of its partition and of its peers."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.run cimport SortRun


ctypedef struct PartitionRows:
    # Zero-initialised, then partition_rows_init. Positions count the rows in their order; each array has one a row.
    int64_t n
    Buffer* buffer              # owned; holds the arrays
    uint32_t* perm              # where the row at a position lies
    uint32_t* part_begin
    uint32_t* part_end
    uint32_t* peer_begin
    uint32_t* peer_end
    uint32_t* group             # peers counted through, over all partitions

# The first n_partition of the run's keys tell partitions apart, the others order.
cdef int partition_rows_init(
    PartitionRows* self, const SortRun* run, const SortKey* parts, int32_t n_partition, MemoryAccount* account,
) except -1 nogil
cdef void partition_rows_free(PartitionRows* self) noexcept nogil
