"""Conversion of kept rows to a wider schema. SPEC D6."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from qcore_ext.compute.widener cimport Widener
from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, VectorScratch, column_constant_null
from qcore_ext.data.schema cimport TYPE_NESTED, CSchema, DataType, schema_equal
from qcore_ext.data.widening cimport raise_types_differ, schema_counterpart
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, OwnerList, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.rows.nested_rows cimport nested_fields
from qcore_ext.rows.column_store cimport (
    ColumnStore, column_store_append, column_store_column, column_store_keep_nested, column_store_new,
)


cdef int refuse_new_nested(CSchema* held, CSchema* wide) except -1 nogil:
    """Raise SchemaChangeError if `wide` has a nested column that the kept batches of nested columns do not have."""
    cdef DataType absent
    cdef int32_t i, at
    for i in range(wide.n_fields):
        if wide.fields[i].type.id != TYPE_NESTED:
            continue
        at = schema_counterpart(held, wide, i)
        if at < 0 or held.fields[at].type.id != TYPE_NESTED:
            memset(&absent, 0, sizeof(DataType))
            raise_types_differ(
                wide.fields[i].name, &absent, &wide.fields[i].type,
                b"rows kept before have no such column of lists, structs or maps; declare the column at the source",
            )
    return 0


cdef ColumnStore* store_of(CSchema* schema, Account account) except NULL nogil:
    """An empty store for rows of a schema."""
    cdef DataType* types = <DataType*> struct_new((schema.n_fields + 1) * sizeof(DataType))
    cdef int32_t i
    try:
        for i in range(schema.n_fields):
            types[i] = schema.fields[i].type
        return column_store_new(account.account, types, schema.n_fields)
    finally:
        struct_free(types)


cdef Batch* batch_of(ColumnStore* store, CSchema* schema) except NULL nogil:
    """The store's rows as a batch. Its nested columns are null, because the store keeps them in a separate list."""
    cdef Batch* batch = batch_new(schema, store.n_rows)
    cdef bint done = False
    cdef int32_t i
    try:
        for i in range(batch.n_columns):
            if schema.fields[i].type.id == TYPE_NESTED:
                batch.columns[i] = column_constant_null(&schema.fields[i].type, store.n_rows)
            else:
                batch.columns[i] = column_store_column(store, i)
        done = True
    finally:
        if not done:
            batch_unref(batch)
    return batch


cdef int append_all(ColumnStore* store, Batch* batch, Account account) except -1 nogil:
    cdef Buffer* scratch = buffer_new(account.account, sizeof(VectorScratch))
    cdef int64_t start = 0
    try:
        while start < batch.n_rows:
            column_store_append(
                store, batch.columns, start, NULL, min(batch.n_rows - start, <int64_t> VECTOR_ROWS),
                <VectorScratch*> scratch.data,
            )
            start += VECTOR_ROWS
    finally:
        buffer_unref(scratch)
    return 0


cdef int keep_widened_parts(ColumnStore* out, const OwnerList* parts, CSchema* wide, Account account) except -1 nogil:
    """Keep batches of nested columns in a store of the wide schema."""
    cdef CSchema* schema = nested_fields(wide)
    cdef Batch* part
    cdef int64_t i
    try:
        for i in range(parts.n_items):
            part = batch_widen(<Batch*> parts.items[i], schema, account)
            try:
                column_store_keep_nested(out, <Owner*> part)
            finally:
                batch_unref(part)
    finally:
        owner_unref(<Owner*> schema)
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
    refuse_new_nested(held, wide)
    try:
        out = store_of(wide, account)
        if store.n_rows > 0:
            batch = batch_of(store, held)
            widened = batch_widen(batch, wide, account)
            append_all(out, widened, account)
        if store.nested != NULL:
            keep_widened_parts(out, store.nested, wide, account)
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
