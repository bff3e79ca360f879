"""Insert the entries of a join table's build into its slots, partition by partition, and group the rows of equal keys.

Each function works on the slots of one partition, so that several threads may work on different ones. An entry that
finds no free slot up to the end of its partition is deferred. It goes on into the slots of the next partition, when all
others are in their slots. All rows of its key are deferred, because the slots before stay full.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.join.build_state cimport TableBuild
from qcore_ext.join.table cimport JoinLookup

# Clear the partition's slots and insert its entries. Afterwards the start of a slot is its first row, and the position
# of an entry is its slot or NO_POSITION. In an index of values the first entries of the partition are then the
# deferred ones.
cdef int insert_partition(
    TableBuild* build, int64_t partition, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil
# Insert the deferred entries; no other thread works.
cdef int insert_deferred(TableBuild* build, JoinLookup* lookup, MemoryAccount* account) except -1 nogil
# The same for an index of values.
cdef int insert_deferred_values(TableBuild* build, MemoryAccount* account) except -1 nogil
# Find where the groups of each partition's slots begin among the rows. They are in the order of the slots.
cdef int place_groups(TableBuild* build) except -1 nogil
# Write the rows of the groups in the partition's slots, but for deferred ones. The rows of a group ascend.
cdef int group_partition(TableBuild* build, int64_t partition, MemoryAccount* account) except -1 nogil
# Write the rows of deferred entries; no other thread works, and all partitions are grouped.
cdef void group_deferred(TableBuild* build) noexcept nogil
