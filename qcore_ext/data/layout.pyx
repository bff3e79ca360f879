"""Export of a batch as an Arrow struct array."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from qcore_ext.data.batch cimport Batch, batch_new, batch_ref, batch_unref
from qcore_ext.data.column cimport (
    DICTIONARY, FLAT, STORE_ARROW_VIEW, STORE_BITS, STORE_CANONICAL, STORE_DECIMAL128, STORE_FIXED_BINARY,
    STORE_LARGE_UTF8, STORE_UTF8, VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector, VectorScratch,
    column_bytes, column_new, column_ref, column_take, column_unref, view_data,
)
from qcore_ext.data.load cimport arrow_width, column_arrow_values, column_load
from qcore_ext.data.nested cimport nested_export
from qcore_ext.data.row_bytes cimport laid_out_bytes
from qcore_ext.data.row_check cimport RowCheck, row_check
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_I64, PHYS_I128, PHYS_NONE, PHYS_VIEW, TYPE_DECIMAL, TYPE_NESTED, UUID_BYTES, VARIANT_FIXED,
    VARIANT_LARGE, VARIANT_VIEW, DataType, phys_width,
)
from qcore_ext.data.take cimport gather_width
from qcore_ext.ground.arrow_abi cimport ArrowArray
from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.bitmap cimport bitmap_bytes, is_valid, qc_popcount
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Buffer, MemoryAccount, Owner, account_check, account_release, account_reserve, buffer_grow,
    buffer_let_go, buffer_new, buffer_of, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.status cimport raise_execution

cdef enum:
    N_OWNERS = 3
    MAX_BUFFERS = 4
    PLAIN_BYTES_MAX = 2147483647
    # A buffer is exported without a copy if the rows take at least a quarter of it, or if it is not larger than this.
    SMALL_BUFFER_BYTES = 65536
    # Behind the text of a view column: the address of the text, which the column's view_buffers point at, and its
    # length.
    TEXT_TAIL_BYTES = 16


ctypedef struct ExportedArray:
    # The private_data of an exported column: what keeps its buffers alive, and the buffers in Arrow's order.
    Owner* held[N_OWNERS]
    const void* pointers[MAX_BUFFERS]


cdef void release_column(ArrowArray* array) noexcept nogil:
    cdef ExportedArray* exported = <ExportedArray*> array.private_data
    cdef int64_t i
    for i in range(N_OWNERS):
        owner_unref(exported.held[i])
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


cdef int64_t[1] NO_LENGTHS          # the lengths of no buffers


# --- rows copied into Arrow's layout ---

cdef int64_t nulls_of(const uint8_t* validity, int64_t n) noexcept nogil:
    """Number of nulls among the first n rows."""
    cdef int64_t n_valid = 0
    cdef int64_t i
    cdef int64_t whole = n >> 6
    for i in range(whole):
        n_valid += qc_popcount((<const uint64_t*> validity)[i])
    for i in range(whole << 6, n):
        n_valid += is_valid(validity, i)
    return n - n_valid


cdef void put_validity(const Vector* vector, int64_t start, int64_t n, uint8_t* out) noexcept nogil:
    """Write the vector's validity at row `start` (a multiple of VECTOR_ROWS)."""
    if vector.validity == NULL:
        memset(out + (start >> 3), 0xFF, (n + 7) >> 3)
    else:
        memcpy(out + (start >> 3), vector.validity, (n + 7) >> 3)


cdef void put_bits(const uint8_t* values, int64_t start, int64_t n, uint8_t* out) noexcept nogil:
    cdef int64_t i
    memset(out + (start >> 3), 0, (n + 7) >> 3)
    for i in range(n):
        out[(start + i) >> 3] |= <uint8_t> ((values[i] & 1) << (i & 7))


