"""Groups as columns: the keys, and the states or the results of the aggregate calls."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.aggregate.calls cimport AggregateCalls
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Account, MemoryAccount
from qcore_ext.aggregate.group_set cimport GroupSet
from qcore_ext.aggregate.radix_groups cimport RadixGroups
from qcore_ext.aggregate.text_numbers cimport TextNumbers
from qcore_ext.rows.key_columns cimport KeyColumns

cdef enum:
    OUTPUT_ROWS = 65536         # groups of a batch, at most
    PART_ROWS_MIN = 32768       # parts with fewer groups share a batch


# Write the keys and states of n groups from start. The caller owns each column that is not NULL, also after an error.
# If `passed` is not NULL it has the keys, otherwise the set's table has them. If `texts` is not NULL the keys have
# numbers of its texts, and the columns the texts.
cdef int group_states(
    GroupSet* groups, KeyColumns* passed, TextNumbers* texts, int64_t start, int64_t n, Column** columns,
    MemoryAccount* account,
) except -1 nogil
# Write the keys and results of n groups from start, with the types of `schema`. The caller owns them as above, and
# `passed` and `texts` are as above.
cdef int group_results(
    GroupSet* groups, KeyColumns* passed, TextNumbers* texts, AggregateCalls calls, CSchema* schema, int64_t start,
    int64_t n, Column** columns, MemoryAccount* account,
) except -1 nogil
# The next groups of several small parts as one batch. `part` and `emitted` are the part whose groups are next and the
# number of its groups that were returned before. The part is complete. Parts without further groups are dropped, and
# those behind them completed. `as_states` as below.
cdef Batch* parts_batch(
    RadixGroups* radix, int64_t* part, int64_t* emitted, bint as_states, TextNumbers* texts, AggregateCalls calls,
    CSchema* schema, MemoryAccount* account,
) except NULL nogil
# The result row of an aggregation without keys that had no batch. Counts are 0, other results are null.
cdef Batch* result_of_no_rows(AggregateCalls calls, CSchema* schema, Account account) except NULL nogil
# Write the argument type of each state. If `merging`, `types` are the types of keys and state columns, otherwise those
# of keys, arguments and filters.
cdef void state_arguments(
    AggregateCalls calls, const DataType* types, int32_t n_keys, bint merging, DataType* out,
) noexcept nogil
# The schema `output`, which was made for inputs of the types `declared`, changed to inputs of the types `types`. Its
# columns are keys and states if `as_states`, otherwise keys and results.
cdef CSchema* output_for_types(
    AggregateCalls calls, CSchema* output, CSchema* declared, const DataType* types, int32_t n_keys, bint merging,
    bint as_states,
) except NULL
