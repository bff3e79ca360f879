"""Sums and counts of all rows of a batch, straight from its columns."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from qcore_ext.aggregate.calls cimport CallInput
from qcore_ext.aggregate.call_input cimport AggregateInput
from qcore_ext.aggregate.group_set cimport GroupPlan, GroupSet
from qcore_ext.aggregate.state cimport state_update
from qcore_ext.aggregate.state_kind cimport STATE_COUNT, STATE_SUM
from qcore_ext.compute.program cimport Output
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport FLAT, STORE_CANONICAL, Column
from qcore_ext.data.schema cimport PHYS_F64, PHYS_I64
from qcore_ext.ground.memory cimport CHECK_ROWS, account_check


cdef bint whole_columns_suit(const GroupPlan* plan) noexcept nogil:
    cdef const CallInput* call
    cdef int32_t i
    if plan.merging or plan.n_keys > 0 or plan.n_collections > 0:
        return False
    for i in range(plan.n_inputs):
        call = &plan.inputs[i].call
        if call.filter >= 0 or call.distinct or call.nulls:
            return False
        if call.argument >= 0 and (call.n_arguments != 1 or call.n_required != 1):
            return False
    for i in range(plan.n_states):
        if plan.states[i].kind != STATE_SUM and plan.states[i].kind != STATE_COUNT:
            return False
    return True


cdef const Column* argument_column(
    const GroupPlan* plan, const CallInput* call, const Batch* batch, const Output* outputs,
) noexcept nogil:
    """The argument's column, or NULL if no call reads it without a conversion. The call has an argument."""
    cdef int32_t at = outputs[call.argument].column if outputs != NULL else call.argument
    cdef int phys = plan.types[call.argument].phys
    cdef const Column* column
    if at < 0 or (phys != PHYS_I64 and phys != PHYS_F64):
        return NULL
    column = batch.columns[at]
    if column.encoding != FLAT or column.storage != STORE_CANONICAL or column.type.phys != phys:
        return NULL
    return column


cdef bint whole_columns_add(GroupSet* groups, const Batch* batch, const Output* outputs) except -1 nogil:
    cdef const GroupPlan* plan = groups.plan
    cdef AggregateInput* input
    cdef const Column* column
    cdef const uint8_t* mask
    cdef int64_t start = 0
    cdef int64_t n
    cdef int32_t i
    for i in range(plan.n_inputs):
        input = &plan.inputs[i]
        if input.call.argument >= 0 and argument_column(plan, &input.call, batch, outputs) == NULL:
            return False
    while start < batch.n_rows:
        account_check(plan.account)
        # Blocks begin at a byte of the bitmap.
        n = min(batch.n_rows - start, <int64_t> CHECK_ROWS)
        for i in range(plan.n_states):
            input = &plan.inputs[plan.states[i].input]
            mask = NULL
            if input.call.argument >= 0:
                column = argument_column(plan, &input.call, batch, outputs)
                input.vectors[0].phys = column.type.phys
                input.vectors[0].values = (<const int64_t*> column.values) + column.offset + start
                mask = column.validity + (start >> 3) if column.validity != NULL else NULL
            state_update(&groups.states[i], 1, NULL, n, input.vectors, mask, mask == NULL)
        start += n
    return True
