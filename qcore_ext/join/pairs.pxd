"""Pairs of probe and build rows, made of the hits of a lookup."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.ground.memory cimport Buffer
from qcore_ext.join.table cimport JoinLookup, JoinTable


ctypedef struct Pairs:
    # Pairs for the next output batch.
    Buffer* probe_rows          # owned
    Buffer* build_rows          # owned; NULL for an index of values
    Buffer* values              # owned; slot values of the build rows, for an index of values
    int64_t n
    int64_t capacity
    bint some_missing           # build_rows has NO_ROW


ctypedef struct PairCursor:
    # The next pair of a vector: its hit, and its position within the hit's group.
    int64_t hit
    int64_t in_group


cdef void pairs_drop(Pairs* pairs) noexcept nogil
# Copy to smaller buffers if most of their memory is unused, because output batches may be kept for a long time.
cdef int pairs_trim(Pairs* pairs) except -1 nogil
cdef int rows_trim(Buffer** rows, int64_t n) except -1 nogil
# In the functions below the rows of a vector are rows[0..n), or start..start+n if rows is NULL.
# Write one pair for each hit. The keys of the table must be unique.
cdef void unique_pairs(
    const JoinTable* table, const JoinLookup* lookup, const uint32_t* rows, int64_t start,
    uint32_t* probe_rows,       # OUT
    uint32_t* build_rows,       # OUT
) noexcept nogil
# Write the pairs of the hits from the cursor on, until there are no more hits or the buffers are full. An empty group
# makes one pair with NO_ROW.
cdef void group_pairs(
    const JoinTable* table, const JoinLookup* lookup, const uint32_t* rows, int64_t start, PairCursor* cursor,
    Pairs* pairs,
) noexcept nogil
# Write one pair for each hit of n rows, with the slot's value.
cdef void value_pairs(
    const JoinLookup* lookup, const uint32_t* rows, int64_t start, int64_t n, Pairs* pairs,
) noexcept nogil
# Make all n rows of the vector hits. Rows that missed get an empty group.
cdef void spread_misses(const JoinTable* table, JoinLookup* lookup, int64_t n) noexcept nogil
# Mark build rows as matched. Raises Cancelled if the query is stopped during a long group.
cdef int mark_group(const JoinTable* table, int64_t start, int64_t count) except -1 nogil
cdef void mark_rows(uint8_t* matched, const uint32_t* rows, int64_t n) noexcept nogil