cdef int put_strings(
    const Vector* vector, uint8_t variant, int64_t start, int64_t n,
    char* out,          # OUT, the column's views or offsets
    Buffer** text,      # the bytes of its strings; may be replaced
    int64_t* used,      # bytes of text
) except -1 nogil:
    """Append n strings to the column."""
    cdef const StringView* views = <const StringView*> vector.values
    cdef StringView* out_views = <StringView*> out
    cdef int32_t* offsets = <int32_t*> out
    cdef int64_t* long_offsets = <int64_t*> out
    cdef int32_t* location
    cdef int64_t i, length, total = 0
    cdef char* at
    for i in range(n):
        if is_valid(vector.validity, i) and (variant != VARIANT_VIEW or views[i].length > VIEW_INLINE_BYTES):
            total += views[i].length
    if variant != VARIANT_LARGE and used[0] + total > PLAIN_BYTES_MAX:
        return raise_execution(b"a batch holds more than 2 GiB in one string column; use a smaller batch_rows")
    if used[0] + total + TEXT_TAIL_BYTES > text[0].size:
        buffer_grow(text, used[0], 2 * (used[0] + total) + TEXT_TAIL_BYTES)
    qc_check(used[0] + total + TEXT_TAIL_BYTES <= text[0].size, b"the buffer of the text holds the next strings")
    at = text[0].data + used[0]
    for i in range(n):
        length = views[i].length if is_valid(vector.validity, i) else 0
        if variant == VARIANT_VIEW:
            memset(&out_views[start + i], 0, sizeof(StringView))
            if length > 0 or is_valid(vector.validity, i):
                out_views[start + i] = views[i]
            if length > VIEW_INLINE_BYTES:
                location = <int32_t*> &out_views[start + i].pointer
                location[0] = 0
                location[1] = <int32_t> (at - text[0].data)
                memcpy(at, view_data(&views[i]), length)
                at += length
            continue
        memcpy(at, view_data(&views[i]), length)
        at += length
        if variant == VARIANT_LARGE:
            long_offsets[start + i + 1] = at - text[0].data
        else:
            offsets[start + i + 1] = <int32_t> (at - text[0].data)
    used[0] = at - text[0].data
    qc_check(used[0] + TEXT_TAIL_BYTES <= text[0].size, b"the text ends in its buffer")
    return 0


cdef void put_uuids(const Vector* vector, int64_t start, int64_t n, char* out) noexcept nogil:
    """Write n UUIDs behind the first `start` ones. Null rows are zero."""
    cdef const StringView* views = <const StringView*> vector.values
    cdef int64_t i
    for i in range(n):
        if is_valid(vector.validity, i):
            qc_check(views[i].length == UUID_BYTES, b"a UUID has 16 bytes")
            memcpy(out + (start + i) * UUID_BYTES, view_data(&views[i]), UUID_BYTES)
        else:
            memset(out + (start + i) * UUID_BYTES, 0, UUID_BYTES)


cdef inline bint is_text(const DataType* type) noexcept nogil:
    """Whether values may have any length."""
    return type.phys == PHYS_VIEW and type.variant != VARIANT_FIXED


cdef int64_t value_bytes(const DataType* type, int64_t n_rows) noexcept nogil:
    if type.phys == PHYS_BOOL:
        return bitmap_bytes(n_rows)
    if type.id == TYPE_DECIMAL:
        return n_rows * 16
    if is_text(type) and type.variant != VARIANT_VIEW:
        return (n_rows + 1) * (8 if type.variant == VARIANT_LARGE else 4)
    return n_rows * phys_width(type.phys)


cdef int64_t text_bytes(const Batch* batch, const Column* column) noexcept nogil:
    """Approximate bytes of the strings of the selected rows, used as the first size of their buffer."""
    cdef int64_t n_bytes = column_bytes(column) + column_bytes(column) // 64
    if batch.n_rows > 0 and batch.selection != NULL:
        n_bytes = <int64_t> (<double> n_bytes * batch.n_selected / batch.n_rows)
    return max(n_bytes, batch.n_selected)


cdef bint may_be_null(const Column* column) noexcept nogil:
    return column.validity != NULL or column.type.phys == PHYS_NONE or (
        column.encoding == DICTIONARY and may_be_null(column.base)
    )


cdef bint copy_values(
    Batch* batch, const Column* column, const DataType* type, const MemoryAccount* asked, char* out,
) except -1 nogil:
    """Copy the selected rows of a column without nulls that stores values as Arrow does. False for other columns."""
    cdef const Column* flat = column.base if column.encoding == DICTIONARY else column
    cdef const char* values = column_arrow_values(flat)
    cdef int width = arrow_width(type)
    cdef int64_t start = 0
    cdef int64_t n, i
    cdef const uint32_t* rows
    cdef uint32_t base_rows[VECTOR_ROWS]
    if values == NULL or may_be_null(column) or arrow_width(&flat.type) != width:
        return False
    while start < batch.n_selected:
        if asked != NULL and start % CHECK_ROWS == 0:
            account_check(asked)
        rows = batch.selection + start if batch.selection != NULL else NULL
        n = min(<int64_t> CHECK_ROWS, batch.n_selected - start)
        if column.encoding == DICTIONARY and rows != NULL:
            n = min(<int64_t> VECTOR_ROWS, n)
            for i in range(n):
                base_rows[i] = column.indices[rows[i]]
            rows = base_rows
        elif column.encoding == DICTIONARY:
            rows = column.indices + start
        if rows != NULL:
            gather_width(values, flat.n_rows, width, rows, n, out + start * width)
        else:
            qc_check(start + n <= flat.n_rows, b"the rows to copy are rows of the column")
            memcpy(out + start * width, values + start * width, n * width)
        start += n
    return True


