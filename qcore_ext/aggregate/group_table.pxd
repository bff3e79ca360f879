"""Group table: keys to dense group numbers, a vector at a time, adapting to what the keys turn out to be.

Keys that pack into one or two words live in the slots of an open-addressing table; the first string that does not fit
turns it, once, into a table of hash tags over stored key columns. Group numbers never change, so whatever is indexed by
them stays as it is. In front of either, keys of few possible values are looked up in an array (direct_groups).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.aggregate.array_groups cimport ArrayGroups
from qcore_ext.aggregate.key_packing cimport KeyLayout
from qcore_ext.rows.key_columns cimport KeyColumns

cdef enum:
    GROUP_SCRATCH_BYTES = 262144        # of a scratch to be shared


ctypedef struct GroupTable:
    # Owned by one operator, used by one thread at a time.
    MemoryAccount* account      # borrowed
    KeyLayout layout
    DataType* types             # owned; n_columns
    int32_t n_columns
    bint is_part                # of a key space split among many tables
    int64_t n_groups
    int64_t n_slots             # a power of two, or 0 before the first insertion
    int64_t groups_limit        # groups that n_slots take without exceeding the load factor
    Buffer* slots               # owned; what lies in them depends on layout.mode
    Buffer* words               # owned; packed keys by group, or the hashes of stored ones
    Buffer* nulls               # owned; null masks of packed keys by group
    int64_t capacity            # groups that words and nulls have room for
    KeyColumns* stored          # owned; KEYS_STORED
    ArrayGroups* direct        # owned
    Buffer* scratch             # owned; vectors of the call under way; may be shared with tables of the same driver


# `scratch` NULL: a table of its own; else one of many parts of a key space, which share it and have no direct look-up.
cdef GroupTable* group_table_new(
    MemoryAccount* account, const DataType* types, int32_t n_columns, Buffer* scratch,
) except NULL nogil
cdef void group_table_free(GroupTable* table) noexcept nogil           # NULL is ignored
# The group of each of n <= VECTOR_ROWS rows; unseen keys make new groups, numbered on from table.n_groups.
cdef int group_table_assign(GroupTable* table, const Vector* keys, int64_t n, uint32_t* groups) except -1 nogil
# Forget all groups but keep the memory that no output column points into.
cdef int group_table_clear(GroupTable* table) except -1 nogil
# Keys of the n groups from start as a flat column; it may outlive the table.
cdef Column* group_table_column(
    GroupTable* table, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil
cdef int64_t group_table_slot_bytes(const GroupTable* table) noexcept nogil
