"""The order of rows: keys, 64-bit prefixes that sort like them, and the comparison that settles ties.

A prefix holds as many leading bits of the keys as fit: for each key one bit that places nulls, then the value as an
unsigned number that sorts like it, inverted when descending. NaN is the largest float; -0.0 equals 0.0. Rows of
different prefixes are in the order of these; only equal ones, when the keys did not fit in full, are compared value by
value.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount

cdef enum:
    STRING_WORD_BYTES = 7       # of a string in a word of sort_key_words


ctypedef struct SortKey:
    int32_t column
    bint descending
    bint nulls_first
    uint8_t bits                # of the value in the prefix
    uint8_t shift


cdef class SortOrder:
    """Names resolved against a schema by resolve()."""
    cdef readonly list keys         # (name, descending, nulls_first)
    cdef int32_t n_keys
    cdef SortKey* parts
    cdef int32_t first_open         # keys before this one are in the prefix in full; n_keys: all are
    # PlanError when a column is missing or its type has no order.
    cdef int resolve(self, CSchema* schema) except -1


# Share a prefix's bits among keys of these physical types; gives first_open.
cdef int32_t sort_prefix_layout(SortKey* parts, const uint8_t* phys, int32_t n_keys) noexcept nogil
# keys[k]: the values of key k's column; any number of rows. Cancelled when the account's query is stopped.
cdef int sort_prefixes(
    const SortKey* parts, int32_t n_keys, const Vector* keys, int64_t n, uint64_t* prefixes,
    const MemoryAccount* account,
) except -1 nogil
# Negative, zero or positive, as row i of `a` stands to row j of `b`; keys from `first` on.
cdef int sort_compare(
    const SortKey* parts, int32_t first, int32_t n_keys, const Vector* a, int64_t i, const Vector* b, int64_t j,
) noexcept nogil
# A word for each of n <= VECTOR_ROWS rows of one key: the bit that places nulls, then the value's highest bits; of a
# string the STRING_WORD_BYTES from `offset` on.
cdef void sort_key_words(
    const SortKey* part, const Vector* key, const uint32_t* rows, int64_t n, int64_t offset, uint64_t* words,
) noexcept nogil
