"""Holistic aggregates: lists, text and ranks. They keep the values of each group until the last row."""

from libc.math cimport ceil, floor
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.aggregate.calls cimport (
    ARGUMENTS_MAX, COLLECT_BETWEEN, COLLECT_FIRST, COLLECT_LAST, COLLECT_LIST, COLLECT_MODE, COLLECT_TEXT,
)
from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.capsule cimport PyBatch, batch_of_arrow
from qcore_ext.data.column cimport (
    NO_ROW, VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, column_bytes, column_constant_null, column_new,
    column_new_flat, column_ref, column_take, column_unref, view_data,
)
from qcore_ext.data.schema cimport PHYS_NONE, PHYS_U32, PHYS_VIEW, TYPE_UINT32, Schema
from qcore_ext.ground.bitmap cimport bit_clear, bit_set, bitmap_bytes, qc_set_rows
from qcore_ext.ground.check cimport qc_check, qc_check_large_offsets, qc_check_rows
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Arena, Owner, account_check, account_release, account_reserve, arena_new, arena_take, buffer_new,
    buffer_new_zeroed, buffer_unref, bytes_copy, owner_ref, owner_unref,
)
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.sort.order cimport SortKey
from qcore_ext.sort.radix cimport SortEntry
from qcore_ext.sort.run cimport sort_columns
from qcore_ext.rows.key_columns cimport (
    StoredColumn, key_columns_append, key_columns_free, key_columns_new, key_columns_reserve, key_columns_vector,
)
from qcore_ext.aggregate.value_numbers cimport value_numbers


cdef int holistic_init(
    HolisticValues* self, MemoryAccount* account, const CallCollection* call, const CallInput* input,
    const DataType* types,
) except -1 nogil:
    cdef DataType[ARGUMENTS_MAX + 1] columns
    cdef int32_t k
    self.account = account
    self.call = call
    self.input = input
    memset(&columns[0], 0, sizeof(DataType))
    columns[0].id = TYPE_UINT32
    columns[0].phys = PHYS_U32
    for k in range(1, input.n_arguments):
        columns[k] = types[input.arguments[k]]
    columns[input.n_arguments] = types[input.argument]
    self.rows = key_columns_new(account, columns, input.n_arguments + 1)
    return 0


cdef void holistic_free(HolisticValues* self) noexcept nogil:
    key_columns_free(self.rows)
    buffer_unref(self.order)
    buffer_unref(self.begins)
    buffer_unref(self.numbers)
    self.rows = NULL
    self.order = NULL
    self.begins = NULL
    self.numbers = NULL
    column_unref(self.values)
    self.values = NULL


cdef int holistic_clear(HolisticValues* self) except -1 nogil:
    cdef KeyColumns* rows
    cdef DataType[ARGUMENTS_MAX + 1] columns
    cdef int32_t k
    for k in range(self.rows.n_columns):
        columns[k] = self.rows.columns[k].type
    rows = key_columns_new(self.account, columns, self.rows.n_columns)
    holistic_free(self)
    self.rows = rows
    return 0


cdef int holistic_append(
    HolisticValues* self, const Vector* loaded, const uint32_t* groups, int64_t n, const uint8_t* mask,
) except -1 nogil:
    cdef Vector[ARGUMENTS_MAX + 1] columns
    cdef uint32_t zeros[VECTOR_ROWS]
    cdef uint32_t chosen[VECTOR_ROWS]
    cdef int64_t count = qc_set_rows(mask, n, chosen)
    cdef int32_t k
    if groups == NULL:
        memset(zeros, 0, n * sizeof(uint32_t))
    columns[0].phys = PHYS_U32
    columns[0].values = groups if groups != NULL else zeros
    columns[0].validity = NULL
    for k in range(1, self.input.n_arguments):
        columns[k] = loaded[self.input.arguments[k]]
    columns[self.input.n_arguments] = loaded[self.input.argument]
    key_columns_reserve(self.rows, self.rows.n_rows + count)
    return key_columns_append(self.rows, columns, chosen, count)


