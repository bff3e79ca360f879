"""64-bit hashes of key columns, a vector at a time; the one hash function of joins, groups and partitions."""

from libc.stdint cimport int64_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount

# Which bits of a hash each structure reads. Slots of hash tables are the low bits.
cdef enum:
    HASH_EXCHANGE_SHIFT = 32    # exchanges: the upper 32 bits times the number of partitions, divided by 2**32
    HASH_TAG_SHIFT = 32         # tags of groups: bits 32 to 63
    HASH_RADIX_SHIFT = 40       # radix partitions: bits 40 to 47

# Hash rows 0..n of `vector` into `hashes`, or mix them into what is there when `combine`. Nulls hash alike; -0.0 as 0.0
# and every NaN as one; a decimal alike whether it comes as PHYS_I64 or PHYS_I128; integers of any width alike by value.
# Cancelled, between long texts, when the query of `account` is stopped.
cdef int hash_vector(
    const Vector* vector, int64_t n, bint combine, uint64_t* hashes, const MemoryAccount* account,
) except -1 nogil
# Whether hash_vector gives equal values the same hash whether they are of type `given` or of type `declared`.
cdef bint hash_survives(const DataType* given, const DataType* declared) noexcept nogil
# As hash_vector, for values of a type that hash_survives denies: a value that the declared type has hashes as it does
# there, any other alike in all types that hold it. So rows partitioned by the declared type's hash meet rows of wider
# types that equal them (SPEC D6).
cdef int hash_as_declared(
    const Vector* vector, const DataType* given, const DataType* declared, int64_t n, bint combine, uint64_t* hashes,
    const MemoryAccount* account,
) except -1 nogil
