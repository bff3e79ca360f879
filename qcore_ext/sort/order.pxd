"""The order of rows: sort keys, 64-bit prefixes that sort like the keys, and a comparison of values for ties.

A prefix holds as many leading bits of the keys as fit. Each key has one bit that orders nulls, followed by the value as
an unsigned number that sorts like the value. The number is inverted if the key is descending. NaN is the largest float,
and -0.0 equals 0.0.

Rows with different prefixes are ordered by their prefixes. Rows with equal prefixes are compared value by value, from
the first key that does not fit in the prefix.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount

cdef enum:
    STRING_WORD_BYTES = 7       # bytes of a string in one word of sort_key_words


ctypedef struct SortKey:
    int32_t column
    bint descending
    bint nulls_first
    uint8_t bits                # bits of the value in the prefix
    uint8_t shift               # position of the lowest of them


cdef class SortOrder:
    """Sort keys by name. resolve() finds their columns in a schema."""
    cdef readonly list keys         # (name, descending, nulls_first)
    cdef int32_t n_keys
    cdef SortKey* parts             # owned; n_keys
    cdef int32_t first_open         # the first key that does not fit in the prefix; n_keys if all fit
    # Raises PlanError if a column is missing or its type has no order.
    cdef int resolve(self, CSchema* schema) except -1


# Divide the bits of a prefix among keys of these physical types. Returns first_open.
cdef int32_t sort_prefix_layout(SortKey* parts, const uint8_t* phys, int32_t n_keys) noexcept nogil
# Compute the prefixes of n rows, any number. keys[k] has the values of key k. Raises Cancelled if the account's query
# is stopped.
cdef int sort_prefixes(
    const SortKey* parts, int32_t n_keys, const Vector* keys, int64_t n, uint64_t* prefixes,
    const MemoryAccount* account,
) except -1 nogil
# Compare row i of `a` with row j of `b` by the keys from `first` on. The result is negative, zero or positive.
cdef int sort_compare(
    const SortKey* parts, int32_t first, int32_t n_keys, const Vector* a, int64_t i, const Vector* b, int64_t j,
) noexcept nogil
# One word for each of n <= VECTOR_ROWS rows of one key: the bit that orders nulls, then the value's highest bits. For a
# string the word holds STRING_WORD_BYTES bytes from `offset` on.
cdef void sort_key_words(
    const SortKey* part, const Vector* key, const uint32_t* rows, int64_t n, int64_t offset, uint64_t* words,
) noexcept nogil
