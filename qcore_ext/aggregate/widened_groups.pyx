"""Conversion of groups to wider types, or to keys that have numbers for texts and back."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.aggregate.calls cimport CallState
from qcore_ext.aggregate.state cimport state_column_type, state_extend, state_n_columns
from qcore_ext.compute.widener cimport Widener
from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Vector, VectorScratch
from qcore_ext.data.load cimport column_load_narrow
from qcore_ext.data.schema cimport schema_new, schema_set_field, type_equal
from qcore_ext.data.widening cimport raise_types_differ, type_widen
from qcore_ext.ground.memory cimport Buffer, Owner, account_check, buffer_new, buffer_unref, owner_unref, struct_free
from qcore_ext.aggregate.call_input cimport aggregate_inputs_free
from qcore_ext.aggregate.group_output cimport group_states
from qcore_ext.aggregate.group_set cimport GroupPlan, group_set_free, group_set_merge
from qcore_ext.aggregate.group_table cimport group_table_assign, group_table_column
from qcore_ext.aggregate.radix_groups cimport radix_groups_free
from qcore_ext.aggregate.text_numbers cimport text_numbers_free, text_numbers_put
from qcore_ext.rows.key_columns cimport (
    key_columns_append, key_columns_column, key_columns_free, key_columns_reserve,
)
from qcore_ext.rows.part_buffers cimport RADIX_PARTS

cdef enum:
    PIECE_ROWS = 65536          # groups to widen at a time


cdef CSchema* states_schema(
    const CSchema* names, const DataType* keys, int32_t n_keys, const CallState* states, int32_t n_states,
    const DataType* state_types,
) except NULL nogil:
    cdef CSchema* schema
    cdef DataType type
    cdef int32_t n_columns = n_keys
    cdef int32_t i, column
    cdef bint done = False
    for i in range(n_states):
        n_columns += state_n_columns(states[i].kind)
    schema = schema_new(n_columns)
    try:
        for i in range(n_keys):
            schema_set_field(schema, i, names.fields[i].name, &keys[i])
        for i in range(n_states):
            for column in range(state_n_columns(states[i].kind)):
                state_column_type(states[i].kind, &state_types[i], column, &type)
                schema_set_field(schema, n_keys + states[i].column + column, b"an aggregate's state", &type)
        done = True
    finally:
        if not done:
            owner_unref(<Owner*> schema)
    return schema


cdef CSchema* types_schema(const DataType* types, int32_t n_columns) except NULL nogil:
    cdef CSchema* schema = schema_new(n_columns)
    cdef bint done = False
    cdef int32_t i
    try:
        for i in range(n_columns):
            schema_set_field(schema, i, b"an aggregate's value", &types[i])
        done = True
    finally:
        if not done:
            owner_unref(<Owner*> schema)
    return schema


cdef Widener new_widener(CSchema* held, CSchema* wide, Account account):
    cdef Widener widener = Widener(account)
    widener.aim(held, wide)
    return widener


ctypedef struct WidenedScratch:
    # One vector for each column of a batch.
    Vector* vectors
    VectorScratch* columns
    uint32_t numbers[VECTOR_ROWS]


cdef Buffer* scratch_new(int32_t n_columns, Account account) except NULL nogil:
    cdef Buffer* buffer = buffer_new(
        account.account, sizeof(WidenedScratch) + (n_columns + 1) * (sizeof(Vector) + sizeof(VectorScratch)) + 64
    )
    cdef WidenedScratch* scratch = <WidenedScratch*> buffer.data
    scratch.columns = <VectorScratch*> (scratch + 1)
    scratch.vectors = <Vector*> (scratch.columns + n_columns + 1)
    return buffer


cdef int load(Batch* batch, int64_t start, int64_t n, WidenedScratch* scratch) except -1 nogil:
    """Load n rows from start, a multiple of 8, or one row from anywhere."""
    cdef uint32_t row = <uint32_t> start
    cdef int32_t i
    for i in range(batch.n_columns):
        column_load_narrow(
            batch.columns[i], start, &row if n == 1 else NULL, n, &scratch.columns[i], &scratch.vectors[i]
        )
    return 0


cdef Batch* set_batch(
    GroupSet* source, KeyColumns* passed, TextNumbers* texts, CSchema* held, int64_t start, int64_t n,
    Account account,
) except NULL nogil:
    """The keys and states of n groups as a batch."""
    cdef Batch* batch = batch_new(held, n)
    cdef bint done = False
    try:
        group_states(source, passed, texts, start, n, batch.columns, account.account)
        done = True
    finally:
        if not done:
            batch_unref(batch)
    return batch


cdef bint counts_by_number(const GroupPlan* plan) noexcept nogil:
    """Whether distinct or kept values know their group by its number."""
    cdef int32_t i
    for i in range(plan.n_inputs):
        if plan.inputs[i].pairs != NULL:
            return True
    return plan.n_collections > 0


cdef int merge_batch(
    Batch* batch, Widener widener, GroupSet* target, TextNumbers* texts, WidenedScratch* scratch,
) except -1 nogil:
    cdef Batch* widened = widener.widen_batch(batch)
    # A table numbers the new keys of a vector out of order if two of them have one hash.
    cdef int64_t n_most = 1 if counts_by_number(target.plan) else VECTOR_ROWS
    cdef int64_t start = 0
    cdef int64_t n
    try:
        while start < widened.n_rows:
            account_check(target.plan.account)
            n = min(widened.n_rows - start, n_most)
            load(widened, start, n, scratch)
            if texts != NULL:
                text_numbers_put(texts, scratch.vectors, n)
            group_set_merge(target, scratch.vectors, NULL, n, scratch.numbers)
            start += n
    finally:
        batch_unref(widened)
    return 0


cdef int group_set_widen(
    GroupSet* source, HeldGroups* held, CSchema* narrow, GroupSet* target, TextNumbers* texts, CSchema* wide,
    Account account,
) except -1:
    """Merge the groups of one of the held sets into another set."""
    cdef Widener widener = new_widener(narrow, wide, account)
    cdef int64_t n_groups = held.passed.n_rows if held.passed != NULL else source.table.n_groups
    with nogil:
        merge_set(source, n_groups, held, narrow, target, texts, widener, account)
    return 0


cdef int merge_set(
    GroupSet* source, int64_t n_groups, HeldGroups* held, CSchema* narrow, GroupSet* target, TextNumbers* texts,
    Widener widener, Account account,
) except -1 nogil:
    cdef Buffer* buffer
    cdef Batch* batch
    cdef int64_t start = 0
    cdef int64_t n
    cdef int32_t i
    for i in range(source.plan.n_states):
        state_extend(&source.states[i], n_groups)
    buffer = scratch_new(narrow.n_fields, account)
    try:
        while start < n_groups:
            n = min(n_groups - start, <int64_t> PIECE_ROWS)
            batch = set_batch(source, held.passed, held.texts, narrow, start, n, account)
            try:
                merge_batch(batch, widener, target, texts, <WidenedScratch*> buffer.data)
            finally:
                batch_unref(batch)
            start += n
    finally:
        buffer_unref(buffer)
    return 0


cdef int add_batch(
    Batch* batch, Widener widener, GroupTable* table, KeyColumns* rows, WidenedScratch* scratch,
) except -1 nogil:
    cdef Batch* widened = widener.widen_batch(batch)
    cdef int64_t start = 0
    cdef int64_t n
    try:
        while start < widened.n_rows:
            n = min(widened.n_rows - start, <int64_t> VECTOR_ROWS)
            load(widened, start, n, scratch)
            if table != NULL:
                account_check(table.account)
                group_table_assign(table, scratch.vectors, NULL, n, scratch.numbers)
            else:
                account_check(rows.account)
                key_columns_append(rows, scratch.vectors, NULL, n)
            start += n
    finally:
        batch_unref(widened)
    return 0


cdef int widen_columns(
    GroupTable* table, GroupTable* wide_table, KeyColumns* rows, KeyColumns* wide_rows, CSchema* held, CSchema* wide,
    Account account,
) except -1:
    """Copy all groups of `table` to `wide_table`. If `table` is NULL, copy all rows of `rows` to `wide_rows`."""
    cdef Widener widener = new_widener(held, wide, account)
    with nogil:
        copy_columns(table, wide_table, rows, wide_rows, held, widener, account)
    return 0


cdef int copy_columns(
    GroupTable* table, GroupTable* wide_table, KeyColumns* rows, KeyColumns* wide_rows, CSchema* held,
    Widener widener, Account account,
) except -1 nogil:
    cdef Buffer* buffer
    cdef Batch* batch
    cdef int64_t total = table.n_groups if table != NULL else rows.n_rows
    cdef int64_t start = 0
    cdef int64_t n
    cdef int32_t i
    buffer = scratch_new(held.n_fields, account)
    try:
        while start < total:
            n = min(total - start, <int64_t> PIECE_ROWS)
            batch = batch_new(held, n)
            try:
                for i in range(held.n_fields):
                    if table != NULL:
                        batch.columns[i] = group_table_column(table, i, start, n, account.account)
                    else:
                        batch.columns[i] = key_columns_column(rows, i, start, n, account.account)
                add_batch(batch, widener, wide_table, wide_rows, <WidenedScratch*> buffer.data)
            finally:
                batch_unref(batch)
            start += n
    finally:
        buffer_unref(buffer)
    return 0


cdef int group_table_widen(GroupTable* source, GroupTable* target, Account account) except -1:
    cdef CSchema* held = types_schema(source.types, source.n_columns)
    cdef CSchema* wide = NULL
    try:
        wide = types_schema(target.types, target.n_columns)
        widen_columns(source, target, NULL, NULL, held, wide, account)
    finally:
        owner_unref(<Owner*> held)
        owner_unref(<Owner*> wide)
    return 0


cdef CSchema* stored_schema(const KeyColumns* rows) except NULL nogil:
    cdef CSchema* schema = schema_new(rows.n_columns)
    cdef bint done = False
    cdef int32_t i
    try:
        for i in range(rows.n_columns):
            schema_set_field(schema, i, b"an aggregate's value", &rows.columns[i].type)
        done = True
    finally:
        if not done:
            owner_unref(<Owner*> schema)
    return schema


cdef int key_columns_widen(KeyColumns* source, KeyColumns* target, Account account) except -1:
    cdef CSchema* held = stored_schema(source)
    cdef CSchema* wide = NULL
    try:
        wide = stored_schema(target)
        key_columns_reserve(target, source.n_rows)
        widen_columns(NULL, NULL, source, target, held, wide, account)
    finally:
        owner_unref(<Owner*> held)
        owner_unref(<Owner*> wide)
    return 0


cdef int32_t first_change(CSchema* declared, CSchema* loaded) except -2:
    cdef const DataType* type
    cdef DataType both
    cdef int32_t found = -1
    cdef int32_t i
    for i in range(declared.n_fields):
        type = &declared.fields[i].type
        if type_equal(&loaded.fields[i].type, type):
            continue
        if found < 0:
            found = i
        if not type_widen(type, &loaded.fields[i].type, &both):
            raise_types_differ(
                loaded.fields[i].name, type, &loaded.fields[i].type,
                b"groups cannot be made of both types; cast the column to one type at its source",
            )
    return found


cdef int held_groups_move(
    HeldGroups* held, const DataType* state_types, GroupSet* target, const DataType* types, TextNumbers* texts,
    CSchema* loaded, Account account,
) except -1:
    cdef const GroupPlan* plan = target.plan
    cdef CSchema* narrow = states_schema(loaded, held.types, plan.n_keys, plan.states, plan.n_states, state_types)
    cdef CSchema* wide = NULL
    cdef int32_t i
    try:
        wide = states_schema(loaded, types, plan.n_keys, plan.states, plan.n_states, plan.state_types)
        if held.radix != NULL:
            for i in range(RADIX_PARTS):
                if held.radix.sets[i] != NULL:
                    group_set_widen(held.radix.sets[i], held, narrow, target, texts, wide, account)
            return 0
        group_set_widen(held.groups, held, narrow, target, texts, wide, account)
        for i in range(plan.n_inputs):
            if held.inputs[i].pairs != NULL:
                group_table_widen(held.inputs[i].pairs, plan.inputs[i].pairs, account)
        for i in range(plan.n_collections):
            key_columns_widen(held.groups.holistic[i].rows, target.holistic[i].rows, account)
    finally:
        owner_unref(<Owner*> narrow)
        owner_unref(<Owner*> wide)
    return 0


cdef void held_groups_free(HeldGroups* held) noexcept nogil:
    radix_groups_free(held.radix)
    group_set_free(held.groups)
    key_columns_free(held.passed)
    text_numbers_free(held.texts)
    aggregate_inputs_free(held.inputs, held.n_inputs)
    struct_free(held.types)
