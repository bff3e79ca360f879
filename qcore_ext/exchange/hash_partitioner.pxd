"""The partition of a row: the hash of its keys, scaled to the number of partitions."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport VectorScratch
from qcore_ext.data.schema cimport CSchema, DataType, Schema
from qcore_ext.ground.memory cimport MemoryAccount

cdef enum:
    PARTITIONS_MAX = 4096


cdef class HashPartitioner:
    """Belongs to one operator. A row's partition depends on the values of its keys only, also between processes."""
    cdef list key_names
    cdef int32_t* keys              # owned; key columns of the schema last bound
    cdef int32_t n_keys
    cdef int64_t n_partitions
    cdef bint between_tasks
    cdef Schema declared            # types of the keys; None until bound
    cdef DataType* declared_types   # owned; by key
    cdef DataType* given_types      # owned; by key; types in the schema last bound
    cdef uint8_t* is_changed        # owned; by key; whether the given type hashes otherwise than the declared one
    cdef VectorScratch* scratch     # owned; while open

    cdef int open(self) except -1 nogil
    # Raises SchemaChangeError if a key is missing, or its type does not widen with the declared one.
    cdef int bind(self, CSchema* schema) except -1 nogil
    # Whether the hashes of the bound schema's keys are those of hash_vector.
    cdef bint hashes_as_given(self) noexcept nogil
    cdef int choose_hash(self, const CSchema* schema, int32_t key) except -1
    # Compute the partitions of n <= VECTOR_ROWS selected rows from `start` on, a multiple of 8. Raises Cancelled,
    # between long texts, if the query of `account` is stopped.
    cdef int assign(
        self, const Batch* batch, int64_t start, int64_t n, uint16_t* partitions, const MemoryAccount* account,
    ) except -1 nogil
    # The same in two steps: the hashes, and their partitions.
    cdef int hash(
        self, const Batch* batch, int64_t start, int64_t n, uint64_t* hashes, const MemoryAccount* account,
    ) except -1 nogil
    cdef int assign_hashed(self, const uint64_t* hashes, int64_t n, uint16_t* partitions) except -1 nogil
    cdef void close(self) noexcept nogil


# counts[p] += rows of partition p, of which there are n_partitions
cdef void count_rows(const uint16_t* partitions, int64_t n, int64_t n_partitions, int64_t* counts) noexcept nogil
# Turn each partition's count into the position of its first row in a list sorted by partition.
cdef void counts_to_starts(int64_t* counts, int64_t n_partitions) noexcept nogil
# rows[positions[p]++] = row, for n rows in order, where p is the row's partition. `selection` NULL: row i is start + i.
cdef void place_rows(
    const uint16_t* partitions, int64_t n_partitions, const uint32_t* selection, int64_t start, int64_t n,
    int64_t* positions, uint32_t* rows,
) noexcept nogil
