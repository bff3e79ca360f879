"""A sorted run: the rows of one driver and their order."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.radix cimport SortEntry


ctypedef struct SortRun:
    CSchema* schema             # owned; the schema of the rows
    ColumnStore* rows           # owned
    Buffer* entries             # owned; one SortEntry a row, in order
    Vector* keys                # owned; n_keys vectors over all rows
    int32_t n_keys


# The entries of rows 0..n of flat canonical columns, in order. The caller owns the buffer of SortEntry. Prefixes are
# laid out for the values of these rows; of `parts` only the column and the direction are read. Raises Cancelled if the
# account's query is stopped.
cdef Buffer* sort_columns(
    const Vector* keys, int64_t n, const SortKey* parts, int32_t n_keys, MemoryAccount* account,
) except NULL nogil

# Sort n entries, whose prefixes are set, in place. `other` has space for n. keys[k] has all rows' values of key k.
cdef void sort_entries(
    SortEntry* entries, SortEntry* other, int64_t n, const SortKey* parts, int32_t first_open, int32_t n_keys,
    const Vector* keys, const MemoryAccount* account,
) noexcept nogil

# A run of the rows. Takes over the reference to `rows`, also on error.
cdef SortRun* sort_run_new(
    ColumnStore* rows, CSchema* schema, const SortKey* parts, int32_t n_keys, MemoryAccount* account,
) except NULL nogil
cdef void sort_run_free(SortRun* run) noexcept nogil        # NULL is ignored
