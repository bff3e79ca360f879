"""The order of rows: sort keys, 64-bit prefixes that sort like the keys, and a comparison of values for ties.

Every key has a code: an unsigned number that sorts like the value. NaN is the largest float, and -0.0 equals 0.0. The
code of a string is made of its first eight bytes behind those that all strings share, or of all of its bytes and its
length if they fit.

A prefix holds as many leading bits of the keys as fit, the first key highest. A key takes the bits of the difference of
its largest and its smallest code, and one more in front that orders nulls if there are any. The code is inverted if the
key is descending.

Rows with different prefixes are ordered by their prefixes. Rows with equal prefixes are compared value by value, from
the first key that is not wholly in the prefix.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport StringView, Vector
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount

cdef enum:
    STRING_WORD_BYTES = 7       # bytes of a string in one word of sort_key_words


ctypedef struct KeyRange:
    # The range of the values of a key.
    bint has_nulls
    bint has_values
    uint64_t low                # smallest code; strings: 0
    uint64_t high               # largest code; strings: all bits of the code
    StringView sample           # strings: one of them, borrowed, and the rest of these fields
    int64_t n_shared            # leading bytes that all share
    int64_t length_min
    int64_t length_max


ctypedef struct SortKey:
    int32_t column
    bint descending
    bint nulls_first
    # Set by sort_layout.
    bint nullable               # one bit of the prefix orders nulls
    uint8_t bits                # bits of the value in the prefix
    uint8_t shift               # position of the lowest of them
    uint8_t drop                # low bits of the code that are not in the prefix
    uint8_t n_bytes             # strings: bytes in the code
    uint8_t length_bits         # strings: bits of the length in the code
    bint has_values             # not all rows are null
    uint64_t low                # smallest code
    uint64_t high               # largest code
    int64_t n_shared            # strings: leading bytes that are not in the code
    int64_t length_min          # strings: the length whose code is 0


cdef class SortOrder:
    """Sort keys by name. resolve() finds their columns in a schema."""
    cdef readonly list keys         # (name, descending, nulls_first)
    cdef int32_t n_keys
    cdef SortKey* parts             # owned; n_keys
    cdef int32_t first_open         # the first key that is not wholly in the prefix; n_keys if all are
    # Lay the prefix out for any values. Raises PlanError if a column is missing or its type has no order.
    cdef int resolve(self, CSchema* schema) except -1
    cdef int lay_out(self, const uint8_t* phys) except -1 nogil


# The range of a key of which nothing is known but its physical type.
cdef void key_range_full(KeyRange* seen, uint8_t phys) noexcept nogil
# The range of n values, any number. `seen` borrows from a string. Raises Cancelled if the account's query is stopped.
cdef int key_range_measure(KeyRange* seen, const Vector* key, int64_t n, const MemoryAccount* account) except -1 nogil
# Widen `seen` to include `other`, of the same physical type.
cdef void key_range_merge(KeyRange* seen, const KeyRange* other, uint8_t phys) noexcept nogil
# Divide the bits of a prefix among keys of these physical types and ranges. Returns the first key that is not wholly in
# the prefix, n_keys if all are.
cdef int32_t sort_layout(SortKey* parts, const uint8_t* phys, const KeyRange* ranges, int32_t n_keys) noexcept nogil
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
# The order of two strings: negative, zero or positive.
cdef int compare_views(const StringView* a, const StringView* b) noexcept nogil
# One word for each of n <= VECTOR_ROWS rows of one key: the bit that orders nulls, then the value's highest bits. For a
# string the word holds STRING_WORD_BYTES bytes from `offset` on.
cdef void sort_key_words(
    const SortKey* part, const Vector* key, const uint32_t* rows, int64_t n, int64_t offset, uint64_t* words,
) noexcept nogil
