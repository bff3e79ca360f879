"""Checks of the batches that operators return, in checked mode (QCORE_DEBUG=1)."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport CONSTANT, DICTIONARY, FLAT, Column
from qcore_ext.data.schema cimport CSchema, Schema, schema_equal, type_equal
from qcore_ext.ground.atomic cimport qc_load

from qcore_ext.ground.status import ExecutionError


cdef bint selection_sound(const uint32_t* selection, int64_t n_selected, int64_t n_rows) noexcept nogil:
    cdef int64_t i
    for i in range(n_selected):
        if selection[i] >= n_rows or (i > 0 and selection[i] <= selection[i - 1]):
            return False
    return True


cdef bint indices_sound(const Column* column) noexcept nogil:
    """Whether every index lies in the base or is NO_ROW."""
    cdef int64_t i
    cdef int64_t n_base = column.base.n_rows
    cdef const uint32_t* indices = column.indices
    if column.base.encoding == CONSTANT:
        return True
    for i in range(column.n_rows):
        if indices[i] >= n_base and indices[i] != <uint32_t> 0xFFFFFFFFU:
            return False
    return True


cdef int raise_broken(const char* what, const Batch* batch, int32_t i) except -1 nogil:
    with gil:
        column = f"; column {batch.schema.fields[i].name.decode('utf-8', 'replace')!r}" if i >= 0 else ""
        raise ExecutionError(f"returned a broken batch: {what.decode()}{column}; this is a bug of the operator")


cdef int raise_other_schema(const Batch* batch, const CSchema* schema) except -1 nogil:
    with gil:
        raise ExecutionError(
            "returned a batch of another schema than it declared; this is a bug of the operator\n"
            f"declared:\n{Schema.wrap(<CSchema*> schema)!r}\ngiven:\n{Schema.wrap(batch.schema)!r}"
        )


cdef int check_batch(const Batch* batch, const CSchema* schema) except -1 nogil:
    cdef int32_t i
    cdef const Column* column
    if schema != NULL and not schema_equal(batch.schema, schema):
        return raise_other_schema(batch, schema)
    if batch.n_columns != batch.schema.n_fields:
        return raise_broken(b"columns and fields differ in number", batch, -1)
    if batch.n_rows < 0 or batch.n_selected < 0 or batch.n_selected > batch.n_rows:
        return raise_broken(b"its row counts are impossible", batch, -1)
    if batch.selection == NULL:
        if batch.n_selected != batch.n_rows:
            return raise_broken(b"it selects some of its rows without a selection", batch, -1)
    elif not selection_sound(batch.selection, batch.n_selected, batch.n_rows):
        return raise_broken(b"its selection does not ascend, or selects rows that it does not have", batch, -1)
    for i in range(batch.n_columns):
        column = batch.columns[i]
        if column == NULL:
            return raise_broken(b"a column is missing", batch, i)
        if qc_load(&column.owner.references) < 1:
            return raise_broken(b"a column was already freed", batch, i)
        if column.n_rows < batch.n_rows:
            return raise_broken(b"a column is shorter than the batch", batch, i)
        if not type_equal(&column.type, &batch.schema.fields[i].type):
            return raise_broken(b"a column has another type than its field", batch, i)
        if column.encoding > DICTIONARY:
            return raise_broken(b"a column has an unknown encoding", batch, i)
        if column.encoding == DICTIONARY:
            if column.base == NULL or (column.indices == NULL and column.n_rows > 0):
                return raise_broken(b"a dictionary column has no base or no indices", batch, i)
            if column.base.encoding != FLAT and column.base.encoding != CONSTANT:
                return raise_broken(b"the base of a dictionary column is a dictionary", batch, i)
            if not indices_sound(column):
                return raise_broken(b"a dictionary column has an index outside its base", batch, i)
    return 0
