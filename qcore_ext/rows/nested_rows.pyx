"""Lists, structs and maps of kept rows. They stay in their batches, and pyarrow concatenates them once at the end."""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_select
from qcore_ext.data.capsule cimport PyBatch, batch_of_arrow
from qcore_ext.data.column cimport column_ref
from qcore_ext.data.schema cimport TYPE_NESTED, CSchema, schema_copy_field, schema_new
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    MemoryAccount, Owner, OwnerList, account_release, account_reserve, owner_unref,
)


cdef bint schema_has_nested(const CSchema* schema) noexcept nogil:
    cdef int32_t i
    for i in range(schema.n_fields):
        if schema.fields[i].type.id == TYPE_NESTED:
            return True
    return False


cdef CSchema* nested_fields(const CSchema* stored) except NULL nogil:
    cdef CSchema* schema
    cdef int32_t n_nested = 0
    cdef int32_t at = 0
    cdef int32_t i
    for i in range(stored.n_fields):
        n_nested += stored.fields[i].type.id == TYPE_NESTED
    schema = schema_new(n_nested)
    for i in range(stored.n_fields):
        if stored.fields[i].type.id == TYPE_NESTED:
            schema_copy_field(schema, at, &stored.fields[i], NULL)
            at += 1
    return schema


cdef Batch* nested_part(Batch* batch, const CSchema* stored, const int32_t* positions) except NULL nogil:
    cdef CSchema* schema = nested_fields(stored)
    cdef Batch* part = NULL
    cdef int32_t at = 0
    cdef int32_t i
    try:
        part = batch_new(schema, batch.n_rows)
    finally:
        owner_unref(<Owner*> schema)
    for i in range(stored.n_fields):
        if stored.fields[i].type.id == TYPE_NESTED:
            qc_check(0 <= positions[i] < batch.n_columns, b"a stored column is a column of the batch")
            part.columns[at] = column_ref(batch.columns[positions[i]])
            at += 1
    batch_select(part, batch.selection, batch.n_selected, batch.selection_owner)
    return part


cdef Batch* nested_concat(const OwnerList* parts, MemoryAccount* account) except NULL nogil:
    cdef Batch* whole
    qc_check(parts.n_items > 0, b"there is a part with nested columns")
    with gil:
        whole = concat_with_gil(parts, account)
    return whole


cdef Batch* concat_with_gil(const OwnerList* parts, MemoryAccount* account) except NULL:
    import pyarrow

    cdef int64_t held = 0
    cdef int64_t n_bytes, i
    batches = []
    try:
        for i in range(parts.n_items):
            batch = pyarrow.record_batch(PyBatch.wrap_for(<Batch*> parts.items[i], account))
            batches.append(batch)
            n_bytes = batch.nbytes
            account_reserve(account, n_bytes)
            held += n_bytes
        if len(batches) > 1:
            # The parts and the result are in memory at the same time.
            account_reserve(account, held)
            held *= 2
        rows = combine_batches(batches)
        batches.clear()
    finally:
        account_release(account, held)
    return batch_of_arrow(rows, account, True)


cdef object combine_batches(list batches):
    import pyarrow

    rows = pyarrow.Table.from_batches(batches).combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else column.combine_chunks() for column in rows.columns]
    return pyarrow.record_batch(columns, schema=rows.schema)
