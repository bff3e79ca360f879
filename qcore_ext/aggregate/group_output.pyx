"""Groups as columns: the keys, and the states or the results of the aggregate calls."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from qcore_ext.aggregate.calls cimport (
    COLLECT_BETWEEN, COLLECT_LIST, COLLECT_TEXT, RESULT_COMOMENT, RESULT_HOLISTIC, RESULT_STATE, RESULT_SUM,
    CallResult, result_column,
)
from qcore_ext.aggregate.comoments cimport REGR_COUNT
from qcore_ext.aggregate.state cimport state_column, state_column_type, state_n_columns
from qcore_ext.aggregate.state_kind cimport STATE_COUNT
from qcore_ext.data.batch cimport batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, VectorScratch, column_constant_null, column_new_flat, column_unref
from qcore_ext.data.schema cimport Field, Schema, schema_copy_field, schema_new, schema_set_field, type_equal
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, Owner, buffer_new, buffer_unref, owner_unref, struct_free, struct_new
from qcore_ext.aggregate.holistic cimport holistic_column
from qcore_ext.aggregate.group_table cimport group_table_column
from qcore_ext.aggregate.radix_groups cimport radix_groups_complete, radix_groups_drop
from qcore_ext.aggregate.text_numbers cimport text_numbers_columns
from qcore_ext.rows.column_store cimport ColumnStore, column_store_append, column_store_batch, column_store_of
from qcore_ext.rows.key_columns cimport key_columns_column
from qcore_ext.rows.part_buffers cimport RADIX_PARTS


cdef int group_keys(
    GroupSet* groups, KeyColumns* passed, TextNumbers* texts, int64_t start, int64_t n, Column** columns,
    MemoryAccount* account,
) except -1 nogil:
    cdef int32_t i
    qc_check(start >= 0 and n >= 0, b"the groups to output are a range")
    for i in range(groups.plan.n_keys):
        if passed != NULL:
            columns[i] = key_columns_column(passed, i, start, n, account)
        else:
            columns[i] = group_table_column(groups.table, i, start, n, account)
    return text_numbers_columns(texts, columns) if texts != NULL else 0


cdef int group_states(
    GroupSet* groups, KeyColumns* passed, TextNumbers* texts, int64_t start, int64_t n, Column** columns,
    MemoryAccount* account,
) except -1 nogil:
    cdef int32_t n_keys = groups.plan.n_keys
    cdef Column** into
    cdef int32_t i, j
    group_keys(groups, passed, texts, start, n, columns, account)
    for i in range(groups.plan.n_states):
        into = columns + n_keys + groups.plan.states[i].column
        for j in range(state_n_columns(groups.plan.states[i].kind)):
            into[j] = state_column(&groups.states[i], j, start, n, account)
    return 0


cdef int group_results(
    GroupSet* groups, KeyColumns* passed, TextNumbers* texts, AggregateCalls calls, CSchema* schema, int64_t start,
    int64_t n, Column** columns, MemoryAccount* account,
) except -1 nogil:
    cdef int32_t n_keys = groups.plan.n_keys
    cdef int32_t i
    qc_check(n_keys + calls.n_results <= schema.n_fields, b"the output has a field for each key and result")
    group_keys(groups, passed, texts, start, n, columns, account)
    columns += n_keys
    for i in range(calls.n_results):
        if calls.results[i].how == RESULT_HOLISTIC:
            columns[i] = holistic_column(
                &groups.holistic[calls.results[i].states[0]], schema, n_keys + i, start, n, account
            )
            continue
        columns[i] = result_column(
            &calls.results[i], groups.states, &schema.fields[n_keys + i].type, start, n, account
        )
    return 0


cdef int append_groups(
    ColumnStore* rows, GroupSet* groups, bint as_states, TextNumbers* texts, AggregateCalls calls, CSchema* schema,
    int64_t start, int64_t n, VectorScratch* scratch,
) except -1 nogil:
    """Append n groups from start to `rows`."""
    cdef Column** columns = <Column**> struct_new(schema.n_fields * sizeof(Column*))
    cdef int64_t at = 0
    cdef int32_t i
    try:
        if as_states:
            group_states(groups, NULL, texts, start, n, columns, rows.account)
        else:
            group_results(groups, NULL, texts, calls, schema, start, n, columns, rows.account)
        while at < n:
            column_store_append(rows, columns, at, NULL, min(n - at, <int64_t> VECTOR_ROWS), scratch)
            at += VECTOR_ROWS
    finally:
        for i in range(schema.n_fields):
            column_unref(columns[i])
        struct_free(columns)
    return 0


cdef Batch* parts_batch(
    RadixGroups* radix, int64_t* part, int64_t* emitted, bint as_states, TextNumbers* texts, AggregateCalls calls,
    CSchema* schema, MemoryAccount* account,
) except NULL nogil:
    cdef Buffer* scratch = NULL
    cdef ColumnStore* rows = NULL
    cdef GroupSet* groups
    cdef int64_t n, n_groups
    try:
        scratch = buffer_new(account, sizeof(VectorScratch))
        rows = column_store_of(account, schema)
        while rows.n_rows < PART_ROWS_MIN:
            groups = radix.sets[part[0]]            # NULL: the part has no groups
            n_groups = groups.table.n_groups if groups != NULL else 0
            n = min(n_groups - emitted[0], <int64_t> OUTPUT_ROWS - rows.n_rows)
            if n > 0:
                append_groups(
                    rows, groups, as_states, texts, calls, schema, emitted[0], n, <VectorScratch*> scratch.data
                )
            emitted[0] += n
            if emitted[0] == n_groups:
                if part[0] == RADIX_PARTS - 1:
                    break
                radix_groups_drop(radix, part[0])
                part[0] += 1
                emitted[0] = 0
                radix_groups_complete(radix, part[0])
        return column_store_batch(rows, schema)
    finally:
        buffer_unref(scratch)
        owner_unref(<Owner*> rows)


cdef bint is_count(AggregateCalls calls, const CallResult* result) noexcept nogil:
    """Whether the result for no rows is 0. Otherwise it is null."""
    if result.how == RESULT_STATE:
        return calls.states[result.states[0]].kind == STATE_COUNT
    return result.how == RESULT_COMOMENT + REGR_COUNT


cdef Batch* result_of_no_rows(AggregateCalls calls, CSchema* schema, Account account) except NULL nogil:
    cdef Batch* out = batch_new(schema, 1)
    cdef Buffer* values
    cdef uint8_t* validity
    cdef DataType* type
    cdef int32_t i
    cdef bint done = False
    qc_check(calls.n_results <= schema.n_fields, b"the output has a field for each result")
    try:
        for i in range(calls.n_results):
            type = &schema.fields[i].type
            if is_count(calls, &calls.results[i]):
                out.columns[i] = column_new_flat(type, 1, False, account.account, &values, &validity)
                (<int64_t*> values.data)[0] = 0
            else:
                out.columns[i] = column_constant_null(type, 1)
        done = True
    finally:
        if not done:
            batch_unref(out)
    return out


cdef void state_arguments(
    AggregateCalls calls, const DataType* types, int32_t n_keys, bint merging, DataType* out,
) noexcept nogil:
    cdef int32_t i, argument
    for i in range(calls.n_states):
        argument = calls.inputs[calls.states[i].input].argument
        memset(&out[i], 0, sizeof(DataType))
        if merging:
            out[i] = types[n_keys + calls.states[i].column]
        elif argument >= 0:
            out[i] = types[argument]


cdef int widen_result_type(
    AggregateCalls calls, const CallResult* result, CSchema* declared, const DataType* types, const DataType* before,
    const DataType* after, DataType* type,
) except -1:
    """Widen the type of a result if its argument's type has become wider.

    `before` and `after` are the argument types of the states.
    """
    cdef int32_t state = result.states[0]
    cdef int32_t argument
    cdef DataType old, new
    if result.how == RESULT_HOLISTIC:
        argument = calls.inputs[calls.collections[state].input].argument
        if type_equal(&types[argument], &declared.fields[argument].type):
            return 0
        if calls.collections[state].kind not in (COLLECT_TEXT, COLLECT_BETWEEN, COLLECT_LIST):
            type[0] = types[argument]
        return 0
    if result.how != RESULT_STATE and result.how != RESULT_SUM:
        return 0
    state_column_type(calls.states[state].kind, &before[state], 0, &old)
    state_column_type(calls.states[state].kind, &after[state], 0, &new)
    # The declared type of a sum of integers is wide enough for all integers.
    if not type_equal(&old, &new):
        type[0] = new
    return 0


cdef Schema list_of_wider(
    AggregateCalls calls, int32_t number, CSchema* declared, const DataType* types, const Field* output,
):
    """A schema of one column: lists of the wider type, if call `number` makes lists of one; or else None."""
    import pyarrow

    cdef const CallResult* result = &calls.results[number]
    cdef int32_t argument
    cdef CSchema* parts
    if result.how != RESULT_HOLISTIC or calls.collections[result.states[0]].kind != COLLECT_LIST:
        return None
    argument = calls.inputs[calls.collections[result.states[0]].input].argument
    if type_equal(&types[argument], &declared.fields[argument].type):
        return None
    parts = schema_new(2)
    try:
        schema_copy_field(parts, 0, output, NULL)
        schema_set_field(parts, 1, b"element", &types[argument])
        lists, element = pyarrow.schema(Schema.wrap(parts))
    finally:
        owner_unref(<Owner*> parts)
    return Schema(pyarrow.schema([lists.with_type(pyarrow.list_(lists.type.value_field.with_type(element.type)))]))


cdef CSchema* output_for_types(
    AggregateCalls calls, CSchema* output, CSchema* declared, const DataType* types, int32_t n_keys, bint merging,
    bint as_states,
) except NULL:
    cdef DataType* before = <DataType*> struct_new((2 * calls.n_states + declared.n_fields + 1) * sizeof(DataType))
    cdef DataType* after = before + calls.n_states
    cdef DataType* given = after + calls.n_states
    cdef CSchema* wide = NULL
    cdef Schema lists
    cdef bint done = False
    cdef int32_t i, j
    try:
        for i in range(declared.n_fields):
            given[i] = declared.fields[i].type
        state_arguments(calls, given, n_keys, merging, before)
        state_arguments(calls, types, n_keys, merging, after)
        wide = schema_new(output.n_fields)
        for i in range(output.n_fields):
            lists = None
            if i >= n_keys and not as_states:
                lists = list_of_wider(calls, i - n_keys, declared, types, &output.fields[i])
            schema_copy_field(wide, i, &output.fields[i] if lists is None else &lists.schema.fields[0], NULL)
        for i in range(n_keys):
            if not type_equal(&types[i], &given[i]):
                wide.fields[i].type = types[i]
        if as_states:
            for i in range(calls.n_states):
                for j in range(state_n_columns(calls.states[i].kind)):
                    qc_check(
                        n_keys + calls.states[i].column + j < wide.n_fields, b"the output has a field for each state"
                    )
                    state_column_type(
                        calls.states[i].kind, &after[i], j, &wide.fields[n_keys + calls.states[i].column + j].type
                    )
        else:
            for i in range(calls.n_results):
                widen_result_type(
                    calls, &calls.results[i], declared, types, before, after, &wide.fields[n_keys + i].type
                )
        done = True
    finally:
        struct_free(before)
        if not done:
            owner_unref(<Owner*> wide)
    return wide
