"""A batch: columns of equal length, a schema, and an optional selection."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount, Owner, owner_ref, owner_unref


cdef enum:
    NO_PART = -1
    WHOLE_GROUPS = -2           # no other row of the source has the key of one of these rows (aggregate/key_runs)


ctypedef struct Batch:
    # Immutable once handed on; held by reference count, on any thread, without the GIL.
    Owner owner
    CSchema* schema             # owned
    int64_t n_rows              # physical rows of every column
    const uint32_t* selection   # NULL: all rows are selected; else the numbers of the selected rows, ascending
    int64_t n_selected          # selected rows: the row count that users see
    Owner* selection_owner
    int32_t n_columns
    int32_t part                # the radix part of all rows (rows/part_buffers), NO_PART or WHOLE_GROUPS
    Column** columns            # each owned; the array follows the struct


# A batch that references `schema`. Its columns are NULL; the caller fills in owned ones.
cdef Batch* batch_new(CSchema* schema, int64_t n_rows) except NULL nogil
cdef inline Batch* batch_ref(Batch* batch) noexcept nogil:
    """Take a reference."""
    return <Batch*> owner_ref(<Owner*> batch)

cdef inline void batch_unref(Batch* batch) noexcept nogil:
    """Drop a reference; NULL is ignored."""
    owner_unref(<Owner*> batch)

# Set the selection of a batch that was not handed on yet. References `owner`.
cdef void batch_select(Batch* batch, const uint32_t* selection, int64_t n_selected, Owner* owner) noexcept nogil
# The number of selected rows from the position in the selection on whose row number is below `limit`.
cdef int64_t batch_selected_below(const Batch* batch, int64_t position, int64_t limit) noexcept nogil
# The selected rows as a batch without selection: a new reference to the batch itself if it has no selection, else
# DICTIONARY columns over its columns.
cdef Batch* batch_compact(Batch* batch, MemoryAccount* account) except NULL nogil
# Physical rows rows[0..n), as columns_take takes them. A selection is ignored.
cdef Batch* batch_take(
    Batch* batch, const uint32_t* rows, int64_t n, Owner* rows_owner, MemoryAccount* account,
) except NULL nogil
# Rows start..start+n of a batch without selection. `start` is a multiple of 8.
cdef Batch* batch_slice(Batch* batch, int64_t start, int64_t n) except NULL nogil
# The same columns and selection under other names.
cdef Batch* batch_with_schema(Batch* batch, CSchema* schema) except NULL nogil
# Bytes of the values of the selected rows (column_bytes).
cdef int64_t batch_bytes(const Batch* batch) noexcept nogil
# The same for figures that nothing depends on, without a look at each row (column_bytes_about).
cdef int64_t batch_bytes_about(const Batch* batch) noexcept nogil