cdef int holistic_finish(HolisticValues* self, int64_t n_groups) except -1 nogil:
    cdef int64_t n = self.rows.n_rows
    cdef int32_t n_keys = self.input.n_arguments
    cdef SortKey[ARGUMENTS_MAX + 1] parts
    cdef Vector[ARGUMENTS_MAX + 1] keys
    cdef Buffer* validity = NULL
    cdef Buffer* entries = NULL
    cdef const SortEntry* entry
    cdef const uint32_t* groups
    cdef uint32_t* order
    cdef int64_t* begins
    cdef int64_t i
    cdef int32_t k
    self.order = buffer_new(self.account, (n + 1) * sizeof(uint32_t))
    self.begins = buffer_new(self.account, (n_groups + 1) * sizeof(int64_t))
    begins = <int64_t*> self.begins.data
    memset(begins, 0, (n_groups + 1) * sizeof(int64_t))
    if n == 0:
        return 0
    try:
        validity = buffer_new(self.account, n_keys * (bitmap_bytes(n) + 64))
        for k in range(n_keys):
            account_check(self.account)
            key_columns_vector(
                self.rows, k, 0, n, <uint8_t*> validity.data + k * (bitmap_bytes(n) + 64), &keys[k]
            )
            parts[k].column = k
            parts[k].descending = k > 0 and self.call.descending[k - 1]
            parts[k].nulls_first = k > 0 and self.call.nulls_first[k - 1]
        entries = sort_columns(keys, n, parts, n_keys, self.account)
        entry = <const SortEntry*> entries.data
        order = <uint32_t*> self.order.data
        groups = <const uint32_t*> self.rows.columns[0].values.data
        for i in range(n):
            if i % CHECK_ROWS == 0:
                account_check(self.account)
            qc_check(groups[i] < n_groups, b"the group of a kept value is one of the groups")
            order[i] = entry[i].row
            begins[groups[i] + 1] += 1
        for i in range(n_groups):
            if i % CHECK_ROWS == 0:
                account_check(self.account)
            begins[i + 1] += begins[i]
        qc_check_rows(order, n, n, b"an ordered row is one of the kept rows")
        qc_check_large_offsets(begins, n_groups, b"the begins of groups ascend")
        qc_check((begins[0] == 0) & (begins[n_groups] == n), b"the groups have all of the kept rows")
        self.values = values_column(self, n_keys)
    finally:
        buffer_unref(validity)
        buffer_unref(entries)
    return 0


cdef Column* values_column(HolisticValues* self, int32_t k) except NULL nogil:
    """Column k of the kept rows, without a copy."""
    cdef int64_t n = self.rows.n_rows
    cdef StoredColumn* stored = &self.rows.columns[k]
    cdef Column* column
    cdef Buffer* validity = NULL
    cdef Vector part
    cdef int64_t start = 0
    cdef bint some_null = False
    cdef bint done = False
    if stored.type.phys == PHYS_NONE:
        return column_constant_null(&stored.type, n)
    column = column_new(&stored.type, n)
    column.values = stored.values.data
    column.values_owner = owner_ref(<Owner*> stored.values)
    if stored.type.phys == PHYS_VIEW:
        column.heap_owner = owner_ref(<Owner*> self.rows.arena)
    try:
        validity = buffer_new(self.account, bitmap_bytes(n) + 64)
        while start < n:
            account_check(self.account)
            key_columns_vector(
                self.rows, k, start, min(n - start, <int64_t> CHECK_ROWS), <uint8_t*> validity.data + (start >> 3),
                &part,
            )
            some_null = some_null or part.validity != NULL
            start += CHECK_ROWS
        if some_null:
            column.validity = <uint8_t*> validity.data
            column.validity_owner = owner_ref(<Owner*> validity)
        done = True
    finally:
        buffer_unref(validity)
        if not done:
            column_unref(column)
    return column


# --- results ---

