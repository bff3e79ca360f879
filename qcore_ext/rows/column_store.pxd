"""Rows kept column by column in growing canonical buffers: what a join's build side collects.

A store is filled by one driver without locks; when all have finished, the stores are joined into one whose columns are
flat, so that a row of the build side is a position in them. Strings stay views into the heaps they came in, but for
those of few rows out of many: these are copied, lest they keep all the others' memory.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.column cimport Column, VectorScratch
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Arena, Buffer, MemoryAccount, Owner, OwnerList


ctypedef struct StoreColumn:
    DataType type
    int width                   # bytes a value
    Buffer* values              # owned
    Buffer* validity            # owned; NULL until the first null
    OwnerList* heaps            # owned; keeps string bytes alive; NULL for other types
    Arena* copies               # owned; bytes of strings that came among many that are not kept; NULL: none yet
    const void* copied_from     # only compared; the heap whose strings were copied last
    int64_t n_copied            # rows of it


ctypedef struct ColumnStore:
    Owner owner                 # held by reference count; changed only while one driver holds it
    MemoryAccount* account      # owned
    int64_t n_rows
    int64_t capacity
    OwnerList* nested           # owned; batches of the nested columns (nested_rows), whose store columns stay empty
    int32_t n_columns
    StoreColumn* columns        # lies behind the struct


cdef ColumnStore* column_store_new(MemoryAccount* account, const DataType* types, int32_t n_columns) except NULL nogil
# Append n <= VECTOR_ROWS rows of the columns: rows[0..n), or start..start+n when rows is NULL (column_load has the
# terms). After an error the store is only good for being dropped.
cdef int column_store_append(
    ColumnStore* store, Column** columns, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch,
) except -1 nogil
# All rows of the parts in order; a new reference to the one that has rows when only one has.
cdef ColumnStore* column_store_concat(ColumnStore** parts, int64_t n_parts, MemoryAccount* account) except NULL nogil
# Keep the nested columns of rows that are appended beside; takes a new reference to the part.
cdef int column_store_keep_nested(ColumnStore* store, Owner* part) except -1 nogil
# A flat column (not of a nested type) over all rows; it may outlive the store, which must not be appended to any more.
cdef Column* column_store_column(const ColumnStore* store, int32_t i) except NULL nogil
