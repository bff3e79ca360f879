"""Order by: each driver sorts a run, and the last driver to finish merges the runs and returns all rows."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Column, VectorScratch, column_ref, column_unref, columns_take
from qcore_ext.data.schema cimport TYPE_NESTED, CSchema, DataType, schema_equal
from qcore_ext.data.widening cimport schema_widen
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport (
    Account, Owner, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.rows.nested_rows cimport nested_concat, nested_part, schema_has_nested
from qcore_ext.rows.column_store cimport (
    ColumnStore, column_store_append, column_store_column, column_store_concat, column_store_keep_nested,
    column_store_new,
)
from qcore_ext.sort.order cimport SortOrder
from qcore_ext.sort.run cimport SortRun, sort_run_free, sort_run_new
from qcore_ext.sort.merge cimport SortState, merge_runs
from qcore_ext.rows.widened_rows cimport column_store_widen

cdef enum:
    OUTPUT_ROWS = 65536


cdef class OrderBy(Operator):
    """Sorts all rows. The driver that finishes last returns all rows in order; the other drivers return none.

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
        cdef DataType* types = <DataType*> struct_new(max(schema.n_fields, 1) * sizeof(DataType))
        cdef int32_t i
        struct_free(self.positions)
        self.positions = NULL
        try:
            if schema_has_nested(schema):
                self.positions = <int32_t*> struct_new(schema.n_fields * sizeof(int32_t))
            for i in range(schema.n_fields):
                types[i] = schema.fields[i].type
                if self.positions != NULL:
                    self.positions[i] = i
            if self.rows == NULL:
                self.rows = column_store_new(self.account, types, schema.n_fields)
            if self.scratch == NULL:
                self.scratch = buffer_new(self.account, sizeof(VectorScratch))
        finally:
            struct_free(types)
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
        cdef SortRun* run = NULL
        cdef ColumnStore* rows = self.rows
        self.input_over = True
        buffer_unref(self.scratch)
        self.scratch = NULL
        if rows != NULL and rows.n_rows > 0:
            self.rows = NULL
            run = sort_run_new(
                rows, self.input_schema, self.order.parts, self.order.first_open, self.order.n_keys, self.account
            )
        self.delivered = True
        if self.state.deliver(run, &self.membership):
            self.merge()
        return 0

    cdef int merge(self) except -1 nogil:
        """Merge all delivered runs into one order over one set of columns."""
        cdef SortRun** runs = self.state.runs
        cdef int64_t n_runs = self.state.n_runs
        cdef ColumnStore** parts = NULL
        cdef ColumnStore* all_rows = NULL
        cdef int64_t i
        if n_runs == 0:
            return 0
        try:
            self.align_runs(runs, n_runs)
            self.merged = merge_runs(
                runs, n_runs, self.order.parts, self.order.first_open, self.order.n_keys, self.account
            )
            parts = <ColumnStore**> struct_new(n_runs * sizeof(ColumnStore*))
            for i in range(n_runs):
                parts[i] = runs[i].rows
                self.n_merged += runs[i].rows.n_rows
            all_rows = column_store_concat(parts, n_runs, self.account)
            self.merged_schema = <CSchema*> owner_ref(<Owner*> runs[0].schema)
            self.take_columns(all_rows)
        finally:
            struct_free(parts)
            owner_unref(<Owner*> all_rows)
            self.state.clear()
        return 0

    cdef int align_runs(self, SortRun** runs, int64_t n_runs) except -1 nogil:
        """Widen all runs to one schema, and resolve the keys in it. Drivers may have seen several schemas (SPEC D6)."""
        cdef CSchema* wide = <CSchema*> owner_ref(<Owner*> runs[0].schema)
        cdef CSchema* wider
        cdef SortRun* run
        cdef int64_t i
        try:
            for i in range(1, n_runs):
                wider = schema_widen(wide, runs[i].schema)
                owner_unref(<Owner*> wide)
                wide = wider
            if self.input_schema == NULL or not schema_equal(self.input_schema, wide):
                with gil:
                    self.order.resolve(wide)
            for i in range(n_runs):
                if not schema_equal(runs[i].schema, wide):
                    run = sort_run_new(
                        column_store_widen(runs[i].rows, runs[i].schema, wide, self.memory), wide, self.order.parts,
                        self.order.first_open, self.order.n_keys, self.account,
                    )
                    sort_run_free(runs[i])
                    runs[i] = run
            self.set_output_schema(wide)
        finally:
            owner_unref(<Owner*> wide)
        return 0

    cdef int take_columns(self, ColumnStore* rows) except -1 nogil:
        cdef Batch* nested = NULL
        cdef int32_t n_nested = 0
        cdef int32_t i
        self.columns = <Column**> struct_new(max(rows.n_columns, 1) * sizeof(Column*))
        self.n_columns = rows.n_columns
        try:
            if rows.nested != NULL:
                nested = nested_concat(rows.nested, self.account)
            for i in range(rows.n_columns):
                if rows.columns[i].type.id == TYPE_NESTED:
                    self.columns[i] = column_ref(nested.columns[n_nested])
                    n_nested += 1
                else:
                    self.columns[i] = column_store_column(rows, i)
        finally:
            batch_unref(nested)
        return 0

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef Batch* batch
        cdef int64_t n
        cdef bint done = False
        if not self.input_over:
            return NEEDS_INPUT
        if self.next_row == self.n_merged:
            self.release()
            return FINISHED
        n = min(self.n_merged - self.next_row, <int64_t> OUTPUT_ROWS)
        qc_check(n > 0, b"the output position is before the end of the merged rows")
        qc_check_rows(
            (<uint32_t*> self.merged.data) + self.next_row, n, self.n_merged, b"a merged position is a row of a run"
        )
        batch = batch_new(self.merged_schema, n)
        try:
            columns_take(
                self.columns, self.n_columns, (<uint32_t*> self.merged.data) + self.next_row, n, <Owner*> self.merged,
                self.account, batch.columns,
            )
            done = True
        finally:
            if not done:
                batch.n_columns = 0         # columns_take has dropped the columns that it made
                batch_unref(batch)
        self.next_row += n
        out[0] = batch
        return OUTPUT

    cdef void abandon(self) noexcept nogil:
        self.leave()
        self.release()

    cdef void close(self) noexcept nogil:
        self.leave()
        self.release()

    cdef void leave(self) noexcept nogil:
        """Leave the barrier without a run. This driver needs no output: if it is the last, the runs are not merged."""
        if not self.delivered:
            self.delivered = True
            if self.state.deliver(NULL, &self.membership):
                self.state.clear()

    cdef void release(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.n_columns):
            column_unref(self.columns[i])
        struct_free(self.columns)
        self.columns = NULL
        self.n_columns = 0
        self.next_row = self.n_merged
        struct_free(self.positions)
        self.positions = NULL
        buffer_unref(self.merged)
        buffer_unref(self.scratch)
        owner_unref(<Owner*> self.rows)
        owner_unref(<Owner*> self.merged_schema)
        self.merged = NULL
        self.scratch = NULL
        self.rows = NULL
        self.merged_schema = NULL
