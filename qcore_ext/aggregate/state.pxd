"""State of one aggregate for every group: made, updated by vectors, and read out as columns.

A state is one array over the groups (for moments, of three numbers). Updates take a vector of canonical values and the
group of each row; every kernel runs over one vector for one aggregate. A state's columns can be read back into another
state (`merging`), which is how partial aggregations meet. Nulls, filters and repeated values are taken out by `mask`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount

cdef enum:
    STATE_COLUMNS_MAX = 6
    # up to here kernels keep several copies of the sums, so that rows do not wait for one another
    FEW_GROUPS = 64


ctypedef struct AggregateState:
    # Belongs to one operator; used by one thread at a time.
    MemoryAccount* account      # borrowed
    uint8_t kind                # StateKind
    uint8_t rep                 # StateRep of the argument
    DataType type               # of the argument
    int64_t n_groups
    int64_t capacity
    Buffer* values              # owned
    Buffer* seen                # owned; one byte a group: has it a value? NULL while every group has
    Arena* arena                # owned; bytes of strings kept by MIN, MAX, FIRST and LAST


# PlanError is the caller's business: kind and type are known to fit.
cdef int state_init(AggregateState* state, MemoryAccount* account, int kind, const DataType* type) except -1 nogil
cdef void state_free(AggregateState* state) noexcept nogil         # of a zeroed or initialised one
cdef int state_clear(AggregateState* state) except -1 nogil        # no groups; columns made before stay valid
cdef int state_rep(const DataType* type) noexcept nogil            # -1: no aggregate takes such values
# Values of n rows in the state's rep, in `out`; `room` (VECTOR_ROWS * 8 bytes) is used when they must be widened. A
# wide decimal stays narrow (REP_I64) when it comes so.
cdef void state_widen(const Vector* vector, int64_t n, char* room, Vector* out) noexcept nogil

# n <= VECTOR_ROWS rows: groups[i] < n_groups is the group of row i, NULL: all are of group 0. `argument` is widened
# (NULL for COUNT of rows; two vectors of doubles for COMOMENTS); its own validity is not looked at: bit i of `mask`
# says whether row i takes part, NULL: all do.
cdef int state_update(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* argument,
    const uint8_t* mask,
) except -1 nogil
# The same for rows that are states: vectors of the columns state_column gave, `arguments[0..n_columns)`, widened.
cdef int state_merge(
    AggregateState* state, int64_t n_groups, const uint32_t* groups, int64_t n, const Vector* arguments,
    const uint8_t* mask,
) except -1 nogil
# Give groups up to n_groups an (empty) state.
cdef int state_extend(AggregateState* state, int64_t n_groups) except -1 nogil

cdef int state_n_columns(int kind) noexcept nogil                  # 3 for moments, 6 for comoments, else 1
# Type of column `column` of such a state over values of `type`.
cdef void state_column_type(int kind, const DataType* type, int32_t column, DataType* out) noexcept nogil
# Column `column` of the state of the n groups from start.
cdef Column* state_column(
    AggregateState* state, int32_t column, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil
