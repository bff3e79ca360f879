"""Radix groups: many groups, partitioned by hash, so that the table and the states of one part stay in the cache.

Above 64K groups each row misses the caches, once for its slot and once for each state. Therefore rows are first
scattered by hash, a column or two at a time, into RADIX_PARTS buffers. The values of a part are collected in a line of
the cache first, and full lines are written to its buffer. When the buffer of a part is full its rows are added to the
part's own group set. With 1M groups, sum and count took 35 ns a row instead of 84.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.ground.memory cimport Arena, Buffer
from qcore_ext.aggregate.group_set cimport GroupPlan, GroupSet

cdef enum:
    RADIX_PARTS = 256


ctypedef struct RadixColumn:
    int width                   # bytes a value
    Buffer* values              # owned; the rows of part p begin at p * rows_each
    Buffer* valid               # owned; one byte a row; NULL before the first null
    # A line for each part, with the values of its last rows that do not fill one. Parts of RadixGroups.lines.
    char* lines
    char* valid_lines


ctypedef struct RadixGroups:
    const GroupPlan* plan       # borrowed
    int64_t rows_each           # capacity of the buffer of one part, in rows
    bint is_short               # a part has many groups for so short a buffer
    uint32_t n_rows[RADIX_PARTS]    # number of buffered rows of each part
    RadixColumn* columns        # owned; plan.n_vectors
    Buffer* hashes              # owned; the hash of each buffered row's keys; NULL if the tables do not take it
    char* hash_lines            # part of `lines`
    Buffer* lines               # owned
    # Long strings of the buffered rows. Those of part p begin at p * text_each, so that a part reads its own strings in
    # the order of addresses. A vector with more text than that has its strings in the arena.
    Buffer* text                # owned; NULL before the first long string, or if memory is short
    int64_t text_each           # capacity of the text of one part, in bytes
    int64_t text_used[RADIX_PARTS]
    Arena* arena                # owned
    int64_t arena_bytes
    GroupSet* sets[RADIX_PARTS]     # owned; NULL before the part's first group
    Buffer* table_scratch       # owned; shared by the tables of the sets
    Buffer* scratch             # owned; RadixScratch


# The number of rows to buffer for each part, limited by the memory that is left. 0 if there is too little memory.
cdef int64_t radix_groups_rows_each(const GroupPlan* plan) noexcept nogil
# Copies the groups of `groups` into parts. The caller still owns `groups`.
cdef RadixGroups* radix_groups_new(const GroupPlan* plan, GroupSet* groups, int64_t rows_each) except NULL nogil
cdef void radix_groups_free(RadixGroups* radix) noexcept nogil         # NULL is ignored
cdef int radix_groups_add(RadixGroups* radix, const Vector* vectors, int64_t n) except -1 nogil
# Add the buffered rows to their parts. Afterwards sets[0..RADIX_PARTS) have all groups.
cdef int radix_groups_finish(RadixGroups* radix) except -1 nogil
