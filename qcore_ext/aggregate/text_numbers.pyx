"""Text numbers: rows are grouped by the numbers of their texts instead of by the texts."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport NO_ROW, VECTOR_BITMAP_BYTES, VECTOR_ROWS, column_take, column_unref
from qcore_ext.data.schema cimport PHYS_U32, PHYS_VIEW, TYPE_UINT32
from qcore_ext.ground.bitmap cimport bit_get
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    account_check, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.aggregate.group_table cimport (
    GROUP_SCRATCH_BYTES, group_table_assign, group_table_column, group_table_free, group_table_new,
)
from qcore_ext.rows.key_columns cimport key_columns_vector

cdef enum:
    TEXTS_FREE = 1024           # of a column: numbered without a look at the groups
    # GROUPS_PER_TEXT groups for each text are wanted if there are more texts than this, or if most groups were met,
    # which then have ROWS_PER_GROUP rows each.
    TEXTS_FEW = 16384
    GROUPS_PER_TEXT = 4
    ROWS_PER_GROUP = 2
    TEXTS_MAX = 131072          # more do not stay in the caches


cdef bint text_numbers_suit(
    const DataType* types, int32_t n_keys, const AggregateInput* inputs, int32_t n_inputs,
) noexcept nogil:
    cdef bint any_text = False
    cdef int32_t i, j, argument
    for i in range(n_keys):
        any_text = any_text or types[i].phys == PHYS_VIEW
    if not any_text or n_keys == 1:
        return False
    if inputs == NULL:
        return True
    for i in range(n_inputs):
        for j in range(inputs[i].call.n_arguments):
            argument = inputs[i].call.arguments[j]
            if argument < n_keys and types[argument].phys == PHYS_VIEW:
                return False
    return True


cdef TextNumbers* text_numbers_new(
    MemoryAccount* account, const DataType* types, int32_t n_vectors, int32_t n_keys,
) except NULL nogil:
    cdef TextNumbers* numbers = <TextNumbers*> struct_new(sizeof(TextNumbers))
    cdef bint done = False
    cdef int32_t i
    try:
        numbers.account = account
        numbers.n_keys = n_keys
        numbers.types = <DataType*> struct_new(n_vectors * sizeof(DataType))
        memcpy(numbers.types, types, n_vectors * sizeof(DataType))
        numbers.tables = <GroupTable**> struct_new(n_keys * sizeof(GroupTable*))
        numbers.texts = <Column**> struct_new(n_keys * sizeof(Column*))
        numbers.numbers = buffer_new(account, n_keys * VECTOR_ROWS * sizeof(uint32_t))
        numbers.scratch = buffer_new(account, GROUP_SCRATCH_BYTES)
        for i in range(n_keys):
            if types[i].phys == PHYS_VIEW:
                numbers.tables[i] = group_table_new(account, &types[i], 1, numbers.scratch)
                memset(&numbers.types[i], 0, sizeof(DataType))
                numbers.types[i].id = TYPE_UINT32
                numbers.types[i].phys = PHYS_U32
                numbers.types[i].nullable = types[i].nullable
        done = True
    finally:
        if not done:
            text_numbers_free(numbers)
    return numbers


cdef int number_groups(TextNumbers* numbers, const GroupTable* table) except -1 nogil:
    cdef Buffer* scratch = buffer_new(numbers.account, numbers.n_keys * (sizeof(Vector) + VECTOR_BITMAP_BYTES))
    cdef Vector* vectors = <Vector*> scratch.data
    cdef uint8_t* bits = <uint8_t*> (vectors + numbers.n_keys)
    cdef int64_t start = 0
    cdef int64_t n
    cdef int32_t i
    try:
        while start < table.n_groups:
            account_check(numbers.account)
            n = min(table.n_groups - start, <int64_t> VECTOR_ROWS)
            for i in range(numbers.n_keys):
                if numbers.tables[i] != NULL:
                    key_columns_vector(table.stored, i, start, n, bits + i * VECTOR_BITMAP_BYTES, &vectors[i])
            text_numbers_put(numbers, vectors, n)
            start += n
    finally:
        buffer_unref(scratch)
    return 0


cdef int text_numbers_of(
    const GroupTable* table, const DataType* types, int32_t n_vectors, TextNumbers** out,
) except -1 nogil:
    cdef TextNumbers* numbers = text_numbers_new(table.account, types, n_vectors, table.n_columns)
    cdef bint done = False
    out[0] = NULL
    try:
        number_groups(numbers, table)
        done = not text_numbers_are_many(numbers, table.n_groups, 0)
    finally:
        if not done:
            text_numbers_free(numbers)
    if done:
        out[0] = numbers
    return 0


cdef void text_numbers_free(TextNumbers* numbers) noexcept nogil:
    cdef int32_t i
    if numbers == NULL:
        return
    for i in range(numbers.n_keys):
        if numbers.tables != NULL:
            group_table_free(numbers.tables[i])
        if numbers.texts != NULL:
            column_unref(numbers.texts[i])
    struct_free(numbers.tables)
    struct_free(numbers.texts)
    struct_free(numbers.types)
    buffer_unref(numbers.numbers)
    buffer_unref(numbers.scratch)
    struct_free(numbers)


cdef int text_numbers_put(TextNumbers* numbers, Vector* vectors, int64_t n) except -1 nogil:
    cdef uint32_t* into = <uint32_t*> numbers.numbers.data
    cdef int32_t i
    for i in range(numbers.n_keys):
        if numbers.tables[i] != NULL:
            group_table_assign(numbers.tables[i], &vectors[i], NULL, n, into)
            # Nulls have a number too, but the vector's validity tells them apart.
            vectors[i].phys = PHYS_U32
            vectors[i].values = into
            into += VECTOR_ROWS
    return 0


cdef bint text_numbers_are_many(const TextNumbers* numbers, int64_t n_groups, int64_t n_rows) noexcept nogil:
    cdef bint are_met = 0 < ROWS_PER_GROUP * n_groups <= n_rows
    cdef int64_t n_texts
    cdef int32_t i
    n_groups += numbers.n_returned
    for i in range(numbers.n_keys):
        n_texts = numbers.tables[i].n_groups if numbers.tables[i] != NULL else 0
        if n_texts > TEXTS_MAX:
            return True
        if (n_texts > TEXTS_FEW or n_texts > TEXTS_FREE and are_met) and n_texts * GROUPS_PER_TEXT > n_groups:
            return True
        # The first 2,048 rows may all be of groups of their own. But 16,000 texts have 1,920 of their own there.
        if n_texts > TEXTS_FREE and n_texts > n_groups - (n_groups >> 5):
            return True
    return False


cdef Column* texts_of(TextNumbers* numbers, int32_t key) except NULL nogil:
    """The texts of a key column, by number. Kept for the next batch that returns groups."""
    cdef int64_t n = numbers.tables[key].n_groups
    if numbers.texts[key] == NULL or numbers.texts[key].n_rows < n:
        column_unref(numbers.texts[key])
        numbers.texts[key] = NULL
        numbers.texts[key] = group_table_column(numbers.tables[key], 0, 0, n, numbers.account)
    return numbers.texts[key]


cdef int text_numbers_columns(TextNumbers* numbers, Column** columns) except -1 nogil:
    cdef Column* of_numbers
    cdef Column* texts
    cdef uint32_t* at
    cdef int32_t i
    cdef int64_t row
    for i in range(numbers.n_keys):
        if numbers.tables[i] == NULL:
            continue
        of_numbers = columns[i]
        texts = texts_of(numbers, i)
        # The column of numbers was made for this call: its values become the index vector.
        at = <uint32_t*> of_numbers.values
        for row in range(of_numbers.n_rows):
            if of_numbers.validity != NULL and not bit_get(of_numbers.validity, row):
                at[row] = NO_ROW
            qc_check(at[row] == NO_ROW or at[row] < texts.n_rows, b"a number of a text is one of the numbers")
        columns[i] = column_take(texts, at, of_numbers.n_rows, of_numbers.values_owner, numbers.account)
        column_unref(of_numbers)
    return 0
