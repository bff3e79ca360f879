"""Radix groups: many groups, partitioned by hash, so that the table and the states of one part stay in the cache.

Above 128K groups each row misses the caches, once for its slot and once for each state. Therefore rows are first
scattered by hash into the buffers of parts (rows/part_buffers). When the buffer of a part is full its rows are added
to the part's own group set. With 1M groups, sum and count took 35 ns a row instead of 84. Rows that come from an
exchange by parts (exchange/part_pages) are scattered already.
"""

from libc.stdint cimport int64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.ground.memory cimport Arena, Buffer
from qcore_ext.aggregate.group_set cimport GroupPlan, GroupSet
from qcore_ext.rows.part_buffers cimport RADIX_PARTS, PartBuffers


ctypedef struct RadixGroups:
    const GroupPlan* plan       # borrowed
    bint is_short               # a part has many groups for so short a buffer
    # Owned. The plan's vectors, and if with_hashes the hash of each row's keys.
    PartBuffers* rows
    bint with_hashes
    # Long strings of the buffered rows. Those of part p begin at p * text_each, so that a part reads its own strings in
    # the order of addresses. A vector with more text than that has its strings in the arena.
    Buffer* text                # owned; NULL before the first long string, or if memory is short
    int64_t text_each           # capacity of the text of one part, in bytes
    int64_t text_used[RADIX_PARTS]
    Arena* arena                # owned
    int64_t arena_bytes
    GroupSet* sets[RADIX_PARTS]     # owned; NULL before the part's first group
    int64_t n_complete          # groups of the parts that radix_groups_complete was called for
    Buffer* table_scratch       # owned; shared by the tables of the sets
    Buffer* scratch             # owned; RadixScratch


# The number of rows to buffer for each part, limited by the memory that is left. 0 if there is too little memory.
cdef int64_t radix_groups_rows_each(const GroupPlan* plan) noexcept nogil
# Copies the groups of `groups` into parts. The caller still owns `groups`.
cdef RadixGroups* radix_groups_new(const GroupPlan* plan, GroupSet* groups, int64_t rows_each) except NULL nogil
cdef void radix_groups_free(RadixGroups* radix) noexcept nogil         # NULL is ignored
cdef int radix_groups_add(RadixGroups* radix, const Vector* vectors, int64_t n) except -1 nogil
# Read the slots and states of a part into the cache, before n_rows rows of it are added.
cdef void radix_groups_fetch(RadixGroups* radix, int64_t part, int64_t n_rows) noexcept nogil
# Add n <= VECTOR_ROWS rows, all of one part.
cdef int radix_groups_add_part(RadixGroups* radix, int64_t part, const Vector* vectors, int64_t n) except -1 nogil
# Begin to read the groups, at part 0. The following parts are completed, read and dropped one after another: where most
# rows are groups, and wait in the buffers, the groups of all parts are never in memory together.
cdef int radix_groups_begin(RadixGroups* radix) except -1 nogil
# Add the buffered rows of a part to its groups, before these are read.
cdef int radix_groups_complete(RadixGroups* radix, int64_t part) except -1 nogil
# Free the groups of a part.
cdef void radix_groups_drop(RadixGroups* radix, int64_t part) noexcept nogil
# Add the buffered rows to their parts, and free the buffers. Afterwards sets[0..RADIX_PARTS) have all groups.
cdef int radix_groups_finish(RadixGroups* radix) except -1 nogil