cdef int convert_values(
    Batch* batch, Column* column, const DataType* type, VectorScratch* scratch, const MemoryAccount* asked, Column* out,
    Buffer** text,              # the bytes of strings; may be replaced
    int64_t* used,              # OUT, bytes of text
) except -1 nogil:
    """Write the selected rows through vectors of canonical values."""
    cdef Vector vector
    cdef int64_t start = 0
    cdef int64_t n
    cdef int width = phys_width(type.phys)
    cdef char* values = <char*> out.values
    if is_text(type):
        memset(values, 0, 8)
    while start < batch.n_selected:
        if asked != NULL and start % CHECK_ROWS == 0:
            account_check(asked)
        n = min(<int64_t> VECTOR_ROWS, batch.n_selected - start)
        qc_check(start + n <= out.n_rows, b"the rows to write are rows of the output")
        if batch.selection != NULL:
            column_load(column, 0, batch.selection + start, n, scratch, &vector)
        else:
            column_load(column, start, NULL, n, scratch, &vector)
        if out.validity != NULL:
            put_validity(&vector, start, n, <uint8_t*> out.validity)
        if type.variant == VARIANT_FIXED:
            put_uuids(&vector, start, n, values)
        elif type.phys == PHYS_VIEW:
            put_strings(&vector, type.variant, start, n, values, text, used)
        elif type.phys == PHYS_BOOL:
            put_bits(<const uint8_t*> vector.values, start, n, <uint8_t*> values)
        elif type.id == TYPE_DECIMAL and vector.phys == PHYS_I64:
            simd_kernels().widen(<const int64_t*> vector.values, n, <int64_t*> values + 2 * start)
        else:
            memcpy(values + start * width, vector.values, n * width)
        start += n
    return 0


cdef uint8_t arrow_storage(const DataType* type) noexcept nogil:
    """The Storage of a column of the type in the layout in which it is exported."""
    if type.phys == PHYS_BOOL:
        return STORE_BITS
    if type.id == TYPE_DECIMAL:
        return STORE_CANONICAL if type.phys == PHYS_I128 else STORE_DECIMAL128
    if type.phys != PHYS_VIEW:
        return STORE_CANONICAL
    if type.variant == VARIANT_FIXED:
        return STORE_FIXED_BINARY
    if type.variant == VARIANT_VIEW:
        return STORE_ARROW_VIEW
    return STORE_LARGE_UTF8 if type.variant == VARIANT_LARGE else STORE_UTF8


cdef void hold_text(Column* column, Buffer* text, int64_t n_bytes) noexcept nogil:
    """Point the column at the bytes of its strings. The text has TEXT_TAIL_BYTES after them."""
    cdef int64_t tail = text.size - TEXT_TAIL_BYTES
    qc_check(0 <= n_bytes <= tail, b"the text ends before its address and length")
    column.bytes = text.data
    if column.storage == STORE_ARROW_VIEW:
        (<void**> (text.data + tail))[0] = text.data
        (<int64_t*> (text.data + tail))[1] = n_bytes
        column.view_buffers = <const void**> (text.data + tail)
        column.width = 1


cdef Column* lay_out(
    Batch* batch, Column* column, const DataType* type, VectorScratch* scratch, MemoryAccount* account,
    const MemoryAccount* asked,     # its query may be stopped meanwhile; or NULL
) except NULL nogil:
    """The selected rows as a column in Arrow's layout, in new buffers."""
    cdef int64_t n = batch.n_selected
    cdef int64_t used = 0
    cdef Column* out = column_new(type, n)
    cdef Buffer* text = NULL
    cdef bint done = False
    try:
        if type.phys != PHYS_NONE:
            out.storage = arrow_storage(type)
            out.width = UUID_BYTES if out.storage == STORE_FIXED_BINARY else 0
            out.values_owner = <Owner*> buffer_new(account, value_bytes(type, n))
            out.values = (<Buffer*> out.values_owner).data
            if not copy_values(batch, column, type, asked, <char*> out.values):
                if may_be_null(column):
                    out.validity_owner = <Owner*> buffer_new(account, bitmap_bytes(n))
                    out.validity = <uint8_t*> (<Buffer*> out.validity_owner).data
                if is_text(type):
                    text = buffer_new(account, text_bytes(batch, column) + TEXT_TAIL_BYTES)
                convert_values(batch, column, type, scratch, asked, out, &text, &used)
                if text != NULL:
                    hold_text(out, text, used)
        done = True
    finally:
        out.heap_owner = <Owner*> text
        if not done:
            column_unref(out)
    return out


