"""Pairs of probe and build rows, written from what a lookup found."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.ground.memory cimport Buffer
from qcore_ext.join.table cimport JoinLookup, JoinTable


ctypedef struct Pairs:
    # Pairs found and not yet given.
    Buffer* probe_rows          # owned
    Buffer* build_rows          # owned
    int64_t n
    int64_t capacity
    bint some_missing           # build_rows has NO_ROW


ctypedef struct PairCursor:
    # How far the hits of a vector have been turned into pairs.
    int64_t hit
    int64_t in_group


cdef void pairs_drop(Pairs* pairs) noexcept nogil
# Move into smaller buffers when most of their memory is unused: output batches may be kept for long.
cdef int pairs_trim(Pairs* pairs) except -1 nogil
cdef int rows_trim(Buffer** rows, int64_t n) except -1 nogil
# In what follows a vector's rows are rows[0..n), or start..start+n when rows is NULL.
# One pair a hit, of a table without duplicate keys.
cdef void unique_pairs(
    const JoinTable* table, const JoinLookup* lookup, const uint32_t* rows, int64_t start,
    uint32_t* probe_rows,       # OUT
    uint32_t* build_rows,       # OUT
) noexcept nogil
# Pairs of the hits from the cursor on, until the hits end or the buffers are full. An empty group makes one with
# NO_ROW.
cdef void group_pairs(
    const JoinTable* table, const JoinLookup* lookup, const uint32_t* rows, int64_t start, PairCursor* cursor,
    Pairs* pairs,
) noexcept nogil
# Turn the hits into all n rows of the vector, those that missed with an empty group.
cdef void spread_misses(const JoinTable* table, JoinLookup* lookup, int64_t n) noexcept nogil
# Mark build rows as matched. Cancelled when the query is stopped in a long group.
cdef int mark_group(const JoinTable* table, int64_t start, int64_t count) except -1 nogil
cdef void mark_rows(uint8_t* matched, const uint32_t* rows, int64_t n) noexcept nogil
