"""Build a join table: all drivers of the build side work on it together.

The last driver to deliver its rows begins the build. It goes through some of the following steps, in order. A step has
a number of items, and each driver claims one after the other. The driver that completes the last item of a step begins
the next step.

1. COPY: copy the drivers' rows into one store, and measure their keys. The kind of index is then chosen.
2. MARK (ranks): set the bits of a stripe's codes in the driver's own bitmap.
3. WRITE (ranks, no key occurs twice): write the number of each row at its rank.
4. COUNT: find the position of each key, its home slot or its rank, and count a stripe's rows in each partition. A
   partition is a range of positions that fits the second-level cache.
5. SCATTER: move a stripe's rows, as entries, to their partitions.
6. INSERT (codes, values, hashes): insert the entries of a partition into its slots. An entry that finds no free slot up
   to the end of its partition is *deferred*: the driver that ends the step inserts it after all others. If a key of an
   index of values or of wide codes occurs twice, another index is made, from step 4 on.
7. GROUP (some key occurs twice): write the row numbers of a partition's groups.
8. ORDER: copy the columns' rows in the order of the groups.

A partition gets its entries in the order of the rows, so the rows of a group ascend, whoever does the work.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.join.build_state cimport TableBuild
from qcore_ext.join.table cimport JoinLookup, JoinTable
from qcore_ext.rows.column_store cimport ColumnStore

cdef enum BuildWork:
    WORK_NONE = 0               # no item is left to claim
    WORK_DONE = 1               # one item is done
    WORK_ADVANCED = 2           # it was the last of its step, and the next step has begun
    WORK_COMPLETE = 3           # it was the last of all


# Begin to build a table of all rows of the inputs, whose references it takes over when it succeeds. Workers are
# numbered from 0. `existence_only` says that probes only need to know whether a key occurs. `values_suffice` says that
# they only need the values of the columns that are not keys. `track_matches` says that they mark the rows that they
# find.
cdef TableBuild* table_build_new(
    ColumnStore** inputs, int64_t n_inputs, int64_t n_workers,
    const int32_t* key_columns, int32_t n_keys,
    bint existence_only,
    bint values_suffice,
    bint track_matches,
    MemoryAccount* account,
) except NULL nogil
cdef void table_build_free(TableBuild* build) noexcept nogil
# Work on one item. Returns a BuildWork. The lookup is the worker's own and was opened for the keys. After an error of
# any worker the build may only be freed, and only when no worker is in this function.
cdef int table_build_work(
    TableBuild* build, int64_t worker, JoinLookup* lookup, MemoryAccount* account,
) except -1 nogil
# Whether an item of the current step is left to claim.
cdef bint table_build_has_work(const TableBuild* build) noexcept nogil
# The complete table; the caller owns it.
cdef JoinTable* table_build_take(TableBuild* build) noexcept nogil