# --- columns that are exported without a copy ---

cdef bint is_short_views(const Column* column, const DataType* type) noexcept nogil:
    """Whether all rows are strings of at most 12 bytes in views, which Arrow lays out as the engine does."""
    return (
        type.phys == PHYS_VIEW and type.variant == VARIANT_VIEW
        and column.encoding == FLAT and column.storage == STORE_CANONICAL and column.type.phys == PHYS_VIEW
        and column.validity == NULL
        and not simd_kernels().views_long(<const StringView*> column.values + column.offset, column.n_rows)
    )


cdef bint is_arrow(const Column* column, const DataType* type) noexcept nogil:
    """Whether all rows of the column are in the layout in which they are exported."""
    if is_short_views(column, type):
        return True
    if column.encoding != FLAT or column.storage != arrow_storage(type) or column.type.phys != type.phys:
        return False
    if type.phys == PHYS_BOOL:
        return (column.offset & 7) == 0
    if is_text(type) and column.lent and (column.validity != NULL or column.bytes == NULL):
        return False            # the values of null rows were not checked; an empty array may have no bytes
    return column.storage != STORE_ARROW_VIEW or column.width == 1


cdef bint may_leave(const Column* column, Owner* owner, int64_t n_bytes) noexcept nogil:
    """Whether the application may keep `owner` and its n_bytes of the column without a charge to the query."""
    cdef Buffer* buffer = buffer_of(owner)
    if owner == NULL:
        return True
    if buffer == NULL:
        return column.lent
    if buffer.size > max(<int64_t> SMALL_BUFFER_BYTES, 4 * n_bytes):
        return False
    return buffer.account == NULL or (qc_load(&column.owner.references) == 1 and qc_load(&owner.references) == 1)


cdef bint leaves_whole(const Column* column, const DataType* type) noexcept nogil:
    """Whether the column can be exported without a copy: each buffer is the application's, or has no other user."""
    cdef int64_t n = column.n_rows
    if type.phys == PHYS_NONE:
        return column.encoding == FLAT
    return (
        is_arrow(column, type) and column.values_owner != NULL
        and may_leave(column, column.values_owner, value_bytes(type, n))
        and may_leave(column, column.validity_owner, n >> 3)
        and may_leave(column, column.heap_owner, PLAIN_BYTES_MAX)
    )


cdef void let_go(Owner* owner) noexcept nogil:
    cdef Buffer* buffer = buffer_of(owner)
    if buffer != NULL:
        buffer_let_go(buffer)


cdef int hand_out(Column* column, const DataType* type, ArrowArray* out) except -1 nogil:
    """Make an array over the buffers of a column that leaves_whole."""
    cdef ExportedArray* exported = <ExportedArray*> struct_new(sizeof(ExportedArray))
    cdef int64_t nulls = nulls_of(column.validity, column.n_rows) if column.validity != NULL else 0
    cdef int64_t i
    memset(out, 0, sizeof(ArrowArray))
    out.private_data = exported
    out.release = release_column
    out.length = column.n_rows
    out.buffers = exported.pointers
    if type.phys == PHYS_NONE:
        out.null_count = column.n_rows
        return 0
    exported.held[0] = column.values_owner
    exported.held[1] = column.validity_owner
    exported.held[2] = column.heap_owner
    for i in range(N_OWNERS):
        let_go(exported.held[i])
        owner_ref(exported.held[i])
    out.null_count = nulls
    out.n_buffers = 2
    exported.pointers[0] = column.validity if nulls > 0 else NULL
    exported.pointers[1] = arrow_start(column, type)
    if is_text(type):
        out.n_buffers = 3
        exported.pointers[2] = column.bytes
        if column.storage == STORE_CANONICAL:
            exported.pointers[2] = &NO_LENGTHS[0]       # views without a buffer of text
        elif type.variant == VARIANT_VIEW:
            out.n_buffers = 4
            exported.pointers[3] = &column.view_buffers[1]      # the length behind the address (hold_text)
    return 0


