"""Group table: finds or creates the group of each key of a vector. Groups are numbered from 0 without gaps.

Keys that pack into one or two words are found by an open-addressing table of group numbers, and compared with the words
of the group. The first string that does not fit changes the table, once, to slots of hash tags with the keys in key
columns. Group numbers never change, so states
that are indexed by them stay valid. Keys with few possible values are looked up in an array first (array_groups). While
a lone integer key is dense, the array has all groups, and there are no slots.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.aggregate.array_groups cimport ArrayGroups
from qcore_ext.aggregate.key_packing cimport KeyLayout
from qcore_ext.rows.key_columns cimport KeyColumns
from qcore_ext.rows.known_texts cimport KnownTexts
from qcore_ext.rows.perfect_hash cimport PerfectHash

cdef enum:
    GROUP_SCRATCH_BYTES = 262144        # size of a scratch that tables share


ctypedef struct GroupTable:
    # Owned by one operator, used by one thread at a time.
    MemoryAccount* account      # borrowed
    KeyLayout layout
    DataType* types             # owned; n_columns
    int32_t n_columns
    bint is_part                # the table has one part of a key space that many tables share
    int64_t n_groups
    int64_t n_slots             # a power of two, or 0 before the first insertion
    int64_t groups_limit        # the number of groups at which n_slots reaches its load factor
    int64_t n_in_slots          # groups that the slots have: all, or fewer while the array has them
    int64_t try_array_at        # number of groups from which on a lone key is tried again as the code of an array
    Buffer* slots               # owned; of a packed key the group plus one, of a stored key a StoredSlot
    Buffer* words               # owned; the packed key of each group, or the hash of its stored key
    Buffer* nulls               # owned; the null mask of each packed key; NULL while no key has a null
    PerfectHash perfect         # of keys of one word
    KnownTexts texts            # of a lone text key
    int64_t capacity            # the number of groups for which words and nulls have space
    KeyColumns* stored          # owned; keys of mode KEYS_STORED
    ArrayGroups* direct         # owned; NULL for a part and for stored keys
    Buffer* scratch             # owned; GroupScratch; tables of the same driver may share it


# If `scratch` is NULL the table has all keys. Otherwise it has one part of a key space; the parts share `scratch` and
# have no array groups.
cdef GroupTable* group_table_new(
    MemoryAccount* account, const DataType* types, int32_t n_columns, Buffer* scratch,
) except NULL nogil
cdef void group_table_free(GroupTable* table) noexcept nogil           # NULL is ignored
# Find the group of each of n <= VECTOR_ROWS rows. A new key makes a new group with the number table.n_groups. `hashes`
# are those of the rows' keys by hash_vector, or NULL. Only stored keys use them; without, the table computes its own.
cdef int group_table_assign(
    GroupTable* table, const Vector* keys, const uint64_t* hashes, int64_t n, uint32_t* groups,
) except -1 nogil
# Find the groups of the rows of the bitmap `bits` in an array, without making groups. Returns False if one is not known
# there. The other rows get the number of any group.
cdef bint group_table_find_some(
    GroupTable* table, const Vector* keys, int64_t n, const uint8_t* bits, uint32_t* groups,
) noexcept nogil
# Remove all groups. The table keeps its memory, except for blocks to which output columns may point.
cdef int group_table_clear(GroupTable* table) except -1 nogil
# Key column `column` of the n groups from start, as a flat column that may outlive the table.
cdef Column* group_table_column(
    GroupTable* table, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil
# The share of the n rows whose groups, in `groups`, are among the newest 2 * VECTOR_ROWS groups.
cdef double group_table_recent_share(const GroupTable* table, const uint32_t* groups, int64_t n) noexcept nogil
# Whether groups are found in an array, without hashing.
cdef bint group_table_is_array(const GroupTable* table) noexcept nogil
cdef int64_t group_table_slot_bytes(const GroupTable* table) noexcept nogil
cdef int64_t group_table_word_bytes(const GroupTable* table) noexcept nogil     # of the groups' packed keys
