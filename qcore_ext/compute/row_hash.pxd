"""64-bit hashes of key columns, a vector at a time; the one hash function of joins, groups and partitions. Floor E2."""

from libc.stdint cimport int64_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType

# Bit use, so that no two structures crowd each other: hash tables index with the low bits, partitioning (local
# exchange, radix, partitioned output) takes bits 32 and up, salts and tags bits 56 and up.

# Hash rows 0..n of `vector` into `hashes`, or mix them into what is there when `combine`. Nulls hash alike; -0.0 as 0.0
# and every NaN as one; a decimal alike whether it comes as PHYS_I64 or PHYS_I128; integers of any width alike by value.
cdef void hash_vector(const Vector* vector, int64_t n, bint combine, uint64_t* hashes) noexcept nogil
# Whether values of `narrow` hash as they do once they are widened to `wide` (data.widening).
cdef bint hash_survives(const DataType* narrow, const DataType* wide) noexcept nogil
