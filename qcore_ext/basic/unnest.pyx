"""Unnest: a row for each element of a list, with the other columns repeated.

No value is copied. The elements are the child of the list's Arrow array. They and the other columns are returned as
dictionary columns: row numbers over a base. Output batches are bounded, however long a list is.
"""

from libc.stdint cimport UINT32_MAX, int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport NO_ROW, Column, column_constant_null, column_new_flat, column_take, columns_take
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.bitmap cimport bit_clear
from qcore_ext.ground.memory cimport Account, Buffer, Owner, buffer_new, buffer_unref, struct_free, struct_new
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.basic.list_column cimport ListColumn, list_at, list_close, list_open

from qcore_ext.ground.status import PlanError

cdef enum:
    OUTPUT_ROWS = 32768
    LISTS_MAX = 16


cdef class Unnest(Operator):
    """Makes a row of each element of one or more list columns, side by side.

    If the lists of one row differ in length, the shorter ones are filled with nulls.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    compile : callable
        Takes the input's Schema. Returns the output's Schema and two lists of int: the positions of the list
        columns in the input, and the origin of each output column: a position in the input; -1 for the elements of
        the first list, -2 for those of the second and so on; one less than the last list's for the number of the
        element, counted from 1.
    outer : bool
        A row whose lists are all empty or null gives one row with nulls. By default it gives no row.
    """
    cdef object compile
    cdef bint outer
    cdef bint input_over
    cdef int32_t n_lists
    cdef int32_t* positions     # owned; of the list columns
    cdef int32_t* origins       # owned; of the output columns
    cdef ListColumn* lists      # owned; open while there is a batch
    cdef Column** repeated      # owned array of borrowed columns: one for each output column, then the results of take
    cdef Batch* batch           # owned; the batch being unnested
    cdef int64_t position       # position, among the selected rows, of the row being unnested
    cdef int64_t element        # elements of that row done so far

    def __init__(self, str node_id, Account query_memory, compile, bint outer=False):
        Operator.__init__(self, "Unnest", node_id, query_memory)
        self.compile = compile
        self.outer = outer

    def __dealloc__(self):
        self.drop_batch()
        self.drop_plan()

    cdef void drop_plan(self) noexcept nogil:
        struct_free(self.positions)
        struct_free(self.origins)
        struct_free(self.lists)
        struct_free(self.repeated)
        self.positions = NULL
        self.origins = NULL
        self.lists = NULL
        self.repeated = NULL

    cdef void drop_batch(self) noexcept nogil:
        cdef int32_t i
        if self.lists != NULL:
            for i in range(self.n_lists):
                list_close(&self.lists[i])
        batch_unref(self.batch)
        self.batch = NULL

    cdef int bind(self, CSchema* schema) except -1 nogil:
        with gil:
            self.bind_plan(Schema.wrap(schema))
        self.set_input_schema(schema)
        return 0

    cdef int bind_plan(self, Schema schema) except -1:
        cdef Schema output
        output, positions, origins = self.compile(schema)
        if not 1 <= len(positions) <= LISTS_MAX:
            raise PlanError(f"a step unnests 1 to {LISTS_MAX} lists side by side, not {len(positions)}")
        self.drop_plan()
        self.n_lists = <int32_t> len(positions)
        self.positions = <int32_t*> struct_new(self.n_lists * sizeof(int32_t))
        self.origins = <int32_t*> struct_new((output.schema.n_fields + 1) * sizeof(int32_t))
        self.lists = <ListColumn*> struct_new(self.n_lists * sizeof(ListColumn))
        self.repeated = <Column**> struct_new((2 * output.schema.n_fields + 1) * sizeof(Column*))
        for i, position in enumerate(positions):
            self.positions[i] = position
        for i, origin in enumerate(origins):
            self.origins[i] = origin
        self.set_output_schema(output.schema)
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return self.batch == NULL and not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef int32_t i
        cdef int32_t j = 0
        if self.batch != NULL or self.input_over:
            return REFUSED
        for i in range(self.n_lists):
            for j in range(self.output_schema.n_fields):
                if self.origins[j] == -1 - i:
                    break
            list_open(
                &self.lists[i], batch.columns[self.positions[i]],
                batch.schema.fields[self.positions[i]].nested, &self.output_schema.fields[j].type, self.account,
            )
        self.batch = batch
        self.position = 0
        self.element = 0
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.batch != NULL:
            out[0] = self.next_rows()
            if self.position == self.batch.n_selected:
                self.drop_batch()
            if out[0] != NULL:
                return OUTPUT
        return FINISHED if self.input_over else NEEDS_INPUT

    cdef Batch* next_rows(self) except? NULL nogil:
        """The next output batch, or NULL when the input batch is done."""
        cdef Batch* out = NULL
        cdef int64_t n
        cdef Buffer* indices = buffer_new(self.account, (self.n_lists + 2) * OUTPUT_ROWS * <int64_t> sizeof(uint32_t))
        try:
            n = self.fill(<uint32_t*> indices.data)
            if n > 0:
                out = self.take(<uint32_t*> indices.data, n, indices)
        finally:
            buffer_unref(indices)
        return out

    cdef int64_t fill(self, uint32_t* indices) except -1 nogil:
        """Fill in row numbers, element numbers of each list, and positions in the lists. Returns the number of rows."""
        cdef uint32_t* rows = indices
        cdef uint32_t* positions_in_lists = indices + (self.n_lists + 1) * OUTPUT_ROWS
        cdef uint32_t* elements
        cdef int64_t starts[LISTS_MAX]
        cdef int64_t lengths[LISTS_MAX]
        cdef int64_t n = 0
        cdef int64_t i, j, k, until, longest, row
        while self.position < self.batch.n_selected and n < OUTPUT_ROWS:
            row = self.batch.selection[self.position] if self.batch.selection != NULL else self.position
            longest = 0
            for k in range(self.n_lists):
                starts[k] = 0
                lengths[k] = list_at(&self.lists[k], row, &starts[k])
                if lengths[k] < 0 or starts[k] + lengths[k] >= UINT32_MAX:
                    return raise_execution(b"an Arrow list array names elements it does not have, or above 2**32 - 2")
                longest = max(longest, lengths[k])
            if longest == 0:
                if self.outer:
                    rows[n] = <uint32_t> row
                    positions_in_lists[n] = <uint32_t> NO_ROW
                    for k in range(self.n_lists):
                        indices[(k + 1) * OUTPUT_ROWS + n] = <uint32_t> NO_ROW
                    n += 1
                self.position += 1
                continue
            until = min(longest - self.element, OUTPUT_ROWS - n)
            for i in range(until):
                rows[n + i] = <uint32_t> row
                positions_in_lists[n + i] = <uint32_t> (self.element + i)
            for k in range(self.n_lists):
                elements = indices + (k + 1) * OUTPUT_ROWS + n
                j = min(max(lengths[k] - self.element, <int64_t> 0), until)
                for i in range(j):
                    elements[i] = <uint32_t> (starts[k] + self.element + i)
                for i in range(j, until):
                    elements[i] = <uint32_t> NO_ROW
            n += until
            self.element += until
            if self.element == longest:
                self.element = 0
                self.position += 1
        qc_check(n <= OUTPUT_ROWS, b"an output batch is within its bound")
        qc_check_rows(rows, n, self.batch.n_rows, b"a repeated row is a row of the input")
        return n

    cdef Batch* take(self, const uint32_t* indices, int64_t n, Buffer* owner) except NULL nogil:
        cdef Batch* out = batch_new(self.output_schema, n)
        cdef Column** repeated = self.repeated
        cdef Column** taken = self.repeated + out.n_columns
        cdef int64_t n_repeated = 0
        cdef int64_t n_taken = 0
        cdef int32_t i, of
        cdef bint done = False
        try:
            for i in range(out.n_columns):
                of = self.origins[i]
                if of >= 0:
                    repeated[n_repeated] = self.batch.columns[of]
                    n_repeated += 1
                elif of < -self.n_lists:
                    out.columns[i] = self.numbers(i, indices + (self.n_lists + 1) * OUTPUT_ROWS, n)
                elif self.lists[-1 - of].elements == NULL:
                    out.columns[i] = column_constant_null(&self.output_schema.fields[i].type, n)
                else:
                    out.columns[i] = column_take(
                        self.lists[-1 - of].elements, indices - of * OUTPUT_ROWS, n, <Owner*> owner, self.account
                    )
            # Taken together, so that columns from one join or filter keep sharing their indices.
            columns_take(repeated, n_repeated, indices, n, <Owner*> owner, self.account, taken)
            for i in range(out.n_columns):
                if self.origins[i] >= 0:
                    out.columns[i] = taken[n_taken]
                    n_taken += 1
            done = True
        finally:
            if not done:
                batch_unref(out)
        return out

    cdef Column* numbers(self, int32_t column, const uint32_t* positions_in_lists, int64_t n) except NULL nogil:
        """The number of each element in its list, from 1. Null if there is no element."""
        cdef Buffer* values = NULL
        cdef uint8_t* validity = NULL
        cdef Column* made = column_new_flat(
            &self.output_schema.fields[column].type, n, self.outer, self.account, &values, &validity
        )
        cdef int64_t* out = <int64_t*> values.data
        cdef int64_t i
        for i in range(n):
            out[i] = <int64_t> positions_in_lists[i] + 1
        if validity != NULL:
            for i in range(n):
                if positions_in_lists[i] == <uint32_t> NO_ROW:
                    bit_clear(validity, i)
        return made

    cdef int finish(self) except -1 nogil:
        self.input_over = True
        return 0

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        self.drop_batch()
