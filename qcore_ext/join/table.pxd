"""Join table: the build side of a join, as flat columns and an index from keys to rows.

The drivers of the build side build it (table_build), then any number of drivers read it. The index is one of
- ranks: keys whose codes have a small range (rank_bitmap), such as most primary keys;
- codes: open addressing over the 64-bit codes of keys (key_codes), a cache line of slots at a time;
- values: the same, but a slot has the other columns of the row that has the key, if they fit 8 bytes (slot_values);
- wide codes: the same over codes of up to 96 bits, if no key occurs twice or only its occurrence counts;
- hashes: open addressing over 64-bit hashes, with a comparison of keys, for strings, wide decimals and many wide keys.

Rows with equal keys form a group: the positions start..start+count of `group_rows`, or of the rows if that is NULL.
Groups are faster than chains: 124 instead of 195 ms for a million keys with four rows each.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner
from qcore_ext.ground.probe cimport Group, RankWord, Slot
from qcore_ext.join.key_codes cimport KeyCoder
from qcore_ext.join.hashed_keys cimport HashedKeys

cdef enum:
    # find_first_slots with this mask gives the hashes of keys for the filter. The bits of filter_mask but the lowest 5
    # choose the word, the lowest 5 and the highest 5 the bits. The lowest bits are also the home slot.
    FILTER_HASHES = 0xFFFFFFFF


cpdef enum IndexKind:
    INDEX_NONE = 0              # no row has a key, so there are no matches
    INDEX_RANKS = 1
    INDEX_CODES = 2
    INDEX_HASHES = 3
    INDEX_EVERY = 4             # nested-loop join: all rows are one group that matches each probe row
    INDEX_WIDE_CODES = 5        # a slot's count is the high number of its code
    INDEX_VALUES = 6            # slots of codes have values instead of groups; no key occurs twice


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
    int64_t n_groups            # different keys; not set if existence_only
    bint existence_only         # the table knows whether a key occurs, but not its rows
    KeyCoder coder              # for ranks, codes, values and wide codes
    Buffer* index_buffer        # owned; has the words or the slots
    RankWord* words
    Slot* slots
    int32_t* value_shifts       # owned; of each column that is not a key: its first bit in a slot's value; else NULL
    uint64_t slot_mask          # number of slots minus one
    Buffer* filter_buffer       # owned; has filter
    uint32_t* filter            # several bits a slot, two of one word for each key. NULL if not useful
    uint64_t filter_mask        # number of its bits minus one; at most 27 of a hash's 32 bits
    Buffer* starts_buffer       # owned; has group_starts
    uint32_t* group_starts      # for ranks that are not unique: the start of each rank's group, and the last one's end
    Buffer* rows_buffer         # owned; has group_rows
    uint32_t* group_rows
    Buffer* matched_buffer      # owned; has matched
    uint8_t* matched            # one byte a row: 1 after a probe has found it. NULL if the join kind does not need it


ctypedef struct KeyConversion:
    bint is_needed
    DataType given              # type of the probe side's key
    DataType wanted             # type of the table's key


ctypedef struct KeyConversions:
    # Probe keys of other types than the table's are converted to the table's types. A value outside the
    # table's type matches no key.
    KeyConversion* keys
    char* values                # VECTOR_ROWS * 16 bytes a key
    uint8_t fits[VECTOR_ROWS + 16]      # 1 if all keys of the row are values of the table's types
    uint8_t fits_key[VECTOR_ROWS + 16]


ctypedef struct JoinLookup:
    # The scratch of one probe driver for a vector of keys, and the result of their lookup.
    Buffer* buffer              # owned; has the arrays
    int32_t n_keys
    VectorScratch* scratch      # one a key
    Vector* keys
    uint64_t* codes
    uint32_t* high_codes        # the high numbers of wide codes
    uint32_t* slot_numbers      # the slot of each row's key if its flag is 1
    Group* groups               # the group of each row's slot; valid if the row's flag is 1
    uint64_t* values            # the same memory: of an index of values, the value of each row's slot
    uint8_t* flags              # 1 if the row's key occurs
    uint8_t* valid              # 1 if the row has no null key
    bint some_null
    KeyConversions* conversions     # NULL if the keys have the table's types
    Buffer* conversion_buffer   # owned; has conversions
    uint32_t* hits              # positions of the flagged rows within the vector
    uint32_t* starts            # the start of each hit's group
    uint32_t* counts            # the number of rows of each hit's group; not set for unique keys before spread_misses
    int64_t n_hits
    int64_t rows_unfiltered     # rows to look up before the table's filter is tried again
    HashedKeys hashed           # of a table whose index is codes
    bint is_hashed              # slot_numbers has the numbers of the hashed keys instead, and groups is not set
    # The rows of a vector that pass the filter, one after the other.
    uint64_t* passed_codes
    Group* passed_groups
    uint32_t* passed_slots
    uint32_t* passed            # their positions within the vector
    uint8_t* passed_flags


cdef JoinTable* join_table_new(MemoryAccount* account) except NULL nogil      # an empty table for table_build
cdef int join_lookup_open(JoinLookup* lookup, int32_t n_keys, MemoryAccount* account) except -1 nogil
# Convert keys of the types `given` to the types `wanted`. For each key there must be a type to which both can be
# widened.
cdef int join_lookup_convert(
    JoinLookup* lookup, MemoryAccount* account, const DataType* given, const DataType* wanted,
) except -1 nogil
cdef void join_lookup_close(JoinLookup* lookup) noexcept nogil
# Load n <= VECTOR_ROWS rows of the key columns into lookup.keys. The arguments are those of column_load.
cdef int join_lookup_load(
    JoinLookup* lookup, Column** keys, int64_t start, const uint32_t* rows, int64_t n,
) except -1 nogil
# The home slot of each key. `mixed` says that the keys are hashes.
cdef void find_first_slots(
    const uint64_t* keys, int64_t n, uint64_t mask, bint mixed, uint32_t* slot_numbers,
) noexcept nogil
# Look up n <= VECTOR_ROWS rows of the key columns, and set flags, hits and n_hits. The arguments are those of
# column_load.
cdef int join_table_find(
    const JoinTable* table, JoinLookup* lookup, Column** keys, int64_t start, const uint32_t* rows, int64_t n,
) except -1 nogil
# Set the starts of the hits' groups, and their counts unless keys are unique, after n_rows rows were looked up.
cdef void join_table_groups(const JoinTable* table, JoinLookup* lookup, int64_t n_rows) noexcept nogil


cdef inline uint32_t group_row(const JoinTable* table, int64_t position) noexcept nogil:
    """The build row at a position of group_rows."""
    return table.group_rows[position] if table.group_rows != NULL else <uint32_t> position
