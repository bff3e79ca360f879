"""Order by: all drivers sort together, and the last one to finish its input returns all rows."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, VectorScratch, column_slice, column_take
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport (
    Account, Owner, buffer_new, buffer_unref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.stats cimport WAIT_FOR_PEERS
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, YIELDED, Operator
from qcore_ext.rows.nested_rows cimport nested_part, schema_has_nested
from qcore_ext.rows.column_store cimport (
    ColumnStore, column_store_append, column_store_keep_nested, column_store_of,
)
from qcore_ext.sort.order cimport SortOrder
from qcore_ext.sort.shared_sort cimport HELPER_ROWS_MIN, STAGE_OUTPUT, STAGE_OVER, SortState
from qcore_ext.sort.sorted_columns cimport FROM_NESTED, SortedColumns
from qcore_ext.rows.widened_rows cimport column_store_widen

cdef enum:
    OUTPUT_ROWS = 65536


cdef class OrderBy(Operator):
    """Sorts all rows. The driver whose input is over last returns all rows in order; the other drivers return none.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    keys : list of (str, bool, bool)
        Column name, descending, nulls first.
    state : SortState, optional
        The state shared by the operators of one sort. Without it the operator sorts alone.

    Raises
    ------
    PlanError
        At bind, if a key's column is missing or its type has no order.
    """

    def __init__(self, str node_id, Account query_memory, list keys, SortState state=None):
        Operator.__init__(self, "OrderBy", node_id, query_memory)
        self.order = SortOrder(keys)
        self.state = state if state is not None else SortState(1)
        self.state.join(&self.membership)

    def __dealloc__(self):
        self.release()

    cdef int bind(self, CSchema* schema) except -1 nogil:
        cdef ColumnStore* wider
        with gil:
            self.order.resolve(schema)
        if self.rows != NULL:
            wider = column_store_widen(self.rows, self.input_schema, schema, self.memory)
            owner_unref(<Owner*> self.rows)
            self.rows = wider
        self.set_input_schema(schema)
        self.set_output_schema(schema)
        return self.prepare(schema)

    cdef int prepare(self, CSchema* schema) except -1 nogil:
        cdef int32_t i
        struct_free(self.positions)
        self.positions = NULL
        if schema_has_nested(schema):
            self.positions = <int32_t*> struct_new(schema.n_fields * sizeof(int32_t))
            for i in range(schema.n_fields):
                self.positions[i] = i
        if self.rows == NULL:
            self.rows = column_store_of(self.account, schema)
        if self.scratch == NULL:
            self.scratch = buffer_new(self.account, sizeof(VectorScratch))
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef const uint32_t* rows
        cdef int64_t n
        cdef int64_t start = 0
        if self.input_over:
            return REFUSED
        while start < batch.n_selected:
            n = min(batch.n_selected - start, <int64_t> VECTOR_ROWS)
            rows = batch.selection + start if batch.selection != NULL else NULL
            column_store_append(self.rows, batch.columns, start, rows, n, <VectorScratch*> self.scratch.data)
            start += n
        if self.positions != NULL:
            self.keep_nested(batch)
        batch_unref(batch)
        return ACCEPTED

    cdef int keep_nested(self, Batch* batch) except -1 nogil:
        cdef Batch* part = nested_part(batch, self.input_schema, self.positions)
        try:
            column_store_keep_nested(self.rows, <Owner*> part)
        finally:
            batch_unref(part)
        return 0

    cdef int finish(self) except -1 nogil:
        cdef ColumnStore* rows = self.rows
        cdef int64_t n_rows = rows.n_rows if rows != NULL else 0
        self.input_over = True
        buffer_unref(self.scratch)
        self.scratch = NULL
        if n_rows > 0:
            self.rows = NULL
        self.is_last = self.state.deliver(
            rows if n_rows > 0 else NULL, self.input_schema, self.order, self.memory, &self.membership
        )
        self.delivered = True
        self.helps = self.is_last or n_rows >= HELPER_ROWS_MIN
        if self.is_last:
            self.state.begin(self.order, self.input_schema, self.memory)
            if self.state.schema != NULL:
                self.set_output_schema(self.state.schema)
        return 0

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef int64_t stage
        if not self.input_over:
            return NEEDS_INPUT
        stage = qc_load(&self.state.stage)
        if not self.helps or stage == STAGE_OVER or (stage == STAGE_OUTPUT and not self.is_last):
            self.release()
            return FINISHED
        if stage == STAGE_OUTPUT:
            buffer_unref(self.work_space)
            self.work_space = NULL
            if self.next_row == self.state.n_rows:
                self.release()
                return FINISHED
            out[0] = self.next_batch()
            return OUTPUT
        if self.state.work(&self.work_space, self.account) or self.state.poll(stage, token) != stage:
            return YIELDED
        self.blocked_reason = WAIT_FOR_PEERS
        return BLOCKED

    cdef Batch* next_batch(self) except NULL nogil:
        cdef SortedColumns* columns = &self.state.columns
        cdef int64_t n = min(self.state.n_rows - self.next_row, <int64_t> OUTPUT_ROWS)
        cdef Batch* batch = batch_new(self.state.schema, n)
        cdef const uint32_t* rows
        cdef bint done = False
        cdef int32_t i
        qc_check(n > 0, b"the output position is before the end of the sorted rows")
        try:
            for i in range(columns.n_columns):
                if columns.columns[i].source == FROM_NESTED:
                    rows = <const uint32_t*> columns.positions.data + self.next_row
                    qc_check_rows(rows, n, self.state.n_rows, b"a sorted position is a row")
                    batch.columns[i] = column_take(
                        columns.columns[i].column, rows, n, <Owner*> columns.positions, self.account
                    )
                else:
                    batch.columns[i] = column_slice(columns.columns[i].column, self.next_row, n)
            done = True
        finally:
            if not done:
                batch_unref(batch)
        self.next_row += n
        return batch

    cdef void abandon(self) noexcept nogil:
        self.leave()
        self.release()

    cdef void close(self) noexcept nogil:
        self.leave()
        self.release()

    cdef void leave(self) noexcept nogil:
        """Leave the barrier without rows. This driver needs no output: if it is the last, the sort stops."""
        if not self.delivered:
            self.delivered = True
            self.is_last = self.state.leave(&self.membership)
        if self.is_last and self.next_row == 0:
            self.state.stop()

    cdef void release(self) noexcept nogil:
        struct_free(self.positions)
        self.positions = NULL
        buffer_unref(self.scratch)
        buffer_unref(self.work_space)
        owner_unref(<Owner*> self.rows)
        self.scratch = NULL
        self.work_space = NULL
        self.rows = NULL
        if self.is_last and self.state is not None:
            self.state.drop_columns()
