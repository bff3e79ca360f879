"""The output columns of a sort: flat columns that the drivers fill part by part, from sorted items.

The values of a key that is wholly in the prefix are read back from the prefix, if each code is of one value. Others
are gathered from the stores of the drivers' rows, by row number. The rows of all stores have numbers of one sequence,
in which each store begins at a multiple of CHUNK_ROWS: the store of a row is found by its chunk.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.radix cimport SortEntry

cdef enum:
    CHUNK_SHIFT = 16
    CHUNK_ROWS = 65536

cdef enum SortedSource:
    FROM_NOTHING = 0            # type null
    FROM_PREFIX = 1
    FROM_ROWS = 2
    FROM_NESTED = 3             # by positions, in pieces


ctypedef struct SortedColumn:
    int source                  # SortedSource
    SortKey key                 # FROM_PREFIX
    uint8_t phys
    int width                   # bytes a value
    Buffer* bases               # owned; FROM_ROWS: for each chunk the address of the value of row 0 of the sequence
    Buffer* bits                # owned; FROM_ROWS with nulls: for each chunk the bitmap of its rows, or NULL
    Column* column              # owned
    char* values                # borrowed from `column`
    uint64_t* validity          # borrowed from `column`; NULL: no nulls


ctypedef struct SortedColumns:
    # Zeroed: no columns.
    int32_t n_columns
    SortedColumn* columns       # owned
    bint has_rows               # whether a column is FROM_ROWS or FROM_NESTED
    int32_t in_place            # the column whose values overwrite the sorted words; -1: none
    Buffer* positions           # owned; FROM_NESTED: position of each row in the stores' concatenated rows; else NULL
    int64_t* moves              # owned; for each chunk the difference of a row's number and its position


# Allocate the columns of n_rows rows of the stores, whose rows begin at numbers firsts[..]. The first n_whole keys are
# wholly in the prefix. The schema is that of all stores. After an error sorted_columns_free must be called.
cdef int sorted_columns_init(
    SortedColumns* self, ColumnStore** stores, const int64_t* firsts, int64_t n_stores, CSchema* schema,
    const SortKey* keys, int32_t n_whole, int64_t n_rows, MemoryAccount* account,
) except -1 nogil
# The buffer of a column of 64-bit values from prefixes, so that words are sorted where their values will be; the caller
# owns a reference. NULL if there is no such column.
cdef Buffer* sorted_columns_share_words(SortedColumns* self) noexcept nogil
# Fill rows at..at+n of all columns. Words of a shared buffer are those of the same rows. Threads may fill different
# rows at the same time.
cdef int sorted_columns_fill_entries(
    SortedColumns* self, const SortEntry* items, int64_t at, int64_t n, const MemoryAccount* account,
) except -1 nogil
cdef int sorted_columns_fill_words(
    SortedColumns* self, const uint64_t* items, int64_t at, int64_t n, const MemoryAccount* account,
) except -1 nogil
# Free everything but the columns, once all are filled.
cdef void sorted_columns_seal(SortedColumns* self) noexcept nogil
cdef void sorted_columns_free(SortedColumns* self) noexcept nogil