cdef Column* holistic_column(
    HolisticValues* self, CSchema* schema, int field, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    cdef uint8_t kind = self.call.kind
    if self.rows.n_rows == 0:           # the arrays are not reserved
        return column_constant_null(&schema.fields[field].type, n)
    qc_check(
        (start >= 0) & ((start + n + 1) * <int64_t> sizeof(int64_t) <= self.begins.size),
        b"results to read are those of groups",
    )
    if kind == COLLECT_TEXT:
        return text_column(self, &schema.fields[field].type, start, n, account)
    if kind == COLLECT_BETWEEN:
        return between_column(self, &schema.fields[field].type, start, n, account)
    if kind == COLLECT_LIST:
        return list_column(self, schema, field, start, n, account)
    if kind == COLLECT_MODE:
        return most_frequent_column(self, start, n, account)
    return pick_values(self, start, n, account)


cdef Column* pick_values(HolisticValues* self, int64_t start, int64_t n, MemoryAccount* account) except NULL nogil:
    """One value of each group, by its position in the order. A group without values has null."""
    cdef const int64_t* begins = <const int64_t*> self.begins.data + start
    cdef const uint32_t* order = <const uint32_t*> self.order.data
    cdef Buffer* indices = NULL
    cdef uint32_t* rows
    cdef int64_t i, at, count
    try:
        indices = buffer_new(account, (n + 1) * sizeof(uint32_t))
        rows = <uint32_t*> indices.data
        for i in range(n):
            count = begins[i + 1] - begins[i]
            if count == 0:
                rows[i] = NO_ROW
                continue
            if self.call.kind == COLLECT_FIRST:
                at = 0
            elif self.call.kind == COLLECT_LAST:
                at = count - 1
            else:
                at = max(<int64_t> ceil(self.call.fraction * count) - 1, <int64_t> 0)
            rows[i] = order[begins[i] + at]
        return column_take(self.values, rows, n, <Owner*> indices, account)
    finally:
        buffer_unref(indices)


cdef Column* most_frequent_column(
    HolisticValues* self, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    """The most frequent value of each group. Of several equally frequent values it is the first in the order."""
    cdef const int64_t* begins = <const int64_t*> self.begins.data + start
    cdef const uint32_t* order = <const uint32_t*> self.order.data
    cdef Buffer* indices = NULL
    cdef Buffer* counts = NULL
    cdef uint32_t* rows
    cdef uint32_t* count
    cdef const uint32_t* numbers
    cdef uint32_t n_values = 0
    cdef uint32_t most
    cdef int64_t i, at
    try:
        if self.numbers == NULL:
            self.numbers = number_all_values(self.values, self.rows.n_rows, account)
        numbers = <const uint32_t*> self.numbers.data
        for i in range(begins[0], begins[n]):
            if i % CHECK_ROWS == 0:
                account_check(account)
            n_values = max(n_values, numbers[order[i]] + 1)
        counts = buffer_new_zeroed(account, (<int64_t> n_values + 1) * sizeof(uint32_t))
        count = <uint32_t*> counts.data
        indices = buffer_new(account, (n + 1) * sizeof(uint32_t))
        rows = <uint32_t*> indices.data
        for i in range(n):
            rows[i] = NO_ROW
            most = 0
            for at in range(begins[i], begins[i + 1]):
                if at % CHECK_ROWS == 0:
                    account_check(account)
                count[numbers[order[at]]] += 1
            for at in range(begins[i], begins[i + 1]):
                if at % CHECK_ROWS == 0:
                    account_check(account)
                if count[numbers[order[at]]] > most:
                    most = count[numbers[order[at]]]
                    rows[i] = order[at]
            for at in range(begins[i], begins[i + 1]):
                if at % CHECK_ROWS == 0:
                    account_check(account)
                count[numbers[order[at]]] = 0
        return column_take(self.values, rows, n, <Owner*> indices, account)
    finally:
        buffer_unref(indices)
        buffer_unref(counts)


cdef Buffer* number_all_values(Column* values, int64_t n, MemoryAccount* account) except NULL nogil:
    cdef Buffer* all_rows = buffer_new(account, (n + 1) * sizeof(uint32_t))
    cdef uint32_t n_values
    cdef int64_t i
    try:
        for i in range(n):
            (<uint32_t*> all_rows.data)[i] = <uint32_t> i
        return value_numbers(values, <uint32_t*> all_rows.data, n, &n_values, account)
    finally:
        buffer_unref(all_rows)


cdef Column* between_column(
    HolisticValues* self, const DataType* type, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    """A quantile of each group's numbers, interpolated between two neighbours."""
    cdef const int64_t* begins = <const int64_t*> self.begins.data + start
    cdef const uint32_t* order = <const uint32_t*> self.order.data
    cdef const double* numbers = NULL
    cdef Buffer* values
    cdef uint8_t* validity
    cdef double position, low, high
    cdef int64_t i, at, count
    cdef Column* out = column_new_flat(type, n, True, account, &values, &validity)
    if self.rows.n_rows > 0:
        numbers = <const double*> self.rows.columns[self.rows.n_columns - 1].values.data
    for i in range(n):
        count = begins[i + 1] - begins[i]
        if count == 0:
            (<double*> values.data)[i] = 0
            bit_clear(validity, i)
            continue
        position = self.call.fraction * (count - 1)
        at = begins[i] + <int64_t> floor(position)
        low = numbers[order[at]]
        high = numbers[order[at + 1]] if position > floor(position) else low
        (<double*> values.data)[i] = point_between(low, high, position - floor(position))
    return out


cdef Column* text_column(
    HolisticValues* self, const DataType* type, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    """The strings of each group, joined by the separator."""
    cdef const int64_t* begins = <const int64_t*> self.begins.data + start
    cdef const uint32_t* order = <const uint32_t*> self.order.data
    cdef const StringView* views = <const StringView*> self.rows.columns[self.rows.n_columns - 1].values.data
    cdef Buffer* values
    cdef uint8_t* validity
    cdef Arena* arena = arena_new(account)
    cdef Column* out = NULL
    cdef int64_t i
    cdef bint done = False
    try:
        out = column_new_flat(type, n, True, account, &values, &validity)
        for i in range(n):
            memset(values.data + i * sizeof(StringView), 0, sizeof(StringView))
            if begins[i + 1] == begins[i]:
                bit_clear(validity, i)
            else:
                text_of_rows(
                    views, order + begins[i], begins[i + 1] - begins[i], self.call, arena,
                    (<StringView*> values.data) + i, account,
                )
        out.heap_owner = owner_ref(<Owner*> arena)
        done = True
    finally:
        owner_unref(<Owner*> arena)
        if not done:
            column_unref(out)
    return out


cdef int text_of_rows(
    const StringView* views, const uint32_t* rows, int64_t n, const CallCollection* call, Arena* arena,
    StringView* out, const MemoryAccount* account,
) except -1 nogil:
    cdef int64_t size = (n - 1) * call.separator_bytes
    cdef char* end
    cdef int64_t i
    for i in range(n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        size += views[rows[i]].length
    if size > TEXT_BYTES_MAX:
        return raise_text_too_long()
    end = <char*> out + 4 if size <= VIEW_INLINE_BYTES else <char*> arena_take(arena, size)
    out.length = <uint32_t> size
    if size > VIEW_INLINE_BYTES:
        out.pointer = end
    for i in range(n):
        if i % CHECK_ROWS == 0:
            account_check(account)
        if i > 0 and call.separator_bytes > 0:
            memcpy(end, call.separator, call.separator_bytes)
            end += call.separator_bytes
        memcpy(end, view_data(&views[rows[i]]), views[rows[i]].length)
        end += views[rows[i]].length
    if size > VIEW_INLINE_BYTES:
        qc_check(end == out.pointer + size, b"a joined string has the length that was computed")
        memcpy(out.prefix, out.pointer, 4)
    return 0


cdef int raise_text_too_long() except -1 nogil:
    return raise_execution(b"a result of string_agg has more than 2 GB; aggregate fewer rows, or use array_agg")


cdef Column* list_column(
    HolisticValues* self, CSchema* schema, int field, int64_t start, int64_t n, MemoryAccount* account,
) except NULL nogil:
    """The values of each group as a list."""
    cdef const int64_t* begins = <const int64_t*> self.begins.data + start
    cdef int64_t count = begins[n] - begins[0]
    cdef Buffer* indices = NULL
    cdef Buffer* ends = NULL
    cdef int64_t i
    try:
        if count > 0x7FFFFFFF:
            raise_execution(b"the lists of array_agg have more than 2**31 - 1 values in one batch; use smaller groups")
        indices = buffer_new(account, (count + 1) * sizeof(uint32_t))
        bytes_copy(indices.data, <const uint32_t*> self.order.data + begins[0], count * sizeof(uint32_t), account)
        ends = buffer_new(account, (n + 1) * sizeof(int32_t))
        for i in range(n + 1):
            (<int32_t*> ends.data)[i] = <int32_t> (begins[i] - begins[0])
        return list_of_rows(self.values, indices, count, <int32_t*> ends.data, n, schema, field, account)
    finally:
        buffer_unref(indices)
        buffer_unref(ends)


cdef Column* list_of_rows(
    Column* values, Buffer* rows, int64_t n_rows, const int32_t* ends, int64_t n, CSchema* schema, int field,
    MemoryAccount* account,
) except NULL nogil:
    cdef Buffer* validity = NULL
    cdef int64_t i
    try:
        validity = buffer_new_zeroed(account, bitmap_bytes(n) + 1)
        for i in range(n):
            qc_check(0 <= ends[i] <= ends[i + 1] <= n_rows, b"the ends of lists ascend to the number of rows")
            if ends[i + 1] > ends[i]:
                bit_set(<uint8_t*> validity.data, i)
        with gil:
            return build_lists(values, rows, n_rows, ends, <const uint8_t*> validity.data, n, schema, field, account)
    finally:
        buffer_unref(validity)


cdef object take_values(
    Column* values, Schema schema, Buffer* rows, int64_t start, int64_t n, MemoryAccount* account,
):
    """The values of the rows rows[start..start+n) as a pyarrow.Array. `schema` has one column, that of the values."""
    import pyarrow

    cdef Batch* batch = NULL
    try:
        batch = batch_new(schema.schema, n)
        batch.columns[0] = column_take(values, <uint32_t*> rows.data + start, n, <Owner*> rows, account)
        return pyarrow.record_batch(PyBatch.wrap(batch)).column(0)
    finally:
        batch_unref(batch)


cdef Column* build_lists(
    Column* values, Buffer* rows, int64_t n_rows, const int32_t* ends, const uint8_t* validity, int64_t n,
    CSchema* schema, int field, MemoryAccount* account,
) except NULL:
    """Build the lists with pyarrow. The engine passes nested columns on, but does not build them."""
    cdef int64_t n_bytes = column_bytes(values) * n_rows // max(values.n_rows, <int64_t> 1)
    cdef Batch* lists
    # The pieces and the concatenated values are in memory at the same time.
    account_reserve(account, 2 * n_bytes)
    try:
        arrow = build_arrow_lists(values, rows, n_rows, ends, validity, n, schema, field, account)
    finally:
        account_release(account, 2 * n_bytes)
    lists = batch_of_arrow(arrow, account, True)
    try:
        return column_ref(lists.columns[0])
    finally:
        batch_unref(lists)


cdef object build_arrow_lists(
    Column* values, Buffer* rows, int64_t n_rows, const int32_t* ends, const uint8_t* validity, int64_t n,
    CSchema* schema, int field, MemoryAccount* account,
):
    """A record batch whose only column has the lists."""
    import pyarrow

    cdef int64_t at = 0
    list_type = pyarrow.schema(Schema.wrap(schema)).field(field).type
    flat = pyarrow.schema([pyarrow.field("value", list_type.value_type)])
    cdef Schema value_schema = Schema(flat)
    pieces = []
    while at < n_rows or not pieces:
        account_check(account)
        piece = take_values(values, value_schema, rows, at, min(n_rows - at, <int64_t> CHECK_ROWS), account)
        pieces.append(piece.cast(list_type.value_type))
        at += CHECK_ROWS
    elements = pyarrow.concat_arrays(pieces)
    buffers = [
        pyarrow.py_buffer((<const char*> validity)[:bitmap_bytes(n)]),
        pyarrow.py_buffer((<const char*> ends)[:(n + 1) * sizeof(int32_t)]),
    ]
    lists = pyarrow.Array.from_buffers(list_type, n, buffers, children=[elements])
    return pyarrow.RecordBatch.from_arrays([lists], names=["value"])
