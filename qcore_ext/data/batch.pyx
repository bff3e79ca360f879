"""A batch: columns of equal length, a schema, and an optional selection."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.column cimport Column, column_bytes, column_bytes_about, column_slice, column_unref, columns_take
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.check cimport qc_check_selection
from qcore_ext.ground.memory cimport MemoryAccount, Owner, owner_ref, owner_unref, struct_free, struct_new


cdef void batch_free(Owner* self) noexcept nogil:
    cdef Batch* batch = <Batch*> self
    cdef int32_t i
    for i in range(batch.n_columns):
        column_unref(batch.columns[i])
    owner_unref(<Owner*> batch.schema)
    owner_unref(batch.selection_owner)
    struct_free(batch)


cdef Batch* batch_new(CSchema* schema, int64_t n_rows) except NULL nogil:
    cdef Batch* batch = <Batch*> struct_new(sizeof(Batch) + schema.n_fields * sizeof(Column*))
    batch.owner.references = 1
    batch.owner.release = batch_free
    batch.schema = <CSchema*> owner_ref(<Owner*> schema)
    batch.n_rows = n_rows
    batch.n_selected = n_rows
    batch.n_columns = schema.n_fields
    batch.part = NO_PART
    batch.columns = <Column**> (batch + 1)
    return batch


cdef void batch_select(Batch* batch, const uint32_t* selection, int64_t n_selected, Owner* owner) noexcept nogil:
    if selection != NULL:
        qc_check_selection(selection, n_selected, batch.n_rows, b"a selection ascends and selects rows of its batch")
    owner_ref(owner)
    owner_unref(batch.selection_owner)
    batch.selection_owner = owner
    batch.selection = selection
    batch.n_selected = n_selected


cdef Batch* batch_take(
    Batch* batch, const uint32_t* rows, int64_t n, Owner* rows_owner, MemoryAccount* account,
) except NULL nogil:
    cdef Batch* out = batch_new(batch.schema, n)
    cdef bint done = False
    try:
        columns_take(batch.columns, batch.n_columns, rows, n, rows_owner, account, out.columns)
        done = True
    finally:
        if not done:
            out.n_columns = 0       # columns_take has dropped the columns that it made
            batch_unref(out)
    return out


cdef int64_t batch_selected_below(const Batch* batch, int64_t position, int64_t limit) noexcept nogil:
    cdef const uint32_t* rows = batch.selection + position
    cdef int64_t low = 0
    cdef int64_t high = min(batch.n_selected - position, limit)
    cdef int64_t middle
    while low < high:               # rows[:low] are below the limit, rows[high] is not or is the end
        middle = (low + high + 1) >> 1
        if rows[middle - 1] < limit:
            low = middle
        else:
            high = middle - 1
    return low


cdef Batch* batch_compact(Batch* batch, MemoryAccount* account) except NULL nogil:
    if batch.selection == NULL:
        return batch_ref(batch)
    return batch_take(batch, batch.selection, batch.n_selected, batch.selection_owner, account)


cdef Batch* batch_with_schema(Batch* batch, CSchema* schema) except NULL nogil:
    cdef Batch* out = batch_new(schema, batch.n_rows)
    cdef int32_t i
    for i in range(batch.n_columns):
        out.columns[i] = <Column*> owner_ref(<Owner*> batch.columns[i])
    batch_select(out, batch.selection, batch.n_selected, batch.selection_owner)
    return out


cdef Batch* batch_slice(Batch* batch, int64_t start, int64_t n) except NULL nogil:
    cdef Batch* out = batch_new(batch.schema, n)
    cdef int32_t i
    cdef bint done = False
    try:
        for i in range(batch.n_columns):
            out.columns[i] = column_slice(batch.columns[i], start, n)
        done = True
    finally:
        if not done:
            batch_unref(out)
    return out


cdef inline int64_t selected_bytes(const Batch* batch, int64_t total) noexcept nogil:
    """The share of the selected rows in a total over all rows."""
    if batch.selection == NULL:
        return total
    return <int64_t> (<double> total * batch.n_selected / batch.n_rows)


cdef int64_t batch_bytes(const Batch* batch) noexcept nogil:
    cdef int64_t total = 0
    cdef int32_t i
    if batch.n_rows == 0:
        return 0
    for i in range(batch.n_columns):
        total += column_bytes(batch.columns[i])
    return selected_bytes(batch, total)


cdef int64_t batch_bytes_about(const Batch* batch) noexcept nogil:
    cdef int64_t total = 0
    cdef int32_t i
    if batch.n_rows == 0:
        return 0
    for i in range(batch.n_columns):
        total += column_bytes_about(batch.columns[i])
    return selected_bytes(batch, total)
