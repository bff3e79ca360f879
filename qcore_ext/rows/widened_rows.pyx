"""Conversion of kept rows to a wider schema."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from qcore_ext.compute.widener cimport Widener
from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport VectorScratch, column_constant_null, column_ref
from qcore_ext.data.schema cimport (
    TYPE_NESTED, CSchema, DataType, schema_copy_field, schema_equal, schema_new, schema_set_field,
)
from qcore_ext.data.widening cimport schema_counterpart
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, buffer_new, buffer_unref, owner_ref, owner_unref,
)
from qcore_ext.rows.nested_rows cimport nested_fields, schema_has_nested
from qcore_ext.rows.column_store cimport (
    ColumnStore, column_store_append_batch, column_store_batch, column_store_keep_nested, column_store_of,
)


cdef int append_all(ColumnStore* store, Batch* batch, Account account) except -1 nogil:
    cdef Buffer* scratch = buffer_new(account.account, sizeof(VectorScratch))
    try:
        column_store_append_batch(store, batch, <VectorScratch*> scratch.data)
    finally:
        buffer_unref(scratch)
    return 0


cdef int32_t nested_counterpart(CSchema* held, CSchema* wide, int32_t i) noexcept nogil:
    """The position among the nested columns of `held` of the one that corresponds to column i of `wide`, or -1."""
    cdef int32_t at = schema_counterpart(held, wide, i)
    cdef int32_t before = 0
    cdef int32_t j
    if at < 0 or held.fields[at].type.id != TYPE_NESTED:
        return -1
    for j in range(at):
        before += held.fields[j].type.id == TYPE_NESTED
    return before


cdef CSchema* aligned_fields(CSchema* held, CSchema* wide) except NULL nogil:
    """The nested columns of `wide`, in its order, with the types that `held` has. Null where it has no nested one."""
    cdef CSchema* schema
    cdef bint done = False
    cdef DataType absent
    cdef int32_t n = 0
    cdef int32_t i, at
    memset(&absent, 0, sizeof(DataType))
    for i in range(wide.n_fields):
        n += wide.fields[i].type.id == TYPE_NESTED
    schema = schema_new(n)
    n = 0
    try:
        for i in range(wide.n_fields):
            if wide.fields[i].type.id != TYPE_NESTED:
                continue
            at = schema_counterpart(held, wide, i)
            if nested_counterpart(held, wide, i) >= 0:
                schema_copy_field(schema, n, &held.fields[at], NULL)
            else:
                schema_set_field(schema, n, wide.fields[i].name, &absent)
            n += 1
        done = True
    finally:
        if not done:
            owner_unref(<Owner*> schema)
    return schema


cdef Batch* aligned_part(Batch* part, int64_t n_rows, CSchema* aligned, CSchema* held, CSchema* wide) except NULL nogil:
    """A batch of nested columns with the columns of `aligned`. `part`: NULL if no nested column was kept."""
    cdef Batch* batch = batch_new(aligned, n_rows)
    cdef bint done = False
    cdef int32_t n = 0
    cdef int32_t i, at
    try:
        for i in range(wide.n_fields):
            if wide.fields[i].type.id != TYPE_NESTED:
                continue
            at = nested_counterpart(held, wide, i)
            if at < 0:
                batch.columns[n] = column_constant_null(&aligned.fields[n].type, n_rows)
            else:
                batch.columns[n] = column_ref(part.columns[at])
            n += 1
        if part != NULL:
            batch_select(batch, part.selection, part.n_selected, part.selection_owner)
        done = True
    finally:
        if not done:
            batch_unref(batch)
    return batch


cdef int keep_widened_part(
    ColumnStore* out, Batch* part, int64_t n_rows, CSchema* held, CSchema* wide, Account account,
) except -1 nogil:
    cdef CSchema* wanted = NULL
    cdef CSchema* aligned = NULL
    cdef Batch* given = NULL
    cdef Batch* widened = NULL
    try:
        wanted = nested_fields(wide)
        aligned = aligned_fields(held, wide)
        given = aligned_part(part, n_rows, aligned, held, wide)
        widened = batch_widen(given, wanted, account)
        column_store_keep_nested(out, <Owner*> widened)
    finally:
        owner_unref(<Owner*> wanted)
        owner_unref(<Owner*> aligned)
        batch_unref(given)
        batch_unref(widened)
    return 0


cdef int keep_widened_parts(
    ColumnStore* out, ColumnStore* store, CSchema* held, CSchema* wide, Account account,
) except -1 nogil:
    """Keep the nested columns of a store's rows in a store of the wide schema. New ones are null."""
    cdef Batch* part
    cdef int64_t i
    if not schema_has_nested(wide):
        return 0
    if not schema_has_nested(held):
        return keep_widened_part(out, NULL, store.n_rows, held, wide, account) if store.n_rows > 0 else 0
    if store.nested == NULL:
        return 0
    for i in range(store.nested.n_items):
        part = <Batch*> store.nested.items[i]
        keep_widened_part(out, part, part.n_rows, held, wide, account)
    return 0


cdef ColumnStore* column_store_widen(
    ColumnStore* store, CSchema* held, CSchema* wide, Account account,
) except NULL nogil:
    cdef ColumnStore* out = NULL
    cdef Batch* batch = NULL
    cdef Batch* widened = NULL
    cdef bint done = False
    if schema_equal(held, wide):
        return <ColumnStore*> owner_ref(<Owner*> store)
    try:
        out = column_store_of(account.account, wide)
        if store.n_rows > 0:
            batch = column_store_batch(store, held)
            widened = batch_widen(batch, wide, account)
            append_all(out, widened, account)
        keep_widened_parts(out, store, held, wide, account)
        done = True
    finally:
        batch_unref(batch)
        batch_unref(widened)
        if not done:
            owner_unref(<Owner*> out)
    return out


cdef Batch* batch_widen(Batch* batch, CSchema* wide, Account account) except NULL nogil:
    cdef Batch* out
    with gil:
        out = widen_once(batch, wide, account)
    return out


cdef Batch* widen_once(Batch* batch, CSchema* wide, Account account) except NULL:
    cdef Widener widener = Widener(account)
    widener.aim(batch.schema, wide)
    return widener.widen_batch(batch)
