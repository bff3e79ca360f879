"""The state of one aggregate for all groups. It is updated by vectors of rows and read as columns.

A state is one array over the groups; for moments an element has three numbers. Sums of integers and decimals have 64
bits until one of them might not fit, then 128: with 64 bits more groups are in the caches. An update takes a vector
of canonical values and the group of each row. A kernel runs over one vector for one aggregate. `mask` excludes the
rows with nulls, the rows that a filter rejects, and the repeated values of distinct calls.

The columns of a state can be merged into another state. A final aggregation merges the states of partial ones.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount
from qcore_ext.ground.wide cimport int128

cdef enum:
    STATE_COLUMNS_MAX = 6
    # Up to here kernels keep several copies of the sums, so that an addition does not wait for the one before it.
    FEW_GROUPS = 64


ctypedef struct AggregateState:
    # Belongs to one operator. One thread uses it at a time.
    MemoryAccount* account      # borrowed
    uint8_t kind                # StateKind
    uint8_t rep                 # StateRep of the argument
    DataType type               # type of the argument
    bint is_wide                # SUM of integers and decimals: the sums have 128 bits, not 64
    uint64_t magnitude          # no 64-bit sum is above it, or below its negative
    int64_t n_groups
    int64_t capacity
    Buffer* values              # owned
    Buffer* seen                # owned; one byte a group: whether it has a value; NULL while all groups have one
    Arena* arena                # owned; bytes of strings that MIN, MAX, FIRST and LAST keep


# The caller has checked that the kind takes values of the type (AggregateCalls.check_types).
cdef int state_init(AggregateState* state, MemoryAccount* account, int kind, const DataType* type) except -1 nogil
cdef void state_free(AggregateState* state) noexcept nogil         # the state must be zeroed or initialised
cdef int state_clear(AggregateState* state) except -1 nogil        # removes all groups; its columns stay valid
cdef int state_rep(const DataType* type) noexcept nogil            # -1 if no aggregate takes values of the type
# Convert the values of n rows to the state's rep. `scratch` (VECTOR_ROWS * 8 bytes) takes values that must be widened.
# A vector of wide decimals that is narrow (PHYS_I64) stays narrow.
cdef void state_widen(const Vector* vector, int64_t n, char* scratch, Vector* out) noexcept nogil

# Update the state by n <= VECTOR_ROWS rows. groups[i] < n_groups is the group of row i; if groups is NULL all rows
# belong to group 0, and COUNT, and SUM of PHYS_I64 and PHYS_F64, take n <= CHECK_ROWS. `argument` has the values,
# converted by state_widen: NULL for COUNT of rows, two vectors of doubles for COMOMENTS. Its validity is ignored: row i
# takes part if bit i of `mask` is 1. If mask is NULL all rows take part. `is_whole`: each new group has a row that
# takes part.
cdef int state_update(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask, bint is_whole,
) except -1 nogil
# The same for rows that are states. arguments[0..n_columns) are the columns of state_column, converted by state_widen.
cdef int state_merge(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* arguments,
    const uint8_t* mask,
) except -1 nogil
# Extend the state to n_groups groups. New groups have no value.
cdef int state_extend(AggregateState* state, int64_t n_groups) except -1 nogil

# The sum of a group, in a state of SUM of integers or decimals.
cdef inline int128 state_sum(const AggregateState* state, int64_t group) noexcept nogil:
    if state.is_wide:
        return (<const int128*> state.values.data)[group]
    return (<const int64_t*> state.values.data)[group]

cdef int state_n_columns(int kind) noexcept nogil                  # 3 for moments, 6 for comoments, otherwise 1
# The type of column `column` of a state of this kind over values of `type`.
cdef void state_column_type(int kind, const DataType* type, int32_t column, DataType* out) noexcept nogil
# Column `column` of the state of the n groups from start.
cdef Column* state_column(
    AggregateState* state, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil
