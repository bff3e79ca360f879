"""The sorted rows of a window, and for each row the bounds of its partition and of its peers."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.run cimport SortRun


ctypedef struct PartitionRows:
    # Zeroed, then initialised by partition_rows_init. A position is a row's number in the order. Each array has one
    # element for each position.
    int64_t n
    Buffer* buffer              # owned; has the arrays
    uint32_t* perm              # the row at the position
    uint32_t* part_begin
    uint32_t* part_end
    uint32_t* peer_begin
    uint32_t* peer_end
    uint32_t* group             # the number of the group of peers, counted over all partitions


ctypedef struct Numbers:
    # A number for each row: a constant, or a column's values.
    int64_t constant
    bint of_column
    const int64_t* values       # borrowed; by row
    const uint8_t* validity     # borrowed; NULL: no nulls


cdef inline bint number_of_row(const Numbers* self, uint32_t row, int64_t* out) noexcept nogil:
    """Set the number of a row, and return whether it has one. Large ones are cut: sums with positions are safe."""
    cdef int64_t most = <int64_t> 1 << 40
    if not self.of_column:
        out[0] = self.constant
        return True
    if not is_valid(self.validity, row):
        return False
    out[0] = max(min(self.values[row], most), -most)
    return True

# The first n_partition keys of the run are the partition keys, the others are the order keys.
cdef int partition_rows_init(
    PartitionRows* self, const SortRun* run, const SortKey* parts, int32_t n_partition, MemoryAccount* account,
) except -1 nogil
cdef void partition_rows_free(PartitionRows* self) noexcept nogil
