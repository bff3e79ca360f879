"""Build the index of a join table."""

from libc.stdint cimport int32_t

from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.join.table cimport JoinTable
from qcore_ext.rows.column_store cimport ColumnStore

# A table over all rows of the store. `existence_only` says that probes only need to know whether a key occurs.
# `track_matches` says that probes mark the rows that they find.
cdef JoinTable* join_table_build(
    ColumnStore* store,
    const int32_t* key_columns, int32_t n_keys,
    bint existence_only,
    bint track_matches,
    MemoryAccount* account,
) except NULL nogil
