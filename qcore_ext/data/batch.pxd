"""A batch: columns of equal length, a schema, and which of the rows count."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount, Owner, owner_ref, owner_unref


ctypedef struct Batch:
    # Immutable once handed on; held by reference count, on any thread, without the GIL.
    Owner owner
    CSchema* schema             # owned
    int64_t n_rows              # physical rows of every column
    const uint32_t* selection   # NULL: all rows count; else the n_selected rows that do, ascending
    int64_t n_selected          # rows that count: what the outside calls the batch's rows
    Owner* selection_owner
    int32_t n_columns
    Column** columns            # each owned; lies behind the struct


# references schema; columns NULL, to be filled with owned ones
cdef Batch* batch_new(CSchema* schema, int64_t n_rows) except NULL nogil
cdef inline Batch* batch_ref(Batch* batch) noexcept nogil:
    """Take a reference."""
    return <Batch*> owner_ref(<Owner*> batch)

cdef inline void batch_unref(Batch* batch) noexcept nogil:
    """Drop a reference; NULL is ignored."""
    owner_unref(<Owner*> batch)

# on a batch not yet handed on; references owner
cdef void batch_select(Batch* batch, const uint32_t* selection, int64_t n_selected, Owner* owner) noexcept nogil
# The same rows without a selection: itself (a new reference) when it has none, else DICTIONARY columns over this one's.
cdef Batch* batch_compact(Batch* batch, MemoryAccount* account) except NULL nogil
# Rows rows[0..n) of the physical rows (a selection is not looked at), as columns_take does it.
cdef Batch* batch_take(
    Batch* batch, const uint32_t* rows, int64_t n, Owner* rows_owner, MemoryAccount* account,
) except NULL nogil
# of a batch without selection; start: a multiple of 8
cdef Batch* batch_slice(Batch* batch, int64_t start, int64_t n) except NULL nogil
# same columns and selection, other names
cdef Batch* batch_with_schema(Batch* batch, CSchema* schema) except NULL nogil
# What the values of the rows that count take of memory (column_bytes).
cdef int64_t batch_bytes(const Batch* batch) noexcept nogil
