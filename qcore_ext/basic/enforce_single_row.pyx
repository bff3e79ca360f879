"""EnforceSingleRow: a subquery used as a value has one row."""

from libc.stdint cimport int32_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport column_constant_null
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.rows.widened_rows cimport batch_widen


cdef class EnforceSingleRow(Operator):
    """Passes the one row of its input on. If the input has no row, returns a row of nulls. Runs with one driver.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    schema : Schema
        Schema of the row of nulls.

    Raises
    ------
    ExecutionError
        The input has a second row.
    """
    cdef Batch* row             # owned
    cdef bint input_over
    cdef bint given

    def __init__(self, str node_id, Account query_memory, Schema schema):
        Operator.__init__(self, "EnforceSingleRow", node_id, query_memory)
        self.set_output_schema(schema.schema)

    def __dealloc__(self):
        batch_unref(self.row)

    cdef int bind(self, CSchema* schema) except -1 nogil:
        cdef Batch* wider
        if self.row != NULL:
            wider = batch_widen(self.row, schema, self.memory)
            batch_unref(self.row)
            self.row = wider
        self.set_input_schema(schema)
        self.set_output_schema(schema)
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if self.input_over:
            return REFUSED
        if batch.n_selected > 1 or (batch.n_selected == 1 and self.row != NULL):
            return raise_execution(
                b"a subquery used as a value returned more than one row; aggregate it, or add LIMIT 1"
            )
        if batch.n_selected == 1:
            self.row = batch
        else:
            batch_unref(batch)
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if not self.input_over:
            return NEEDS_INPUT
        if self.given:
            return FINISHED
        self.given = True
        if self.row == NULL:
            self.row = self.row_of_nulls()
        out[0] = self.row
        self.row = NULL
        return OUTPUT

    cdef Batch* row_of_nulls(self) except NULL nogil:
        cdef Batch* batch = batch_new(self.output_schema, 1)
        cdef bint done = False
        cdef int32_t i
        try:
            for i in range(batch.n_columns):
                batch.columns[i] = column_constant_null(&self.output_schema.fields[i].type, 1)
            done = True
        finally:
            if not done:
                batch_unref(batch)
        return batch

    cdef int finish(self) except -1 nogil:
        self.input_over = True
        return 0

    cdef void close(self) noexcept nogil:
        batch_unref(self.row)
        self.row = NULL
