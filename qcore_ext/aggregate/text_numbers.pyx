"""Text numbers: rows are grouped by the numbers of their texts instead of by the texts."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport NO_ROW, VECTOR_ROWS, column_take, column_unref
from qcore_ext.data.schema cimport PHYS_U32, PHYS_VIEW, TYPE_UINT32
from qcore_ext.ground.bitmap cimport bit_get
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Owner, buffer_new, buffer_unref, owner_ref, struct_free, struct_new,
)
from qcore_ext.aggregate.group_table cimport (
    GROUP_SCRATCH_BYTES, group_table_assign, group_table_column, group_table_free, group_table_new,
)

cdef enum:
    TEXTS_FREE = 4096           # of a column, whatever the number of rows
    TEXTS_MAX = 131072          # of a column: more do not stay in the caches
    ROWS_PER_TEXT = 2           # fewer rows than that for each text: numbers cost more than they save


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
    numbers.n_rows += n
    return 0


cdef bint text_numbers_are_many(const TextNumbers* numbers) noexcept nogil:
    cdef int64_t most = numbers.n_rows // ROWS_PER_TEXT
    cdef int32_t i
    most = min(max(most, <int64_t> TEXTS_FREE), <int64_t> TEXTS_MAX)
    for i in range(numbers.n_keys):
        if numbers.tables[i] != NULL and numbers.tables[i].n_groups > most:
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
