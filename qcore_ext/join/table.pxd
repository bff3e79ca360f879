"""The build side of a join, ready to be probed: flat columns and an index from keys to rows.

One thread makes it, then any number of drivers read it. The index is one of
- ranks: keys that code into a small range (rank_bitmap); dense keys, as most primary keys are;
- codes: open addressing over the keys' 64-bit codes (key_codes);
- hashes: open addressing over 64-bit hashes, keys compared afterwards; strings, wide decimals, many wide keys.
Rows of equal keys form a group: positions start..start+count of `group_rows` (NULL: of the rows themselves). Groups,
not chains: 124 against 195 ms for four rows a key, a million keys.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner
from qcore_ext.ground.probe cimport Group, RankWord, Slot
from qcore_ext.join.key_codes cimport KeyCoder

cpdef enum IndexKind:
    INDEX_NONE = 0              # no row has a key: nothing matches
    INDEX_RANKS = 1
    INDEX_CODES = 2
    INDEX_HASHES = 3
    INDEX_EVERY = 4             # no keys: all rows are one group, which everything matches (nested-loop join)


ctypedef struct JoinTable:
    Owner owner
    MemoryAccount* account      # owned
    int64_t n_rows
    int32_t n_columns
    Column** columns            # each owned; flat
    int32_t n_keys
    int32_t* key_columns        # positions in columns
    int index                   # IndexKind
    bint unique                 # no key occurs twice
    bint existence_only         # groups have no rows: only whether a key occurs is known
    KeyCoder coder              # ranks and codes
    Buffer* index_buffer        # owned; words or slots
    RankWord* words
    Slot* slots
    uint64_t slot_mask          # number of slots less one
    Buffer* starts_buffer       # owned; ranks of keys that occur twice: where each rank's group starts, and the end
    uint32_t* group_starts
    Buffer* rows_buffer         # owned
    uint32_t* group_rows
    Buffer* matched_buffer      # owned
    uint8_t* matched            # by row: 1 when a probe has found it; NULL if unused. Only ever set to 1.


ctypedef struct KeyConversion:
    bint is_needed
    DataType given              # of the probe's key
    DataType wanted             # of the table's


ctypedef struct KeyConversions:
    # Keys of other types than the table's are looked up as the table's (SPEC D6). A value outside that
    # type matches no key of the table.
    KeyConversion* keys
    char* values                # VECTOR_ROWS * 16 bytes a key
    uint8_t fits[VECTOR_ROWS + 16]      # 1: the table's types have every key of the row
    uint8_t fits_key[VECTOR_ROWS + 16]


ctypedef struct JoinLookup:
    # One prober's scratch memory for a vector of keys and what was found.
    Buffer* buffer              # owned
    int32_t n_keys
    VectorScratch* scratch      # by key
    Vector* keys
    uint64_t* codes
    uint32_t* slot_numbers
    Group* groups               # of the slot; right where flagged
    uint8_t* flags              # 1: the row's key occurs
    uint8_t* valid              # 1: the row has no null key
    bint some_null
    KeyConversions* conversions     # NULL: the keys are of the table's types
    Buffer* conversion_buffer   # owned
    uint32_t* hits              # positions of the flagged rows within the vector
    uint32_t* starts            # by hit
    uint32_t* counts            # by hit; of a table whose keys are unique, only once misses are spread among them
    int64_t n_hits


cdef JoinTable* join_table_new(MemoryAccount* account) except NULL nogil      # empty, for join_table_build
cdef int join_lookup_open(JoinLookup* lookup, int32_t n_keys, MemoryAccount* account) except -1 nogil
# Take keys of the types `given` for keys of the types `wanted`, by key; each two types widen into one.
cdef int join_lookup_convert(
    JoinLookup* lookup, MemoryAccount* account, const DataType* given, const DataType* wanted,
) except -1 nogil
cdef void join_lookup_close(JoinLookup* lookup) noexcept nogil
# Canonical vectors of n <= VECTOR_ROWS rows of the key columns (terms of column_load), into lookup.keys.
cdef int join_lookup_load(
    JoinLookup* lookup, Column** keys, int64_t start, const uint32_t* rows, int64_t n,
) except -1 nogil
# First slot of each key; `mixed`: they are hashes already.
cdef void find_first_slots(
    const uint64_t* keys, int64_t n, uint64_t mask, bint mixed, uint32_t* slot_numbers,
) noexcept nogil
# Look n <= VECTOR_ROWS rows of the key columns up (terms of column_load): flags, hits and n_hits.
cdef int join_table_find(
    const JoinTable* table, JoinLookup* lookup, Column** keys, int64_t start, const uint32_t* rows, int64_t n,
) except -1 nogil
# Starts of the hits' groups, and their counts unless no key occurs twice.
cdef void join_table_groups(const JoinTable* table, JoinLookup* lookup) noexcept nogil


cdef inline uint32_t group_row(const JoinTable* table, int64_t position) noexcept nogil:
    """Row of the build side at a position of group_rows."""
    return table.group_rows[position] if table.group_rows != NULL else <uint32_t> position
