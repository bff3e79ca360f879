"""A group set: a group table, and one state for each aggregate of its groups."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.aggregate.calls cimport CallCollection, CallState
from qcore_ext.aggregate.state cimport AggregateState
from qcore_ext.data.column cimport Column, Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.aggregate.call_input cimport AggregateInput
from qcore_ext.aggregate.holistic cimport HolisticValues
from qcore_ext.aggregate.group_table cimport GroupTable


ctypedef struct GroupPlan:
    # The data that all group sets of one operator share. Everything is borrowed.
    MemoryAccount* account
    int32_t n_vectors           # keys come first
    int32_t n_keys
    int32_t n_inputs
    int32_t n_states
    int32_t n_collections
    const CallCollection* collections
    const DataType* types       # the types of the vectors
    const DataType* state_types     # the argument type of each state
    const CallState* states
    AggregateInput* inputs
    bint merging                # the vectors after the keys are state columns, not arguments and filters


ctypedef struct GroupSet:
    const GroupPlan* plan       # borrowed
    GroupTable* table           # owned
    AggregateState* states      # owned; plan.n_states, in the same allocation after the struct
    HolisticValues* holistic   # owned; plan.n_collections, in the same allocation after the states


# `scratch` is passed to group_table_new.
cdef GroupSet* group_set_new(const GroupPlan* plan, Buffer* scratch) except NULL nogil
cdef void group_set_free(GroupSet* groups) noexcept nogil          # NULL is ignored
cdef int group_set_clear(GroupSet* groups) except -1 nogil
# Add n <= VECTOR_ROWS rows. `hashes` is for group_table_assign. `numbers` is scratch for the rows' groups.
cdef int group_set_add(
    GroupSet* groups, const Vector* vectors, const uint64_t* hashes, int64_t n, uint32_t* numbers,
) except -1 nogil
# The same for rows that are states: keys, then state columns.
cdef int group_set_merge(
    GroupSet* groups, const Vector* vectors, const uint64_t* hashes, int64_t n, uint32_t* numbers,
) except -1 nogil
# Merge only the states, for rows that are states of known groups. If `numbers` is NULL all rows belong to group 0.
cdef int group_set_merge_known(
    GroupSet* groups, const Vector* vectors, int64_t n, const uint32_t* numbers, int64_t n_groups,
) except -1 nogil
# Update only the states, for rows whose groups are known. If `numbers` is NULL all rows belong to group 0. If `bits` is
# not NULL only the rows of this bitmap count; then group_set_takes_mask must hold, and no group be new.
cdef int group_set_update(
    GroupSet* groups, const Vector* vectors, int64_t n, const uint32_t* numbers, int64_t n_groups, const uint8_t* bits,
) except -1 nogil
# Whether all states can be updated under a mask, at no higher cost for each row than without.
cdef bint group_set_takes_mask(const GroupSet* groups) noexcept nogil
# Give each group a state. Must be called before the states are read.
cdef int group_set_complete(GroupSet* groups, int64_t n_groups) except -1 nogil
