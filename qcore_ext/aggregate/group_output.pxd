"""Groups as columns: keys, and their aggregates' states or results."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.aggregate.calls cimport AggregateCalls
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Account, MemoryAccount
from qcore_ext.aggregate.group_set cimport GroupSet
from qcore_ext.rows.key_columns cimport KeyColumns

# Keys and states of n groups from start, each owned by the caller (also on error, where not NULL). `passed`: where the
# keys are instead of in the set's table, or NULL.
cdef int group_states(
    GroupSet* groups, KeyColumns* passed, int64_t start, int64_t n, Column** columns, MemoryAccount* account,
) except -1 nogil
# Keys and results, as fields of `schema`, likewise.
cdef int group_results(
    GroupSet* groups, AggregateCalls calls, CSchema* schema, int64_t start, int64_t n, Column** columns,
    MemoryAccount* account,
) except -1 nogil
# The one row of an aggregation without keys that never saw a batch: counts are 0, all else is null.
cdef Batch* results_of_nothing(AggregateCalls calls, CSchema* schema, Account account) except NULL nogil
# What the states of an operator's calls are made for, by state; `merging`: `types` are of keys and state columns.
cdef void state_arguments(
    AggregateCalls calls, const DataType* types, int32_t n_keys, bint merging, DataType* out,
) noexcept nogil
# `output`, made for inputs of the types `declared`, for those of `types`: keys and states (`as_states`), else keys and
# results. SchemaChangeError for lists of values, which are not widened.
cdef CSchema* output_for_types(
    AggregateCalls calls, CSchema* output, CSchema* declared, const DataType* types, int32_t n_keys, bint merging,
    bint as_states,
) except NULL
