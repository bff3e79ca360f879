"""Export of a batch as an Arrow struct array."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport (
    VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector, VectorScratch, column_bytes, view_data,
)
from qcore_ext.data.load cimport column_load
from qcore_ext.data.nested cimport nested_export
from qcore_ext.data.row_bytes cimport laid_out_bytes
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_I64, PHYS_NONE, PHYS_VIEW, TYPE_DECIMAL, TYPE_NESTED, VARIANT_LARGE, VARIANT_VIEW, DataType,
    phys_width,
)
from qcore_ext.ground.arrow_abi cimport ArrowArray
from qcore_ext.ground.bitmap cimport bitmap_bytes, is_valid
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, account_check, account_release, account_reserve, buffer_grow, buffer_new, buffer_new_zeroed,
    buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.status cimport raise_execution

cdef enum:
    MAX_BUFFERS = 4
    PLAIN_BYTES_MAX = 2147483647


ctypedef struct ExportedArray:
    # The private_data of an exported column: its buffers, in Arrow's order.
    Buffer* held[MAX_BUFFERS]
    const void* pointers[MAX_BUFFERS]


cdef void release_column(ArrowArray* array) noexcept nogil:
    cdef ExportedArray* exported = <ExportedArray*> array.private_data
    cdef int64_t i
    for i in range(MAX_BUFFERS):
        buffer_unref(exported.held[i])
    struct_free(exported)
    array.release = NULL


cdef void release_struct(ArrowArray* array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i].release != NULL:
            array.children[i].release(array.children[i])
        free(array.children[i])
    free(array.children)
    free(array.buffers)
    array.release = NULL


cdef int64_t put_validity(const Vector* vector, int64_t start, int64_t n, uint8_t* out) noexcept nogil:
    """Write the vector's validity at row `start` (a multiple of VECTOR_ROWS). Returns the number of nulls."""
    cdef int64_t i, nulls = 0
    if vector.validity == NULL:
        memset(out + (start >> 3), 0xFF, (n + 7) >> 3)
        return 0
    memcpy(out + (start >> 3), vector.validity, (n + 7) >> 3)
    for i in range(n):
        nulls += not is_valid(vector.validity, i)
    return nulls


cdef void put_bits(const uint8_t* values, int64_t start, int64_t n, uint8_t* out) noexcept nogil:
    cdef int64_t i
    memset(out + (start >> 3), 0, (n + 7) >> 3)
    for i in range(n):
        out[(start + i) >> 3] |= <uint8_t> ((values[i] & 1) << (i & 7))


