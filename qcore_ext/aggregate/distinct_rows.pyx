"""A set of distinct rows that finds the new rows of a batch. A recursive UNION keeps it between its rounds."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from qcore_ext.data.batch cimport Batch, batch_ref, batch_take, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport VECTOR_ROWS, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport TYPE_NESTED, DataType, Schema, schema_equal
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.aggregate.widened_groups cimport group_table_widen
from qcore_ext.aggregate.group_table cimport GroupTable, group_table_assign, group_table_free, group_table_new

from qcore_ext.ground.status import PlanError, SchemaChangeError


cdef class DistinctRows:
    """A set of rows in which nulls equal nulls. One thread uses it at a time.

    Parameters
    ----------
    schema : Schema
        The schema of the rows. No column may be nested.
    memory : Account
        The account that is charged for the rows.

    Raises
    ------
    PlanError
        If a column is nested.
    """
    cdef GroupTable* table      # owned
    cdef Buffer* scratch        # owned; one VectorScratch a column
    cdef Schema schema
    cdef Account memory

    def __init__(self, Schema schema, Account memory):
        self.memory = memory
        self.table = self.table_for(schema)
        self.scratch = buffer_new(memory.account, (schema.schema.n_fields + 1) * sizeof(VectorScratch))
        self.schema = schema

    cdef GroupTable* table_for(self, Schema schema) except NULL:
        """An empty set of rows."""
        cdef int32_t i
        cdef int32_t n_columns = schema.schema.n_fields
        cdef DataType* types = <DataType*> struct_new((n_columns + 1) * sizeof(DataType))
        try:
            for i in range(n_columns):
                types[i] = schema.schema.fields[i].type
                if types[i].id == TYPE_NESTED:
                    raise PlanError(
                        f"a recursive UNION cannot compare rows with the nested column "
                        f"{schema.schema.fields[i].name.decode()!r}; use UNION ALL"
                    )
            return group_table_new(self.memory.account, types, n_columns, NULL)
        finally:
            struct_free(types)

    def __dealloc__(self):
        group_table_free(self.table)
        buffer_unref(self.scratch)

    def widen(self, Schema schema):
        """Convert the rows to a schema with the same columns and wider types."""
        cdef GroupTable* wide = self.table_for(schema)
        try:
            group_table_widen(self.table, wide, self.memory)
            self.table, wide = wide, self.table
            self.schema = schema
        finally:
            group_table_free(wide)

    def add(self, PyBatch batch):
        """Add the rows of a batch. Returns a PyBatch of the rows that are new, each once.

        Raises SchemaChangeError if the batch has another schema.
        """
        cdef Buffer* fresh = NULL
        cdef Batch* taken = NULL
        cdef int64_t n = 0
        if not schema_equal(batch.batch.schema, self.schema.schema):
            raise SchemaChangeError("the schema of a recursive query's rows changed; cast its columns to one type")
        try:
            with nogil:
                fresh = buffer_new(self.memory.account, (batch.batch.n_selected + 1) * sizeof(uint32_t))
                n = self.find_fresh(batch.batch, <uint32_t*> fresh.data)
                if n == batch.batch.n_rows:
                    taken = batch_ref(batch.batch)
                else:
                    taken = batch_take(batch.batch, <uint32_t*> fresh.data, n, <Owner*> fresh, self.memory.account)
            return PyBatch.wrap(taken)
        finally:
            batch_unref(taken)
            buffer_unref(fresh)

    cdef int64_t find_fresh(self, Batch* batch, uint32_t* fresh) except -1 nogil:
        """Write the rows that make a new group, in order. Returns their number."""
        cdef uint32_t numbers[VECTOR_ROWS]
        cdef uint8_t met[VECTOR_ROWS]       # whether a row of this vector's new group was seen
        cdef Vector* vectors = <Vector*> struct_new((batch.n_columns + 1) * sizeof(Vector))
        cdef VectorScratch* scratch = <VectorScratch*> self.scratch.data
        cdef const uint32_t* rows
        cdef int64_t start = 0
        cdef int64_t count = 0
        cdef int64_t n, i, at, known
        cdef int32_t c
        try:
            while start < batch.n_selected:
                n = min(batch.n_selected - start, <int64_t> VECTOR_ROWS)
                rows = batch.selection + start if batch.selection != NULL else NULL
                for c in range(batch.n_columns):
                    column_load(batch.columns[c], start, rows, n, &scratch[c], &vectors[c])
                known = self.table.n_groups
                group_table_assign(self.table, vectors, NULL, n, numbers)
                memset(met, 0, n)
                for i in range(n):
                    at = <int64_t> numbers[i] - known
                    qc_check(at < n, b"a vector opens at most one group a row")
                    if at >= 0 and not met[at]:
                        met[at] = 1
                        fresh[count] = rows[i] if rows != NULL else <uint32_t> (start + i)
                        count += 1
                start += n
        finally:
            struct_free(vectors)
        return count
