"""Groups and what is kept of them under wider types than they were made for. SPEC D6.

Keys, states, values met and values kept are read out as columns, widened, and taken in again. Groups keep their
numbers: widening makes no two values equal.
"""

from libc.stdint cimport int32_t

from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Account
from qcore_ext.aggregate.call_input cimport AggregateInput
from qcore_ext.aggregate.group_set cimport GroupSet
from qcore_ext.aggregate.group_table cimport GroupTable
from qcore_ext.aggregate.radix_groups cimport RadixGroups
from qcore_ext.rows.key_columns cimport KeyColumns


ctypedef struct HeldGroups:
    # What an operator made for narrower types; owned. Values are met or kept only where there are no parts.
    DataType* types             # of the vectors, then of what each state is made for
    AggregateInput* inputs
    int32_t n_inputs
    GroupSet* groups
    RadixGroups* radix          # finished, or NULL
    KeyColumns* passed          # the groups' keys, or NULL


# The first column of `loaded` that is of another type than declared; -1: none. SchemaChangeError for one that does not
# widen into one type with it.
cdef int32_t first_change(CSchema* declared, CSchema* loaded) except -2
# Take all that is held in `target`, an empty set whose plan is one of wider types, and in its plan's inputs.
# `state_types` are those that held states are made for; `loaded` has the names of what is read, for errors.
cdef int held_groups_move(
    HeldGroups* held, const DataType* state_types, GroupSet* target, CSchema* loaded, Account account,
) except -1
# All groups of a table in an empty one of wider types.
cdef int group_table_widened(GroupTable* source, GroupTable* target, Account account) except -1
cdef void held_groups_free(HeldGroups* held) noexcept nogil
