"""The partition of a row: the hash of its keys, scaled to the number of partitions."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.compute.row_hash cimport HASH_EXCHANGE_SHIFT, hash_as_declared, hash_survives, hash_vector
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport VECTOR_ROWS, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport CSchema, DataType, Schema, schema_index
from qcore_ext.data.widening cimport raise_types_differ, type_widen
from qcore_ext.ground.check cimport qc_check_partitions
from qcore_ext.ground.dispatch cimport grouping_kernels, simd_kernels
from qcore_ext.ground.memory cimport struct_free, struct_new

from qcore_ext.ground.status import PlanError, SchemaChangeError

cdef enum:
    # Up to here a pass over the rows for each partition, several rows at a time, is faster than one pass: its counter
    # of the same partition waits for the row before.
    FEW_PARTITIONS = 8

# Zeros, for a kernel that adds a number to each hash. Never written.
cdef uint32_t[VECTOR_ROWS] NOTHING_ADDED


cdef void mix_again(uint64_t* hashes, int64_t n) noexcept nogil:
    """hashes[i] = qc_mix(hashes[i]) for n <= VECTOR_ROWS hashes, several at a time."""
    grouping_kernels().hash_one(hashes, NOTHING_ADDED, n, hashes)


cdef void scale(const uint64_t* hashes, int64_t n, int64_t n_partitions, uint16_t* partitions) noexcept nogil:
    cdef int64_t i
    # Bits 32 and up of the hash, scaled to the number of partitions without dividing.
    for i in range(n):
        partitions[i] = <uint16_t> (((hashes[i] >> HASH_EXCHANGE_SHIFT) * <uint64_t> n_partitions) >> 32)


cdef void flag_rows(const uint16_t* partitions, int64_t n, int64_t partition, uint8_t* flags) noexcept nogil:
    cdef uint16_t wanted = <uint16_t> partition
    cdef int64_t i
    for i in range(n):
        flags[i] = partitions[i] == wanted


cdef void count_rows(const uint16_t* partitions, int64_t n, int64_t n_partitions, int64_t* counts) noexcept nogil:
    cdef uint8_t flags[VECTOR_ROWS]
    cdef int64_t i, p, m
    cdef int64_t start = 0
    if n_partitions > FEW_PARTITIONS:
        for i in range(n):
            counts[partitions[i]] += 1
        return
    while start < n:
        m = min(n - start, <int64_t> VECTOR_ROWS)
        for p in range(n_partitions):
            flag_rows(partitions + start, m, p, flags)
            counts[p] += simd_kernels().mask_count(flags, m)
        start += m


cdef void counts_to_starts(int64_t* counts, int64_t n_partitions) noexcept nogil:
    cdef int64_t i, count
    cdef int64_t total = 0
    for i in range(n_partitions):
        count = counts[i]
        counts[i] = total
        total += count


cdef void place_few(
    const uint16_t* partitions, int64_t n_partitions, const uint32_t* selection, int64_t start, int64_t n,
    int64_t* positions, uint32_t* rows,
) noexcept nogil:
    """Place n <= VECTOR_ROWS rows one partition after the other."""
    cdef uint8_t flags[VECTOR_ROWS]
    cdef uint32_t found[VECTOR_ROWS + 16]
    cdef int64_t p, count
    for p in range(n_partitions):
        flag_rows(partitions, n, p, flags)
        if selection == NULL:
            count = simd_kernels().mask_rows(flags, n, <uint32_t> start, found)
        else:
            count = simd_kernels().mask_filter(flags, selection + start, n, found)
        # The kernels store whole registers, which may reach into the rows of the next partition.
        memcpy(rows + positions[p], found, count * sizeof(uint32_t))
        positions[p] += count


cdef void place_rows(
    const uint16_t* partitions, int64_t n_partitions, const uint32_t* selection, int64_t start, int64_t n,
    int64_t* positions, uint32_t* rows,
) noexcept nogil:
    cdef int64_t i, position, m
    if n_partitions <= FEW_PARTITIONS:
        i = 0
        while i < n:
            m = min(n - i, <int64_t> VECTOR_ROWS)
            place_few(partitions + i, n_partitions, selection, start + i, m, positions, rows)
            i += m
    elif selection == NULL:
        for i in range(n):
            position = positions[partitions[i]]
            positions[partitions[i]] = position + 1
            rows[position] = <uint32_t> (start + i)
    else:
        for i in range(n):
            position = positions[partitions[i]]
            positions[partitions[i]] = position + 1
            rows[position] = selection[start + i]


cdef class HashPartitioner:
    """Assigns rows to partitions.

    Parameters
    ----------
    key_names : list of str
        Columns to hash; at least one.
    n_partitions : int
        1 to 4,096.
    between_tasks : bool
        Mix the hash once more. The exchanges and tables of the next task use the unmixed hash. Without this, the rows
        of one partition would use few of their slots.
    schema : Schema, optional
        Schema on which all producers of these rows agree; by default the first schema bound. Equal keys of
        different types must get the same partition, so keys of wider types hash as the declared types do.
    """

    def __init__(self, list key_names, int64_t n_partitions, bint between_tasks=False, Schema schema=None):
        if not key_names:
            raise PlanError("partitioning by hash needs at least one key column")
        if not 1 <= n_partitions <= PARTITIONS_MAX:
            raise PlanError(f"rows are hashed into 1 to {PARTITIONS_MAX} partitions, not {n_partitions}")
        self.key_names = [name.encode() for name in key_names]
        self.n_keys = <int32_t> len(self.key_names)
        self.keys = <int32_t*> struct_new(self.n_keys * sizeof(int32_t))
        self.declared_types = <DataType*> struct_new(self.n_keys * sizeof(DataType))
        self.given_types = <DataType*> struct_new(self.n_keys * sizeof(DataType))
        self.is_changed = <uint8_t*> struct_new(self.n_keys)
        self.n_partitions = n_partitions
        self.between_tasks = between_tasks
        self.declared = schema

    def __dealloc__(self):
        self.close()
        struct_free(self.keys)
        struct_free(self.declared_types)
        struct_free(self.given_types)
        struct_free(self.is_changed)

    cdef int open(self) except -1 nogil:
        self.scratch = <VectorScratch*> struct_new(sizeof(VectorScratch))
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        cdef int32_t i
        with gil:
            if self.declared is None:
                self.declared = Schema.wrap(schema)
            for i in range(self.n_keys):
                self.keys[i] = schema_index(schema, <bytes> self.key_names[i])
                if self.keys[i] < 0:
                    raise SchemaChangeError(f"key column {self.key_names[i].decode()!r} is missing from the input")
                self.choose_hash(schema, i)
        return 0

    cdef int choose_hash(self, const CSchema* schema, int32_t key) except -1:
        """Choose between the hash of the given type and that of the declared type."""
        cdef int32_t before = schema_index(self.declared.schema, <bytes> self.key_names[key])
        cdef DataType* given = &self.given_types[key]
        cdef DataType* declared = &self.declared_types[key]
        cdef DataType both
        given[0] = schema.fields[self.keys[key]].type
        declared[0] = self.declared.schema.fields[before].type if before >= 0 else given[0]
        self.is_changed[key] = not hash_survives(given, declared)
        if self.is_changed[key] and not type_widen(given, declared, &both):
            raise_types_differ(
                schema.fields[self.keys[key]].name, declared, given,
                b"rows are partitioned by its hash, and the types do not widen into one; cast it at the source",
            )
        return 0

    cdef bint hashes_as_given(self) noexcept nogil:
        cdef int32_t key
        for key in range(self.n_keys):
            if self.is_changed[key]:
                return False
        return not self.between_tasks

    cdef int hash(
        self, const Batch* batch, int64_t start, int64_t n, uint64_t* hashes, const MemoryAccount* account,
    ) except -1 nogil:
        cdef Vector vector
        cdef int32_t key
        cdef const uint32_t* rows = NULL
        if batch.selection != NULL:
            rows = batch.selection + start
        for key in range(self.n_keys):
            column_load(batch.columns[self.keys[key]], start, rows, n, self.scratch, &vector)
            if self.is_changed[key]:
                hash_as_declared(
                    &vector, &self.given_types[key], &self.declared_types[key], n, key > 0, hashes, account,
                )
            else:
                hash_vector(&vector, n, key > 0, hashes, account)
        if self.between_tasks:
            mix_again(hashes, n)
        return 0

    cdef int assign(
        self, const Batch* batch, int64_t start, int64_t n, uint16_t* partitions, const MemoryAccount* account,
    ) except -1 nogil:
        cdef uint64_t hashes[VECTOR_ROWS]
        self.hash(batch, start, n, hashes, account)
        return self.assign_hashed(hashes, n, partitions)

    cdef int assign_hashed(self, const uint64_t* hashes, int64_t n, uint16_t* partitions) except -1 nogil:
        scale(hashes, n, self.n_partitions, partitions)
        qc_check_partitions(partitions, n, self.n_partitions, b"a row's partition is one of the partitions")
        return 0

    cdef void close(self) noexcept nogil:
        struct_free(self.scratch)
        self.scratch = NULL
