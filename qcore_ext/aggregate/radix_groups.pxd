"""Many groups, a part of the key space at a time: so that each part's table and states stay in the cache.

Past some 64K groups every row misses the caches, once for its slot and once for each state. So rows are first scattered
by hash, column at a time, into RADIX_PARTS buffers, and a part's rows are taken in by a group set of its own when its
buffer is full (1M groups, sum and count: 84 -> 35 ns a row).
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.ground.memory cimport Arena, Buffer
from qcore_ext.aggregate.group_set cimport GroupPlan, GroupSet

cdef enum:
    RADIX_PARTS = 256


ctypedef struct RadixColumn:
    int width                   # bytes a value
    Buffer* values              # owned; part p's rows lie from p * rows_each on
    Buffer* valid               # owned; one byte a row; NULL until the first null


ctypedef struct RadixGroups:
    const GroupPlan* plan       # borrowed
    int64_t rows_each           # room for rows of a part
    int64_t n_rows[RADIX_PARTS]
    RadixColumn* columns        # owned; plan.n_vectors
    Arena* arena                # owned; long strings of rows not yet taken in
    int64_t arena_bytes
    GroupSet* sets[RADIX_PARTS]     # owned; NULL while a part has no group
    Buffer* scratch             # owned; of the sets' tables, shared
    Buffer* room                # owned; vectors of the call under way


# Rows to buffer for each part, as memory allows; 0: too little is left to partition.
cdef int64_t radix_groups_rows_each(const GroupPlan* plan) noexcept nogil
# Moves the groups of `groups` (which stays valid, and is the caller's to free) into parts.
cdef RadixGroups* radix_groups_new(const GroupPlan* plan, GroupSet* groups, int64_t rows_each) except NULL nogil
cdef void radix_groups_free(RadixGroups* radix) noexcept nogil         # NULL is ignored
cdef int radix_groups_add(RadixGroups* radix, const Vector* vectors, int64_t n) except -1 nogil
# Take in what the buffers hold; then sets[0..RADIX_PARTS) have all groups.
cdef int radix_groups_finish(RadixGroups* radix) except -1 nogil
