"""Grouping sets: the operator returns each batch once for each set. Keys that are not in the set are null.

No value is copied. The output batches share the input's columns, and the other columns are constants. A set without
keys has one group even if there are no rows. Therefore a driver without rows returns one row for such a set, marked as
not from the input.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport CONSTANT, Column, column_constant_null, column_new, column_ref
from qcore_ext.data.schema cimport CSchema, DataType, Schema, schema_copy_field, schema_new
from qcore_ext.ground.memory cimport (
    Account, Buffer, MemoryAccount, Owner, buffer_new, buffer_unref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator

from qcore_ext.ground.status import PlanError

cdef enum:
    VALUE_BYTES = 8


cdef Column* constant_column(
    const DataType* type, int64_t value, int64_t n_rows, MemoryAccount* account,
) except NULL nogil:
    """A column that repeats one value n_rows times. The type has at most eight bytes."""
    cdef Buffer* buffer = buffer_new(account, VALUE_BYTES)
    cdef Column* column = NULL
    (<int64_t*> buffer.data)[0] = value
    try:
        column = column_new(type, n_rows)
        column.encoding = CONSTANT
        column.values = buffer.data
        column.values_owner = <Owner*> buffer
    finally:
        if column == NULL:
            buffer_unref(buffer)
    return column


cdef class GroupingSets(Operator):
    """Repeats its input once for each grouping set.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    sets : list of list of int
        The keys of each set, as positions among the first columns.
    numbers : list of int
        The value of the number column for each set.
    n_keys : int
        The number of keys. They are the first columns.
    schema : Schema
        The output schema: the input's columns, the set's number (int64), and a boolean that is true if the row is from
        the input and null otherwise.

    Raises
    ------
    PlanError
        If a set names a key that does not exist, or, at bind, if the output schema does not fit the input.
    """
    cdef int64_t n_sets
    cdef int32_t n_keys
    cdef uint8_t* kept          # owned; n_keys flags a set: whether the key is in the set
    cdef int64_t* numbers       # owned
    cdef bint* is_empty         # owned; whether the set has no keys
    cdef Batch* batch           # owned; the batch that is being repeated
    cdef int64_t next_set
    cdef bint has_rows
    cdef bint input_over

    def __init__(self, str node_id, Account query_memory, list sets, list numbers, int32_t n_keys, Schema schema):
        Operator.__init__(self, "GroupingSets", node_id, query_memory)
        self.n_sets = len(sets)
        self.n_keys = n_keys
        self.kept = <uint8_t*> struct_new(self.n_sets * n_keys + 1)
        self.numbers = <int64_t*> struct_new((self.n_sets + 1) * sizeof(int64_t))
        self.is_empty = <bint*> struct_new((self.n_sets + 1) * sizeof(bint))
        for i, (keys, number) in enumerate(zip(sets, numbers, strict=True)):
            self.numbers[i] = number
            self.is_empty[i] = not keys
            for key in keys:
                if not 0 <= key < n_keys:
                    raise PlanError(
                        f"a grouping set of node {node_id} names key {key}; the keys are numbered 0 to {n_keys - 1}"
                    )
                self.kept[i * n_keys + <int64_t> key] = 1
        self.set_output_schema(schema.schema)

    def __dealloc__(self):
        batch_unref(self.batch)
        struct_free(self.kept)
        struct_free(self.numbers)
        struct_free(self.is_empty)

    cdef int bind(self, CSchema* schema) except -1 nogil:
        if self.input_schema == NULL and schema.n_fields + 2 != self.output_schema.n_fields:
            with gil:
                raise PlanError(
                    f"GroupingSets of node {self.node_id} adds two columns to its input, but its input has "
                    f"{schema.n_fields} columns and its output {self.output_schema.n_fields}"
                )
        self.widen_output(schema)
        self.set_input_schema(schema)
        return 0

    cdef int widen_output(self, CSchema* schema) except -1 nogil:
        """Set the output schema to this input's columns and the two columns of the operator."""
        cdef CSchema* output = schema_new(schema.n_fields + 2)
        cdef int32_t n_before = self.output_schema.n_fields
        cdef int32_t i
        try:
            for i in range(schema.n_fields):
                schema_copy_field(output, i, &schema.fields[i], NULL)
                output.fields[i].type.nullable = 1
            for i in range(2):
                schema_copy_field(output, schema.n_fields + i, &self.output_schema.fields[n_before - 2 + i], NULL)
            self.set_output_schema(output)
        finally:
            owner_unref(<Owner*> output)
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return self.batch == NULL and not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if self.batch != NULL or self.input_over:
            return REFUSED
        if batch.n_selected == 0:
            batch_unref(batch)
            return ACCEPTED
        self.batch = batch
        self.has_rows = True
        self.next_set = 0
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.batch != NULL:
            out[0] = self.repeat_batch(self.next_set)
            self.next_set += 1
            if self.next_set == self.n_sets:
                batch_unref(self.batch)
                self.batch = NULL
            return OUTPUT
        if not self.input_over:
            return NEEDS_INPUT
        if not self.has_rows:
            while self.next_set < self.n_sets:
                self.next_set += 1
                if self.is_empty[self.next_set - 1]:
                    out[0] = self.row_of_nulls(self.next_set - 1)
                    return OUTPUT
        return FINISHED

    cdef Batch* repeat_batch(self, int64_t set_number) except NULL nogil:
        """The batch for one set."""
        cdef Batch* batch = batch_new(self.output_schema, self.batch.n_rows)
        cdef int32_t n_inputs = self.batch.n_columns
        cdef const uint8_t* kept = self.kept + set_number * self.n_keys
        cdef int64_t n = self.batch.n_rows
        cdef bint done = False
        cdef int32_t i
        try:
            for i in range(n_inputs):
                if i < self.n_keys and not kept[i]:
                    batch.columns[i] = column_constant_null(&self.output_schema.fields[i].type, n)
                else:
                    batch.columns[i] = column_ref(self.batch.columns[i])
            batch.columns[n_inputs] = constant_column(
                &self.output_schema.fields[n_inputs].type, self.numbers[set_number], n, self.account
            )
            batch.columns[n_inputs + 1] = constant_column(
                &self.output_schema.fields[n_inputs + 1].type, 1, n, self.account
            )
            if self.batch.selection != NULL:
                batch_select(batch, self.batch.selection, self.batch.n_selected, self.batch.selection_owner)
            done = True
        finally:
            if not done:
                batch_unref(batch)
        return batch

    cdef Batch* row_of_nulls(self, int64_t set_number) except NULL nogil:
        """One row that makes the only group of a set without keys."""
        cdef int32_t n = self.output_schema.n_fields
        cdef Batch* batch = batch_new(self.output_schema, 1)
        cdef bint done = False
        cdef int32_t i
        try:
            for i in range(n):
                if i == n - 2:
                    batch.columns[i] = constant_column(
                        &self.output_schema.fields[i].type, self.numbers[set_number], 1, self.account
                    )
                else:
                    batch.columns[i] = column_constant_null(&self.output_schema.fields[i].type, 1)
            done = True
        finally:
            if not done:
                batch_unref(batch)
        return batch

    cdef int finish(self) except -1 nogil:
        self.input_over = True
        if not self.has_rows:
            self.next_set = 0
        return 0

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        batch_unref(self.batch)
        self.batch = NULL