cdef const void* arrow_start(const Column* column, const DataType* type) noexcept nogil:
    """The address of the values or offsets of the first row."""
    cdef const char* values = <const char*> column.values
    if type.phys == PHYS_BOOL:
        return values + (column.offset >> 3)
    if column.storage == STORE_UTF8:
        return values + 4 * column.offset
    if column.storage == STORE_LARGE_UTF8:
        return values + 8 * column.offset
    if type.phys == PHYS_VIEW:
        return values + 16 * column.offset
    return values + column.offset * arrow_width(type)


cdef bint is_lazy(const Batch* batch, int32_t column) noexcept nogil:
    """Whether the column is converted when it is read. That is so for nested columns, which pyarrow converts."""
    return batch.schema.fields[column].type.id == TYPE_NESTED


cdef bint stays(Batch* batch, int32_t column) noexcept nogil:
    """Whether the column of the batch can be exported without a copy when nothing else references it."""
    return batch.selection == NULL and leaves_whole(batch.columns[column], &batch.schema.fields[column].type)


cdef int check_rows(const Column* column) except -1 nogil:
    """Check the rows of strings from outside that were not checked yet."""
    cdef RowCheck* check = <RowCheck*> column.check
    return row_check(check, column.offset, NULL, column.n_rows) if check != NULL else 0


cdef Batch* batch_laid_out(Batch* batch, MemoryAccount* account) except NULL nogil:
    cdef VectorScratch scratch
    cdef Batch* out
    cdef Column* column
    cdef int32_t i
    cdef bint done = False
    cdef bint all_stay = True
    for i in range(batch.n_columns):
        if not is_lazy(batch, i) and stays(batch, i):
            check_rows(batch.columns[i])
        elif batch.selection != NULL or not is_lazy(batch, i):
            all_stay = False
    if all_stay:
        return batch_ref(batch)
    out = batch_new(batch.schema, batch.n_selected)
    try:
        for i in range(batch.n_columns):
            column = batch.columns[i]
            if batch.selection == NULL and (is_lazy(batch, i) or stays(batch, i)):
                out.columns[i] = column_ref(column)
            elif is_lazy(batch, i):
                out.columns[i] = column_take(
                    column, batch.selection, batch.n_selected, batch.selection_owner, account
                )
            else:
                out.columns[i] = lay_out(batch, column, &batch.schema.fields[i].type, &scratch, account, account)
        done = True
    finally:
        if not done:
            batch_unref(out)
    return out


cdef int export_column(
    Batch* batch, int32_t i, VectorScratch* scratch, const MemoryAccount* asked, ArrowArray* out,
) except -1 nogil:
    cdef Column* column = batch.columns[i]
    cdef const DataType* type = &batch.schema.fields[i].type
    if stays(batch, i) and (column.lent or qc_load(&batch.owner.references) == 1):
        check_rows(column)
        return hand_out(column, type, out)
    column = lay_out(batch, column, type, scratch, NULL, asked)
    try:
        hand_out(column, type, out)
    finally:
        column_unref(column)
    return 0


cdef int export_columns(Batch* batch, MemoryAccount* account, bint looks, ArrowArray* out) except -1 nogil:
    cdef VectorScratch scratch
    cdef int32_t i
    for i in range(batch.n_columns):
        if looks:
            account_check(account)
        if is_lazy(batch, i):
            nested_export(
                batch, batch.columns[i], batch.schema.fields[i].nested, account, looks, out.children[i]
            )
            continue
        export_column(batch, i, &scratch, account if looks else NULL, out.children[i])
    return 0


cdef bint is_copied(Batch* batch) noexcept nogil:
    cdef int32_t i
    for i in range(batch.n_columns):
        if is_lazy(batch, i) or not stays(batch, i):
            return True
    return False


cdef int array_from_batch(Batch* batch, MemoryAccount* account, bint looks, ArrowArray* out) except -1 nogil:
    cdef int64_t n_bytes = 0
    cdef int64_t i
    cdef bint done = False
    memset(out, 0, sizeof(ArrowArray))
    if account != NULL and is_copied(batch):
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
        if n_bytes > 0:
            account_release(account, n_bytes)
        if not done:
            out.release(out)
    return 0
