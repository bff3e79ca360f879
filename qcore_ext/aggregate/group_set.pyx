"""A group set: a group table, and one state for each aggregate of its groups."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.aggregate.calls cimport CallInput
from qcore_ext.aggregate.state cimport (
    AggregateState, state_clear, state_extend, state_free, state_init, state_merge, state_n_columns, state_update,
    state_widen,
)
from qcore_ext.aggregate.state_kind cimport STATE_COUNT, STATE_SUM
from qcore_ext.data.column cimport Vector, VectorScratch
from qcore_ext.ground.memory cimport Buffer, struct_free, struct_new
from qcore_ext.aggregate.call_input cimport AggregateInput, aggregate_input_load
from qcore_ext.aggregate.holistic cimport (
    HolisticValues, holistic_append, holistic_clear, holistic_finish, holistic_free, holistic_init,
)
from qcore_ext.aggregate.group_table cimport (
    group_table_assign, group_table_clear, group_table_free, group_table_new,
)


cdef GroupSet* group_set_new(const GroupPlan* plan, Buffer* scratch) except NULL nogil:
    cdef int64_t states_bytes = plan.n_states * <int64_t> sizeof(AggregateState)
    cdef GroupSet* groups = <GroupSet*> struct_new(
        sizeof(GroupSet) + states_bytes + plan.n_collections * <int64_t> sizeof(HolisticValues)
    )
    cdef const CallInput* input
    cdef int32_t i
    cdef bint done = False
    groups.plan = plan
    groups.states = <AggregateState*> (groups + 1)
    groups.holistic = <HolisticValues*> (groups.states + plan.n_states)
    try:
        for i in range(plan.n_states):
            state_init(&groups.states[i], plan.account, plan.states[i].kind, &plan.state_types[i])
        for i in range(plan.n_collections):
            input = &plan.inputs[plan.collections[i].input].call
            holistic_init(&groups.holistic[i], plan.account, &plan.collections[i], input, plan.types)
        groups.table = group_table_new(plan.account, plan.types, plan.n_keys, scratch)
        done = True
    finally:
        if not done:
            group_set_free(groups)
    return groups


cdef void group_set_free(GroupSet* groups) noexcept nogil:
    cdef int32_t i
    if groups == NULL:
        return
    for i in range(groups.plan.n_states):
        state_free(&groups.states[i])
    for i in range(groups.plan.n_collections):
        holistic_free(&groups.holistic[i])
    group_table_free(groups.table)
    struct_free(groups)


cdef int group_set_clear(GroupSet* groups) except -1 nogil:
    cdef int32_t i
    for i in range(groups.plan.n_states):
        state_clear(&groups.states[i])
    for i in range(groups.plan.n_collections):
        holistic_clear(&groups.holistic[i])
    return group_table_clear(groups.table)


cdef int group_set_merge_known(
    GroupSet* groups, const Vector* vectors, int64_t n, const uint32_t* numbers, int64_t n_groups,
) except -1 nogil:
    cdef const GroupPlan* plan = groups.plan
    cdef VectorScratch scratch
    cdef Vector argument
    cdef const Vector* arguments
    cdef int32_t i
    for i in range(plan.n_states):
        arguments = vectors + plan.n_keys + plan.states[i].column
        if state_n_columns(plan.states[i].kind) == 1:
            state_widen(&arguments[0], n, scratch.values, &argument)
            arguments = &argument
        state_merge(&groups.states[i], n_groups, numbers, n, arguments, arguments[0].validity)
    return 0


cdef int group_set_update(
    GroupSet* groups, const Vector* vectors, int64_t n, const uint32_t* numbers, int64_t n_groups, const uint8_t* bits,
) except -1 nogil:
    cdef const GroupPlan* plan = groups.plan
    cdef AggregateInput* input
    cdef int32_t i
    for i in range(plan.n_inputs):
        aggregate_input_load(&plan.inputs[i], vectors, numbers, n_groups, n, bits)
    for i in range(plan.n_states):
        input = &plan.inputs[plan.states[i].input]
        if not input.nothing:
            state_update(
                &groups.states[i], n_groups, input.groups, input.n, input.vectors, input.mask, input.whole
            )
    for i in range(plan.n_collections):
        input = &plan.inputs[plan.collections[i].input]
        holistic_append(&groups.holistic[i], vectors, numbers, n, input.taken)
    return 0


cdef bint group_set_takes_mask(const GroupSet* groups) noexcept nogil:
    cdef const GroupPlan* plan = groups.plan
    cdef int32_t i
    if plan.merging or plan.n_collections > 0:
        return False
    for i in range(plan.n_inputs):
        if plan.inputs[i].call.distinct:
            return False
    for i in range(plan.n_states):
        if plan.states[i].kind != STATE_SUM and plan.states[i].kind != STATE_COUNT:
            return False
    return True


cdef int group_set_merge(
    GroupSet* groups, const Vector* vectors, const uint64_t* hashes, int64_t n, uint32_t* numbers,
) except -1 nogil:
    if groups.plan.n_keys == 0:
        return group_set_merge_known(groups, vectors, n, NULL, groups.table.n_groups)
    group_table_assign(groups.table, vectors, hashes, n, numbers)
    return group_set_merge_known(groups, vectors, n, numbers, groups.table.n_groups)


cdef int group_set_add(
    GroupSet* groups, const Vector* vectors, const uint64_t* hashes, int64_t n, uint32_t* numbers,
) except -1 nogil:
    if groups.plan.merging:
        return group_set_merge(groups, vectors, hashes, n, numbers)
    if groups.plan.n_keys == 0:
        return group_set_update(groups, vectors, n, NULL, 1, NULL)
    group_table_assign(groups.table, vectors, hashes, n, numbers)
    return group_set_update(groups, vectors, n, numbers, groups.table.n_groups, NULL)


cdef int group_set_complete(GroupSet* groups, int64_t n_groups) except -1 nogil:
    cdef int32_t i
    for i in range(groups.plan.n_states):
        state_extend(&groups.states[i], n_groups)
    for i in range(groups.plan.n_collections):
        holistic_finish(&groups.holistic[i], n_groups)
    return 0
