"""Conversion of groups to wider types, or to keys that have numbers for texts and back (text_numbers).

Keys, states, distinct values and kept values are read as columns, widened, and added to new tables. Groups keep their
numbers, because different values stay different when they are widened.
"""

from libc.stdint cimport int32_t

from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Account
from qcore_ext.aggregate.call_input cimport AggregateInput
from qcore_ext.aggregate.group_set cimport GroupSet
from qcore_ext.aggregate.group_table cimport GroupTable
from qcore_ext.aggregate.radix_groups cimport RadixGroups
from qcore_ext.aggregate.text_numbers cimport TextNumbers
from qcore_ext.rows.key_columns cimport KeyColumns


ctypedef struct HeldGroups:
    # The groups of an operator, made for narrower types. Everything is owned. With radix groups there are no distinct
    # values and no kept values.
    DataType* types             # the vectors' types, then the argument type of each state
    AggregateInput* inputs
    int32_t n_inputs
    GroupSet* groups
    RadixGroups* radix          # finished; NULL if the groups are not partitioned
    KeyColumns* passed          # the groups' keys; NULL if the table has them
    TextNumbers* texts          # numbered texts of the groups' keys, or NULL


# The first column of `loaded` whose type differs from the declared type; -1 if there is none. Raises SchemaChangeError
# if there is no type to which both types can be widened.
cdef int32_t first_change(CSchema* declared, CSchema* loaded) except -2
# Move the held groups to `target`, an empty set whose plan has wider types, and to the inputs of that plan.
# `state_types` are the argument types of the held states. `types` are the wider types of the vectors, and `texts`
# numbers the texts of the target's keys, or is NULL. `loaded` has the columns' names, for errors.
cdef int held_groups_move(
    HeldGroups* held, const DataType* state_types, GroupSet* target, const DataType* types, TextNumbers* texts,
    CSchema* loaded, Account account,
) except -1
# Copy all groups of a table to an empty table of wider types.
cdef int group_table_widen(GroupTable* source, GroupTable* target, Account account) except -1
cdef void held_groups_free(HeldGroups* held) noexcept nogil