cdef void put_wide(const int64_t* values, int64_t n, int64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[2 * i] = values[i]
        out[2 * i + 1] = values[i] >> 63


cdef int put_strings(
    ExportedArray* exported, const Vector* vector, uint8_t variant, int64_t start, int64_t n, int64_t* used,
) except -1 nogil:
    """Append n strings to the column; *used counts the bytes in its data buffer."""
    cdef const StringView* views = <const StringView*> vector.values
    cdef StringView* out_views = <StringView*> exported.held[1].data
    cdef int32_t* offsets = <int32_t*> exported.held[1].data
    cdef int64_t* long_offsets = <int64_t*> exported.held[1].data
    cdef int32_t* location
    cdef int64_t i, length, total = 0
    cdef char* at
    for i in range(n):
        if is_valid(vector.validity, i) and (variant != VARIANT_VIEW or views[i].length > VIEW_INLINE_BYTES):
            total += views[i].length
    if variant != VARIANT_LARGE and used[0] + total > PLAIN_BYTES_MAX:
        return raise_execution(b"a batch holds more than 2 GiB in one string column; use a smaller batch_rows")
    if used[0] + total > exported.held[2].size:
        buffer_grow(&exported.held[2], used[0], 2 * (used[0] + total))
    at = exported.held[2].data + used[0]
    for i in range(n):
        length = views[i].length if is_valid(vector.validity, i) else 0
        if variant == VARIANT_VIEW:
            memset(&out_views[start + i], 0, sizeof(StringView))
            if length > 0 or is_valid(vector.validity, i):
                out_views[start + i] = views[i]
            if length > VIEW_INLINE_BYTES:
                location = <int32_t*> &out_views[start + i].pointer
                location[0] = 0
                location[1] = <int32_t> (at - exported.held[2].data)
                memcpy(at, view_data(&views[i]), length)
                at += length
            continue
        memcpy(at, view_data(&views[i]), length)
        at += length
        if variant == VARIANT_LARGE:
            long_offsets[start + i + 1] = at - exported.held[2].data
        else:
            offsets[start + i + 1] = <int32_t> (at - exported.held[2].data)
    used[0] = at - exported.held[2].data
    return 0


cdef int64_t value_bytes(const DataType* type, int64_t n_rows) noexcept nogil:
    if type.phys == PHYS_BOOL:
        return bitmap_bytes(n_rows)
    if type.id == TYPE_DECIMAL:
        return n_rows * 16
    if type.phys == PHYS_VIEW and type.variant != VARIANT_VIEW:
        return (n_rows + 1) * (8 if type.variant == VARIANT_LARGE else 4)
    return n_rows * phys_width(type.phys)


cdef int fill_column(
    Batch* batch, Column* column, const DataType* type, VectorScratch* scratch, ExportedArray* exported,
    ArrowArray* out,
) except -1 nogil:
    cdef Vector vector
    cdef int64_t start = 0
    cdef int64_t n
    cdef int64_t used = 0
    cdef int width = phys_width(type.phys)
    out.null_count = 0
    while start < batch.n_selected:
        n = min(<int64_t> VECTOR_ROWS, batch.n_selected - start)
        if batch.selection != NULL:
            column_load(column, 0, batch.selection + start, n, scratch, &vector)
        else:
            column_load(column, start, NULL, n, scratch, &vector)
        out.null_count += put_validity(&vector, start, n, <uint8_t*> exported.held[0].data)
        if type.phys == PHYS_VIEW:
            put_strings(exported, &vector, type.variant, start, n, &used)
        elif type.phys == PHYS_BOOL:
            put_bits(<const uint8_t*> vector.values, start, n, <uint8_t*> exported.held[1].data)
        elif type.id == TYPE_DECIMAL and vector.phys == PHYS_I64:
            put_wide(<const int64_t*> vector.values, n, <int64_t*> exported.held[1].data + 2 * start)
        elif width > 0:
            memcpy(exported.held[1].data + start * width, vector.values, n * width)
        start += n
    if type.phys == PHYS_VIEW and type.variant == VARIANT_VIEW:
        (<int64_t*> exported.held[3].data)[0] = used        # lengths of the data buffers
    return 0


cdef int64_t text_bytes(const Batch* batch, const Column* column) noexcept nogil:
    """Approximate bytes of the strings of the selected rows, used as the first size of their buffer."""
    cdef int64_t n_bytes = column_bytes(column) + column_bytes(column) // 64
    if batch.n_rows > 0 and batch.selection != NULL:
        n_bytes = <int64_t> (<double> n_bytes * batch.n_selected / batch.n_rows)
    return max(n_bytes, batch.n_selected)


cdef int export_column(
    Batch* batch, Column* column, const DataType* type, VectorScratch* scratch, ArrowArray* out,
) except -1 nogil:
    cdef ExportedArray* exported = <ExportedArray*> struct_new(sizeof(ExportedArray))
    cdef int64_t i
    memset(out, 0, sizeof(ArrowArray))
    out.private_data = exported
    out.release = release_column
    out.length = batch.n_selected
    out.buffers = exported.pointers
    if type.phys == PHYS_NONE:
        out.null_count = batch.n_selected
        return 0
    out.n_buffers = 2
    exported.held[0] = buffer_new_zeroed(NULL, bitmap_bytes(batch.n_selected))
    exported.held[1] = buffer_new(NULL, value_bytes(type, batch.n_selected))
    if type.phys == PHYS_VIEW:
        memset(exported.held[1].data, 0, 8)
        exported.held[2] = buffer_new(NULL, text_bytes(batch, column))
        out.n_buffers = 3
        if type.variant == VARIANT_VIEW:
            exported.held[3] = buffer_new_zeroed(NULL, 8)
            out.n_buffers = 4
    fill_column(batch, column, type, scratch, exported, out)
    for i in range(MAX_BUFFERS):
        if exported.held[i] != NULL:
            exported.pointers[i] = exported.held[i].data
    if out.null_count == 0:
        exported.pointers[0] = NULL
    return 0


cdef int export_columns(Batch* batch, MemoryAccount* account, bint looks, ArrowArray* out) except -1 nogil:
    cdef VectorScratch scratch
    cdef int64_t i
    for i in range(batch.n_columns):
        if looks:
            account_check(account)
        if batch.schema.fields[i].type.id == TYPE_NESTED:
            nested_export(
                batch, batch.columns[i], batch.schema.fields[i].nested, account, looks, out.children[i]
            )
            continue
        export_column(batch, batch.columns[i], &batch.schema.fields[i].type, &scratch, out.children[i])
    return 0


cdef int array_from_batch(Batch* batch, MemoryAccount* account, bint looks, ArrowArray* out) except -1 nogil:
    cdef int64_t n_bytes = 0
    cdef int64_t i
    cdef bint done = False
    memset(out, 0, sizeof(ArrowArray))
    if account != NULL:
        n_bytes = laid_out_bytes(batch, 0, batch.n_selected)
        n_bytes += n_bytes >> 3         # as for every Arrow array (data/array_charge)
        account_reserve(account, n_bytes)
    out.length = batch.n_selected
    out.n_buffers = 1
    out.buffers = <const void**> malloc(sizeof(void*))
    out.buffers[0] = NULL
    out.n_children = batch.n_columns
    out.children = <ArrowArray**> malloc(max(batch.n_columns, 1) * sizeof(ArrowArray*))
    for i in range(batch.n_columns):
        out.children[i] = <ArrowArray*> malloc(sizeof(ArrowArray))
        memset(out.children[i], 0, sizeof(ArrowArray))
    out.release = release_struct
    try:
        export_columns(batch, account, looks, out)
        done = True
    finally:
        if account != NULL:
            account_release(account, n_bytes)
        if not done:
            out.release(out)
    return 0
