"""64-bit hashes of key columns, a vector at a time. Joins, groups and partitions use the same hash function."""

from libc.stdint cimport int64_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount

# The bits of a hash that each structure reads. Hash tables use the low bits for slots.
cdef enum:
    HASH_EXCHANGE_SHIFT = 32    # exchanges: the upper 32 bits times the number of partitions, divided by 2**32
    HASH_TAG_SHIFT = 32         # group tables: tags are bits 32 to 63
    HASH_RADIX_SHIFT = 40       # radix partitions: bits 40 to 47
    HASH_FILTER_SHIFT = 32      # filters of keys: bits 0 to 31 choose a word, four numbers of 6 bits its bits
    HASH_FILTER_BITS = 6

# Write the hashes of n <= VECTOR_ROWS rows of a vector to `hashes`. If `combine` they are combined with the hashes
# there. These have equal hashes: all nulls; -0.0 and 0.0; all NaNs; equal decimals of PHYS_I64 and PHYS_I128; equal
# integers of any width. Raises Cancelled, between long texts, when the query of `account` is stopped.
cdef int hash_vector(
    const Vector* vector, int64_t n, bint combine, uint64_t* hashes, const MemoryAccount* account,
) except -1 nogil
# Whether equal values of the types `given` and `declared` have equal hashes by hash_vector.
cdef bint hash_survives(const DataType* given, const DataType* declared) noexcept nogil
# Like hash_vector, for a type for which hash_survives returns False. A value that the declared type has gets the hash
# of that type. Another value gets the same hash in all types that have it. Therefore rows of a wider type come to the
# same partition as equal rows of the declared type.
cdef int hash_as_declared(
    const Vector* vector, const DataType* given, const DataType* declared, int64_t n, bint combine, uint64_t* hashes,
    const MemoryAccount* account,
) except -1 nogil
