"""The memory that the rows of a batch take as Arrow, computed before they are converted."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.array_charge cimport taken_bytes
from qcore_ext.data.batch cimport Batch, batch_bytes, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport (
    CONSTANT, DICTIONARY, FLAT, STORE_FIXED_BINARY, STORE_LARGE_UTF8, STORE_UTF8, Column, column_ref,
)
from qcore_ext.data.schema cimport PHYS_VIEW
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner, buffer_new, buffer_unref

cdef enum:
    VIEW_BYTES = 16             # of a string without its bytes, in any layout
    FIXED_BYTES = 16            # of a value of fixed width, at most


cdef int64_t row_of(const Column* column, int64_t row, const Column** flat) noexcept nogil:
    """Position of the row in the column's FLAT or CONSTANT values; -1: the row is null. Sets `flat` to these values."""
    qc_check(0 <= row < column.n_rows, b"a row to measure is a row of the column")
    flat[0] = column
    if column.encoding == DICTIONARY:
        if not is_valid(column.validity, row):
            return -1
        flat[0] = column.base
        row = column.indices[row]
        qc_check(row < flat[0].n_rows, b"an index of a row to measure is a row of the base")
    if flat[0].encoding == CONSTANT:
        row = 0
    return row if is_valid(flat[0].validity, row) else -1


cdef int64_t text_bytes(const Column* flat, int64_t row) noexcept nogil:
    cdef int64_t at = flat.offset + row
    if flat.storage == STORE_UTF8:
        return (<const int32_t*> flat.values)[at + 1] - (<const int32_t*> flat.values)[at]
    if flat.storage == STORE_LARGE_UTF8:
        return (<const int64_t*> flat.values)[at + 1] - (<const int64_t*> flat.values)[at]
    if flat.storage == STORE_FIXED_BINARY:
        return flat.width
    return (<const uint32_t*> flat.values)[4 * at]      # every kind of view begins with the length


cdef int64_t nested_row_bytes(const Column* column, const ArrowSchema* layout, int64_t row) noexcept nogil:
    cdef const Column* flat
    cdef int64_t at = row_of(column, row, &flat)
    if at < 0:
        return 0
    return taken_bytes(<const ArrowArray*> flat.values, layout, flat.offset + at, 1)


cdef int64_t row_bytes(const Batch* batch, int64_t row) noexcept nogil:
    """Bytes of one physical row of the batch."""
    cdef const Column* column
    cdef const Column* flat
    cdef int64_t total = 0
    cdef int64_t at
    cdef int32_t i
    for i in range(batch.n_columns):
        column = batch.columns[i]
        if batch.schema.fields[i].nested != NULL:
            total += nested_row_bytes(column, batch.schema.fields[i].nested, row)
        elif column.type.phys == PHYS_VIEW:
            at = row_of(column, row, &flat)
            total += VIEW_BYTES + (text_bytes(flat, at) if at >= 0 else 0)
        else:
            total += FIXED_BYTES
    return total


cdef bint is_long(const Batch* batch, int32_t column) noexcept nogil:
    """Whether values of the column may have any length."""
    return batch.schema.fields[column].nested != NULL or batch.columns[column].type.phys == PHYS_VIEW


cdef bint repeats_values(const Batch* batch) noexcept nogil:
    """Whether rows may take more bytes than the columns have, because many rows may share a long value."""
    cdef int32_t i
    for i in range(batch.n_columns):
        if batch.columns[i].encoding != FLAT and is_long(batch, i):
            return True
    return False


cdef bint has_long_values(const Batch* batch) noexcept nogil:
    cdef int32_t i
    for i in range(batch.n_columns):
        if is_long(batch, i):
            return True
    return False


cdef int64_t bound_of(const Batch* batch) noexcept nogil:
    """An upper bound of the bytes of all rows, if it is known without reading each row; otherwise -1."""
    cdef int64_t total = 0
    cdef int32_t i
    if repeats_values(batch):
        return -1
    if batch.selection == NULL:
        return batch_bytes(batch) + batch.n_columns * FIXED_BYTES * batch.n_selected
    for i in range(batch.n_columns):
        if is_long(batch, i):
            return -1
        total += FIXED_BYTES * batch.n_selected
    return total


cdef int64_t laid_out_bytes(const Batch* batch, int64_t first, int64_t n) noexcept nogil:
    cdef int64_t total = 0
    cdef int64_t k
    qc_check(0 <= first and first + n <= batch.n_selected, b"the rows to measure are selected rows of the batch")
    if first == 0 and n == batch.n_selected:
        total = bound_of(batch)
        if total >= 0:
            return total
        total = 0
    for k in range(first, first + n):
        total += row_bytes(batch, batch.selection[k] if batch.selection != NULL else k)
    return total


cdef int64_t rows_that_fit(const Batch* batch, int64_t first, int64_t n_bytes) noexcept nogil:
    cdef int64_t total
    cdef int64_t k = first
    if not has_long_values(batch):
        return batch.n_selected - first
    if first == 0:
        total = bound_of(batch)
        if total >= 0 and total <= n_bytes:
            return batch.n_selected
    total = 0
    while k < batch.n_selected:
        total += row_bytes(batch, batch.selection[k] if batch.selection != NULL else k)
        if total > n_bytes and k > first:
            break
        k += 1
    return k - first


cdef int64_t nested_rows_that_fit(
    const Batch* batch, const Column* column, const ArrowSchema* layout, int64_t first, int64_t n_bytes,
) noexcept nogil:
    cdef int64_t total = 0
    cdef int64_t k = first
    while k < batch.n_selected:
        total += nested_row_bytes(column, layout, batch.selection[k] if batch.selection != NULL else k)
        if total > n_bytes and k > first:
            break
        k += 1
    return k - first


cdef Batch* rows_part(Batch* batch, int64_t first, int64_t n, MemoryAccount* account) except NULL nogil:
    qc_check(0 <= first and first + n <= batch.n_selected, b"the rows of a part are selected rows of the batch")
    cdef Batch* part = batch_new(batch.schema, batch.n_rows)
    cdef Buffer* rows = NULL
    cdef int64_t i
    cdef bint done = False
    try:
        for i in range(batch.n_columns):
            part.columns[i] = column_ref(batch.columns[i])
        if batch.selection != NULL:
            batch_select(part, batch.selection + first, n, batch.selection_owner)
        else:
            rows = buffer_new(account, max(n, <int64_t> 1) * sizeof(uint32_t))
            for i in range(n):
                (<uint32_t*> rows.data)[i] = <uint32_t> (first + i)
            batch_select(part, <const uint32_t*> rows.data, n, <Owner*> rows)
        done = True
    finally:
        buffer_unref(rows)
        if not done:
            batch_unref(part)
    return part
