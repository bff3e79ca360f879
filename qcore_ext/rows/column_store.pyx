"""Column store: rows that an operator keeps, column by column, in growing canonical buffers."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport (
    DICTIONARY, VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector, VectorScratch, column_constant_null,
    column_heap, column_new,
)
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport PHYS_NONE, PHYS_VIEW, TYPE_NESTED, DataType, phys_width
from qcore_ext.ground.bitmap cimport bitmap_bytes, is_valid, qc_clear_missing
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, MemoryAccount, Owner, account_check, arena_new, arena_take, buffer_grow, buffer_new, buffer_unref,
    bytes_copy, bytes_fill, owner_list_add, owner_list_new, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.rows.long_text cimport text_copy

cdef enum:
    # Strings are copied out of their heap if at most one row in SPARSE_FACTOR is kept.
    SPARSE_FACTOR = 4
    SPARSE_HEAP_ROWS_MAX = 131072   # two batches


cdef void column_store_free(Owner* self) noexcept nogil:
    cdef ColumnStore* store = <ColumnStore*> self
    cdef int32_t i
    for i in range(store.n_columns):
        buffer_unref(store.columns[i].values)
        buffer_unref(store.columns[i].validity)
        owner_unref(<Owner*> store.columns[i].heaps)
        owner_unref(<Owner*> store.columns[i].copies)
    owner_unref(<Owner*> store.nested)
    owner_unref(<Owner*> store.account)
    struct_free(store)


cdef ColumnStore* column_store_new(MemoryAccount* account, const DataType* types, int32_t n_columns) except NULL nogil:
    cdef ColumnStore* store = <ColumnStore*> struct_new(sizeof(ColumnStore) + n_columns * sizeof(StoreColumn))
    cdef bint done = False
    cdef int32_t i
    store.owner.references = 1
    store.owner.release = column_store_free
    store.account = <MemoryAccount*> owner_ref(<Owner*> account)
    store.n_columns = n_columns
    store.columns = <StoreColumn*> (store + 1)
    try:
        for i in range(n_columns):
            store.columns[i].type = types[i]
            store.columns[i].width = phys_width(types[i].phys)
            if types[i].phys == PHYS_VIEW:
                store.columns[i].heaps = owner_list_new()
        done = True
    finally:
        if not done:
            owner_unref(<Owner*> store)
    return store


cdef ColumnStore* column_store_of(MemoryAccount* account, const CSchema* schema) except NULL nogil:
    cdef DataType* types = <DataType*> struct_new((schema.n_fields + 1) * sizeof(DataType))
    cdef int32_t i
    try:
        for i in range(schema.n_fields):
            types[i] = schema.fields[i].type
        return column_store_new(account, types, schema.n_fields)
    finally:
        struct_free(types)


cdef int extend(ColumnStore* store, int64_t capacity) except -1 nogil:
    """Make space for `capacity` rows in all."""
    cdef StoreColumn* column
    cdef int64_t old_bytes
    cdef int32_t i
    if capacity <= store.capacity:
        return 0
    for i in range(store.n_columns):
        column = &store.columns[i]
        if column.values == NULL:
            column.values = buffer_new(store.account, capacity * column.width)
        else:
            buffer_grow(&column.values, store.n_rows * column.width, capacity * column.width)
        if column.validity != NULL:
            old_bytes = column.validity.size
            buffer_grow(&column.validity, old_bytes, bitmap_bytes(capacity))
            bytes_fill(column.validity.data + old_bytes, 0xFF, column.validity.size - old_bytes, store.account)
    store.capacity = capacity
    return 0


cdef inline int reserve(ColumnStore* store, int64_t n_rows) except -1 nogil:
    """Make space for n_rows rows in all, and for as many again if there is none."""
    if n_rows > store.capacity:
        extend(store, max(n_rows, max(2 * store.capacity, <int64_t> VECTOR_ROWS)))
    return 0


cdef int append_nulls(
    ColumnStore* store, StoreColumn* column, int64_t at, const uint8_t* validity, int64_t n,
) except -1 nogil:
    """Clear the bits of rows at..at+n that are null in `validity`. The bits of later rows stay ones."""
    if column.validity == NULL:
        column.validity = buffer_new(store.account, bitmap_bytes(store.capacity))
        bytes_fill(column.validity.data, 0xFF, column.validity.size, store.account)
    qc_check(bitmap_bytes(at + n) <= column.validity.size, b"the validity bits of appended rows are in the bitmap")
    qc_clear_missing(<uint8_t*> column.validity.data, at, validity, 0, n)
    return 0


cdef bint is_sparse(StoreColumn* column, const Column* given, const uint32_t* rows, int64_t n) noexcept nogil:
    """Whether n rows of the column are so small a share of its heap that their strings are to be copied."""
    cdef const Column* flat = given if given.encoding != DICTIONARY else given.base
    cdef const void* heap = column_heap(given)
    cdef int64_t held = flat.n_rows
    if heap == NULL or (column.heaps.n_items > 0 and column.heaps.items[column.heaps.n_items - 1] == heap):
        return False
    if heap != column.copied_from:
        column.copied_from = heap
        column.n_copied = 0
    if given.encoding == DICTIONARY:
        # A join table is the base of many batches and stays alive anyway. Copies of its rows would add up.
        if held > SPARSE_HEAP_ROWS_MAX:
            return False
    elif rows == NULL:
        return False
    elif n == VECTOR_ROWS:
        held = <int64_t> rows[n - 1] - rows[0] + 1      # a full vector: compare with the rows that it spans
    column.n_copied += n
    return n * SPARSE_FACTOR < held and column.n_copied * SPARSE_FACTOR < flat.n_rows


cdef int keep_strings(
    ColumnStore* store, StoreColumn* column, const Column* given, const uint32_t* rows, const uint8_t* validity,
    int64_t n,
) except -1 nogil:
    """Copy the bytes of the last n strings, or keep their heap alive. `values` already holds their views."""
    cdef StringView* views
    cdef char* copy
    cdef int64_t i
    if not is_sparse(column, given, rows, n):
        return owner_list_add(column.heaps, column_heap(given))
    if column.copies == NULL:
        column.copies = arena_new(store.account)
        owner_list_add(column.heaps, <Owner*> column.copies)
    views = <StringView*> column.values.data + store.n_rows
    for i in range(n):
        if views[i].length > VIEW_INLINE_BYTES and is_valid(validity, i):
            copy = <char*> arena_take(column.copies, views[i].length)
            text_copy(copy, views[i].pointer, views[i].length)
            views[i].pointer = copy
    return 0


cdef int column_store_append(
    ColumnStore* store, Column** columns, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch,
) except -1 nogil:
    cdef StoreColumn* column
    cdef Vector vector
    cdef int32_t i
    qc_check(0 <= n <= VECTOR_ROWS, b"at most a vector of rows is appended at a time")
    reserve(store, store.n_rows + n)
    qc_check(store.n_rows + n <= store.capacity, b"a store has capacity for the rows that are appended")
    for i in range(store.n_columns):
        column = &store.columns[i]
        if column.type.id == TYPE_NESTED:
            continue
        column_load(columns[i], start, rows, n, scratch, &vector)
        if vector.validity != NULL:
            append_nulls(store, column, store.n_rows, vector.validity, n)
        memcpy(column.values.data + store.n_rows * column.width, vector.values, n * column.width)
        if column.heaps != NULL:
            keep_strings(store, column, columns[i], rows, vector.validity, n)
    store.n_rows += n
    return 0


cdef int column_store_append_batch(ColumnStore* store, const Batch* batch, VectorScratch* scratch) except -1 nogil:
    cdef const uint32_t* rows = batch.selection
    cdef int64_t start = 0
    while start < batch.n_selected:
        column_store_append(
            store, batch.columns, start, rows + start if rows != NULL else NULL,
            min(batch.n_selected - start, <int64_t> VECTOR_ROWS), scratch,
        )
        start += VECTOR_ROWS
    return 0


cdef int column_store_keep_nested(ColumnStore* store, Owner* part) except -1 nogil:
    if store.nested == NULL:
        store.nested = owner_list_new()
    return owner_list_add(store.nested, part)


cdef ColumnStore* column_store_join(ColumnStore** parts, int64_t n_parts, int64_t* n_kept) except NULL nogil:
    cdef ColumnStore* store
    cdef StoreColumn* column
    cdef int64_t n_rows = 0
    cdef int64_t part, at
    cdef int64_t largest = 0
    cdef int32_t i
    for part in range(n_parts):
        n_rows += parts[part].n_rows
        if parts[part].n_rows > parts[largest].n_rows:
            largest = part
    # A driver without a batch does not know the types. The part with the most rows knows them.
    store = parts[largest]
    parts[largest] = parts[0]
    parts[0] = store
    n_kept[0] = store.n_rows
    extend(store, n_rows)
    for part in range(1, n_parts):
        if parts[part].n_rows == 0:
            continue
        qc_check(parts[part].n_columns == store.n_columns, b"the parts of a store have the same columns")
        for i in range(store.n_columns):
            column = &store.columns[i]
            if parts[part].columns[i].validity != NULL and column.validity == NULL:
                column.validity = buffer_new(store.account, bitmap_bytes(store.capacity))
                bytes_fill(column.validity.data, 0xFF, column.validity.size, store.account)
            if column.heaps != NULL:
                owner_list_add(column.heaps, <Owner*> parts[part].columns[i].heaps)
        if parts[part].nested != NULL:
            for at in range(parts[part].nested.n_items):
                column_store_keep_nested(store, parts[part].nested.items[at])
    store.n_rows = n_rows
    return <ColumnStore*> owner_ref(<Owner*> store)


cdef int copy_part(
    StoreColumn* column, const StoreColumn* part, int64_t at, int64_t start, int64_t n, const MemoryAccount* account,
) except -1 nogil:
    """Copy rows start..start+n of a part to the rows from `at` on. Validity bits that are nulls are cleared."""
    cdef int64_t done = 0
    cdef int64_t step
    qc_check((at + n) * column.width <= column.values.size, b"the rows of a part are within the concatenated store")
    qc_check((start + n) * column.width <= part.values.size, b"a part's values have all of its rows")
    bytes_copy(
        column.values.data + at * column.width, part.values.data + start * column.width, n * column.width, account
    )
    while part.validity != NULL and done < n:
        account_check(account)
        step = min(n - done, <int64_t> CHECK_ROWS)
        qc_clear_missing(
            <uint8_t*> column.validity.data, at + done, <const uint8_t*> part.validity.data, start + done, step
        )
        done += step
    return 0


cdef int column_store_copy(
    ColumnStore* store, int64_t n_kept, ColumnStore** parts, int64_t n_parts, int64_t start, int64_t n,
    const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t end = start + n
    cdef int64_t first = n_kept     # the store's row that is the part's first
    cdef int64_t part, at, n_here
    cdef int32_t i
    qc_check(start % 8 == 0 and 0 <= start <= end <= store.n_rows, b"the copied rows begin at a byte of the bitmaps")
    for part in range(1, n_parts):
        at = max(start, first)
        n_here = min(end, first + parts[part].n_rows) - at
        if n_here > 0:
            for i in range(store.n_columns):
                if store.columns[i].type.id != TYPE_NESTED:
                    copy_part(
                        &store.columns[i], &parts[part].columns[i], at, at - first, n_here, account
                    )
        first += parts[part].n_rows
    return 0


cdef Batch* column_store_batch(const ColumnStore* store, CSchema* schema) except NULL nogil:
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


cdef Column* column_store_column(const ColumnStore* store, int32_t i) except NULL nogil:
    cdef const StoreColumn* stored = &store.columns[i]
    cdef Column* column
    qc_check(0 <= i < store.n_columns, b"a column of a store is one of its columns")
    if stored.type.phys == PHYS_NONE:
        return column_constant_null(&stored.type, store.n_rows)
    column = column_new(&stored.type, store.n_rows)
    if stored.values != NULL:
        column.values = stored.values.data
        column.values_owner = owner_ref(<Owner*> stored.values)
    if stored.validity != NULL:
        column.validity = <uint8_t*> stored.validity.data
        column.validity_owner = owner_ref(<Owner*> stored.validity)
    column.heap_owner = owner_ref(<Owner*> stored.heaps)
    return column
