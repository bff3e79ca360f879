"""Column store: rows that an operator keeps, column by column, in growing canonical buffers.

One driver fills a store, without locks. When all drivers have finished, they copy the other stores behind the rows of
the largest one together. Its columns are flat, so a row is a position in them.

Strings stay views into the heaps of their input columns, and the store keeps these heaps alive. If only a small share
of a heap's rows is kept, their bytes are copied instead, so that the store does not hold the memory of the other rows.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column, VectorScratch
from qcore_ext.data.schema cimport CSchema, DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount, Owner, OwnerList


ctypedef struct StoreColumn:
    DataType type
    int width                   # bytes a value
    Buffer* values              # owned
    Buffer* validity            # owned; NULL until the first null
    OwnerList* heaps            # owned; keeps string bytes alive; NULL for other types
    Arena* copies               # owned; bytes of strings that were copied out of their heap; NULL before the first
    const void* copied_from     # never dereferenced; the heap whose strings were copied last
    int64_t n_copied            # rows copied from that heap


ctypedef struct ColumnStore:
    Owner owner                 # held by reference count; changed only while one driver holds it
    MemoryAccount* account      # owned
    int64_t n_rows
    int64_t capacity
    OwnerList* nested           # owned; batches of the nested columns (nested_rows); their store columns stay empty
    int32_t n_columns
    StoreColumn* columns        # in the same allocation, after the struct


cdef ColumnStore* column_store_new(MemoryAccount* account, const DataType* types, int32_t n_columns) except NULL nogil
# An empty store for rows of a schema.
cdef ColumnStore* column_store_of(MemoryAccount* account, const CSchema* schema) except NULL nogil
# Append n <= VECTOR_ROWS rows of the columns: rows[0..n), or start..start+n if rows is NULL. The arguments are those of
# column_load. After an error the store may only be dropped.
cdef int column_store_append(
    ColumnStore* store, Column** columns, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch,
) except -1 nogil
# Append the selected rows of a batch.
cdef int column_store_append_batch(ColumnStore* store, const Batch* batch, VectorScratch* scratch) except -1 nogil
# Make the part with the most rows the store of the rows of all parts: it becomes parts[0] and gets space for them.
# Returns a reference to it. Its rows from n_kept[0] on, the number it had, are undefined until column_store_copy has
# copied them. After an error the parts may only be dropped.
cdef ColumnStore* column_store_join(
    ColumnStore** parts, int64_t n_parts,
    int64_t* n_kept,            # OUT
) except NULL nogil
# Copy those of the rows start..start+n, of a store that column_store_join made, which it did not have. `start` is a
# multiple of 8. Several threads may copy different rows.
cdef int column_store_copy(
    ColumnStore* store, int64_t n_kept, ColumnStore** parts, int64_t n_parts, int64_t start, int64_t n,
    const MemoryAccount* account,
) except -1 nogil
# Keep a batch with the nested columns of rows that column_store_append appends. Takes a new reference to `part`.
cdef int column_store_keep_nested(ColumnStore* store, Owner* part) except -1 nogil
# The rows as a batch of the schema, which the store's columns have. Nested columns are null. Afterwards as below.
cdef Batch* column_store_batch(const ColumnStore* store, CSchema* schema) except NULL nogil
# Column i, whose type must not be nested, as a flat column over all rows. The column may outlive the store. After this
# call no rows may be appended to the store.
cdef Column* column_store_column(const ColumnStore* store, int32_t i) except NULL nogil
